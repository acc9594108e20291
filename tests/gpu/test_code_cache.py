"""Compiled kernels: kept on disk, believed only when whole; errors that say where."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import workbench as wb
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.code.cache import compiled, read
from workbench.gpu.devices.base import Code, Compiler, Device
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import KernelStep
from workbench.knobs import knobs


class Counting(Compiler):
    """A device's compiler that counts what it is asked for."""

    def __init__(self, inner: Compiler) -> None:
        self.inner, self.dialect, self.names = inner, inner.dialect, []

    @property
    def key(self) -> str:
        return self.inner.key

    def compile(self, source: str, name: str) -> Code:
        self.names.append(name)
        return self.inner.compile(source, name)


def program(length: int = 12) -> Program:
    made = Program()
    x = made.main.add_parameter("x", Shape("float", (length,)))
    made.main.add_return(made.main.add("relu", x))
    return made


def kernels(device: Device) -> list[Kernel]:
    return [s.launch.kernel for s in lower(program(), device.dialect).kernels]


@pytest.fixture
def compiler(device: Device) -> Counting:
    return Counting(device.compiler)


def test_a_folder_that_others_can_write_to_is_neither_read_nor_written(
    tmp_path: Path, device: Device, compiler: Counting
):
    wanted = kernels(device)
    with knobs.scope(cache=str(tmp_path)):
        compiled(wanted, compiler)
        (tmp_path / "kernels").chmod(0o777)
        with pytest.warns(UserWarning, match="kernels are not kept in .*chmod 700"):
            compiled(wanted, compiler)
        assert len(compiler.names) == 2


def test_a_kernel_is_compiled_once(tmp_path: Path, device: Device, compiler: Counting):
    wanted = kernels(device)
    with knobs.scope(cache=str(tmp_path)):
        first = compiled([*wanted, *wanted], compiler)
        assert compiler.names == [wanted[0].name]
        assert compiled(wanted, compiler) == first
        assert len(compiler.names) == 1


def test_the_cache_stays_within_its_bound(tmp_path: Path, device: Device, compiler: Counting):
    with knobs.scope(cache=str(tmp_path), cache_bytes=1):
        assert compiled(kernels(device), compiler)
        assert compiled(kernels(device), compiler)
    assert len(compiler.names) == 2
    assert not list(tmp_path.rglob("*.code"))


@pytest.mark.parametrize("damage", [b"", b"junk", b"cut", b"flipped"])
def test_a_damaged_file_is_compiled_again(
    tmp_path: Path, damage: bytes, device: Device, compiler: Counting
):
    wanted = kernels(device)
    with knobs.scope(cache=str(tmp_path)):
        first = compiled(wanted, compiler)
        (path,) = tmp_path.rglob("*.code")
        whole = path.read_bytes()
        flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
        path.write_bytes({b"cut": whole[:-1], b"flipped": flipped}.get(damage, damage))
        assert read(path) is None
        assert compiled(wanted, compiler)[wanted[0].name].log == first[wanted[0].name].log
        assert len(compiler.names) == 2
        assert read(path) is not None


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, device: Device, compiler: Counting
):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with knobs.scope(cache=str(blocked)):
        assert compiled(kernels(device), compiler)
        assert compiled(kernels(device), compiler)
    assert len(compiler.names) == 2
    assert blocked.read_text() == "not a folder"


def test_a_kernel_that_does_not_compile_is_named_with_its_line_and_instruction(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
):
    from workbench.gpu.run import runner

    def broken(source: Program, *_: object) -> object:
        plan = lower(source, device.dialect)
        (step,) = plan.kernels
        kernel = replace(
            step.launch.kernel, source=step.launch.kernel.source + "\nnonsense here;\n"
        )
        return replace(
            plan, steps=(KernelStep(step.instruction, replace(step.launch, kernel=kernel)),)
        )

    monkeypatch.setattr(runner, "lower", broken)
    build = wb.compile(program(), target="gpu", device=device.spec)
    with knobs.scope(cache=str(tmp_path)), pytest.raises(DeviceError) as caught:
        build.run()
    text = str(caught.value)
    assert "relu" in text
    assert "nonsense here" in text
    monkeypatch.undo()
    wb.compile(program(), target="gpu", device=device.spec).run()


_PROCESS = """
import numpy as np, workbench as wb
from workbench.compiler.ir.shape import Shape
program = wb.Program()
x = program.main.add_parameter("x", Shape("float", (4,)))
program.main.add_return(program.main.add("relu", x))
build = wb.compile(program, target="gpu", device="opencl")
print(build.run({"x": np.array([-1, 0, 1, 2], np.float32)})[0].tolist())
"""


def test_two_processes_share_one_cache(tmp_path: Path, device: Device):
    if device.kind != "opencl":
        return
    environment = os.environ | {"WORKBENCH_CACHE": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", _PROCESS], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [p.communicate()[0].strip() for p in started] == [b"[0.0, 0.0, 1.0, 2.0]"] * 2
    assert len(list(tmp_path.rglob("*.code"))) == 1
    assert not [p for p in (tmp_path / "kernels").rglob(".*") if p.is_file()]
