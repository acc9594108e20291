"""build.kernels(): what each kernel is made of, what it needs, and its machine code as text."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.builds.build import Build
from workbench.compiler.errors import DeviceError, InputError, OperationError
from workbench.gpu.code import disassembly
from workbench.gpu.code.cubins import cubin_facts, is_cubin
from workbench.gpu.code.disassembly import machine_code
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.nvrtc import NvrtcCompiler
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.report.kernels import facts_of

KERNEL = """extern "C" __global__ void __launch_bounds__(256) {name}(float *x, int n) {{
  {shared} float a[40];
  for (int i = 0; i < 40; i++) a[i] = x[i * n];
  {store}
}}
"""


def block() -> wb.Program:
    """A product, a softmax, the same product again, and a sum."""
    program = wb.Program("block")
    m = program.main
    x = m.add_parameter("x", wb.Shape("float", (32, 64)))
    weights = m.add_literal(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    with program.source("first"):
        y = m.add("softmax", m.add("relu", m.add("dot", x, weights)), axis=1)
    with program.source("second"):
        z = m.add("relu", m.add("dot", y, weights))
    m.add_return(m.add("reduce_sum", z, axes=(1,)))
    return program


def build_for(device: str | None) -> Build:
    if device is not None:
        try:
            compiler_for(device)
        except DeviceError as error:
            pytest.skip(str(error))
    return wb.compile(block(), target="gpu", device=device)


@pytest.fixture(scope="module")
def build() -> Build:
    return build_for(None)


def test_there_is_one_for_each_launch_in_order(build: Build):
    kernels = build.kernels()
    launched = [row for row in build.plan() if row.kind == "kernel"]
    assert [k.name for k in kernels] == [row.kernel.name for row in launched if row.kernel]
    assert [k.index for k in kernels] == list(range(len(launched)))
    assert [k.grid for k in kernels] == [row.grid for row in launched]


def test_each_knows_its_instruction_module_and_nodes(build: Build):
    kernel = next(k for k in build.kernels() if "exp" in k.what)
    instruction = next(i for i in build.program.main if i.id == kernel.id)
    assert kernel.module.splitlines()[-1].startswith(f"{kernel.instruction} = {instruction.name}")
    assert 'module: "' in kernel.module
    assert "@2 = " in kernel.module
    assert "first" in kernel.sources
    assert kernel.ids > {kernel.id}


def test_the_source_is_what_was_compiled(build: Build):
    for kernel in build.kernels():
        assert kernel.source == kernel.prologue + kernel.body
        assert f" {kernel.name}(" in kernel.body
        assert kernel.code_object


def test_each_waits_for_the_one_before_it(build: Build):
    for kernel in build.kernels():
        start = kernel.body[kernel.body.index("KERNEL(") :]
        first, second = start.partition("{")[2].split()[:2]
        assert (first, second) == ("NEXT_MAY_BEGIN();", "AFTER_OTHERS();")


def test_equal_kernels_share_their_code():
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (64,)))
    y = program.main.add("reverse", x, axes=(0,))
    program.main.add_return(program.main.add("reverse", y, axes=(0,)))
    kernels = wb.compile(program, target="gpu", passes=[]).kernels()
    first, second = kernels
    assert first.code_object is second.code_object
    assert "2 launches of 1 kernel>" in repr(kernels)


def test_they_are_found_by_place_instruction_and_name(build: Build):
    kernels = build.kernels()
    assert kernels[0] is kernels[-len(kernels)]
    assert kernels[kernels[1].instruction].id == kernels[1].id
    assert kernels[kernels[1].name].name == kernels[1].name
    assert len(kernels[1:]) == len(kernels) - 1
    with pytest.raises(InputError, match=r"no kernel 'nothing'.*@"):
        kernels["nothing"]


def test_a_profiled_result_adds_times(build: Build):
    result = build.run(profile=True, repetitions=3)
    kernels = build.kernels(result)
    assert all(k.seconds is not None for k in kernels)
    assert sum(k.seconds or 0 for k in kernels) > 0
    assert sum(k.share or 0 for k in kernels) == pytest.approx(1)
    table = kernels.table()
    assert list(table["ms"]) == [(k.seconds or 0) * 1e3 for k in kernels]


def test_a_result_of_another_build_is_refused(build: Build):
    other = wb.compile(block(), target="gpu").run(profile=True, repetitions=1)
    with pytest.raises(InputError, match="but the result to another"):
        build.kernels(other)


def test_an_unprofiled_result_is_refused(build: Build):
    with pytest.raises(OperationError, match="profile=True"):
        build.kernels(build.run())


def test_a_build_for_the_interpreter_has_none():
    with pytest.raises(OperationError, match="runs no kernels"):
        wb.compile(block(), target="ref").kernels()


def test_the_table_leaves_out_what_nothing_tells(build: Build):
    table = build.kernels().table()
    assert {"instruction", "what", "MB", "grid", "block", "name"} <= set(table.columns)
    assert "ms" not in table.columns


def test_rows_are_plain(build: Build):
    row = build.kernels().rows()[0]
    assert row["assembly"]() == build.kernels()[0].assembly
    assert {type(v) for k, v in row.items() if k != "assembly"} <= {
        int, float, str, list, type(None),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("device", "said"),
    [("hip:gfx90a", "s_endpgm"), ("hip:gfx1030", "s_endpgm"), ("cuda:sm_90", "PTX")],
)
def test_kernels_for_a_device_that_is_not_here(device: str, said: str):
    kernels = build_for(device).kernels()
    assert kernels.device == device
    for kernel in kernels:
        assert kernel.registers is not None
        assert 0 < kernel.registers <= 512
        assert kernel.shared is not None
        assert kernel.local is not None
        assert kernel.blocks is None
        assert said in kernel.assembly or "no disassembler" in kernel.assembly


# Machine code


def test_the_machine_code_of_the_cpu_is_text(build: Build):
    kernel = build.kernels()[0]
    if kernel.code_object[:7] != b"poclbin" or not shutil.which("objdump"):
        pytest.skip("PoCL and objdump are needed")
    assert f"{kernel.name}_workgroup:" in kernel.assembly
    assert "ret" in kernel.assembly
    assert "_pocl_kernel_" not in kernel.assembly


def test_what_a_block_of_a_cpu_computes_is_compiled_once(device: Device):
    """PoCL makes three functions of a kernel; what each would hold is a function that they call."""
    if device.kind != "opencl":
        pytest.skip("PoCL and objdump are needed")
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (64, 64)))
    y = program.main.add_parameter("y", wb.Shape("float", (64, 64)))
    program.main.add_return(program.main.add("dot", x, y))
    (kernel,) = wb.compile(program, target="gpu", device=device.spec).kernels()
    if kernel.code_object[:7] != b"poclbin" or not shutil.which("objdump"):
        pytest.skip("PoCL and objdump are needed")
    functions = re.split(r"^(?=\S+:$)", kernel.assembly, flags=re.MULTILINE)
    assert sum(f"{kernel.name}" in f.partition(":")[0] for f in functions) == 4
    assert sum("fmadd" in f or "mulps" in f for f in functions) == 1


def test_a_missing_disassembler_is_named(build: Build, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disassembly.shutil, "which", lambda *_, **__: None)
    kernel = build.kernels()[0]
    if kernel.code_object[:7] == b"poclbin":
        assert "install objdump" in kernel.assembly
    cubin = compiled("sm_90", "k", "", "x[0] = a[n];")
    text = machine_code(cubin, "ptx follows")
    assert "pip install nvidia-cuda-nvdisasm" in text
    assert text.endswith("ptx follows\n")


def test_a_disassembler_that_fails_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(disassembly, "_nvidia_tools", lambda _: [str(tool)])
    assert "no disassembler" in machine_code(compiled("sm_90", "k", "", "x[0] = a[n];"))


def test_what_a_disassembler_says_is_kept_without_directives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = tmp_path / "nvdisasm"
    said = "\t.target\tsm_90\n//---- .text.k ----\n\t.section\t.text.k\nk:\n.text.k:\n"
    said += "        /*0000*/      LDC R1 ;\n.L_x_0:\n"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\n")
    tool.chmod(0o755)
    monkeypatch.setattr(disassembly, "_nvidia_tools", lambda _: [str(tool)])
    text = machine_code(compiled("sm_90", "k", "", "x[0] = a[n];"))
    assert text.splitlines()[1:] == ["k:", "    /*0000*/ LDC R1 ;", ".L_x_0:"]


@pytest.mark.parametrize(
    "binary", [b"", b"\x7fELF", b"poclbin\0", b"poclbin .so\xff\xff\xff\xff\x7fELF", b"x" * 99]
)
def test_what_is_no_machine_code_is_said(binary: bytes):
    assert machine_code(binary).startswith("// ")


# What a cubin says of itself


def compiled(arch: str, name: str, shared: str, store: str) -> bytes:
    try:
        compiler = NvrtcCompiler(arch)
    except DeviceError as error:
        pytest.skip(str(error))
    source = KERNEL.format(name=name, shared=shared, store=store)
    return compiler.compile(source, name).binary


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_shared_and_local_memory_are_those_of_the_source(arch: str):
    store = "s[threadIdx.x] = a[n]; __syncthreads(); x[threadIdx.x] = s[n];"
    facts = cubin_facts(compiled(arch, "k", "__shared__ float s[300];", store), "k")
    assert facts.shared == 1200
    assert 0 < facts.registers <= 255
    facts = cubin_facts(compiled(arch, "k", "volatile", "x[threadIdx.x] = a[n + 1];"), "k")
    assert facts.shared == 0
    assert facts.local == 160 or " 13.0 " in NvrtcCompiler(arch).key  # which says it otherwise


def test_a_kernel_that_is_not_there_is_named():
    with pytest.raises(DeviceError, match=r"no kernel 'other'.*k"):
        cubin_facts(compiled("sm_90", "k", "", "x[0] = a[n];"), "other")


def test_a_damaged_cubin_is_refused_whatever_is_wrong():
    cubin = compiled("sm_90", "k", "", "x[0] = a[n];")
    assert is_cubin(cubin)
    with pytest.raises(DeviceError, match="expected a cubin"):
        cubin_facts(b"\0" * 200, "k")
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(cubin[: random.integers(64, len(cubin))])
        for place in random.integers(16, len(damaged), 4):
            damaged[place] = random.integers(256)
        damaged[18:20] = struct.pack("<H", 190)
        try:
            cubin_facts(bytes(damaged), "k")
        except DeviceError:
            continue


@pytest.mark.gpu
def test_the_code_object_says_what_the_device_says(build: Build):
    runner = build.runner
    assert runner is not None
    if runner.device is None or runner.device.kind == "opencl":
        pytest.skip("a GPU is needed")
    codes = runner.codes()
    for step in runner.plan().kernels:
        kernel = step.launch.kernel
        written, _ = facts_of(codes[kernel.name], kernel, None)
        said, _ = facts_of(codes[kernel.name], kernel, runner.device)
        assert (written.registers, written.shared, written.local) == (
            said.registers, said.shared, said.local,
        )  # fmt: skip
        assert said.blocks > 0
    assert all(k.occupancy is None or 0 < k.occupancy <= 1 for k in build.kernels())
