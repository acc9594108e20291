"""HIP without a device: AMD's own compiler, its messages, and what its code objects say."""

import os
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.compiler.errors import DeviceError
from workbench.gpu.code import gcn
from workbench.gpu.code.objects import is_gcn, read_code_object
from workbench.gpu.devices import rocm
from workbench.gpu.devices.hip import compiler, found, packed
from workbench.gpu.devices.hiprtc import renamed, wave

ARCHITECTURES = {"gfx90a": 64, "gfx908": 64, "gfx1030": 32}
SOURCE = """
KERNEL(256) sums(const GLOBAL u16 *x, GLOBAL f32 *y, i32 n) {
  SHARED f32 part[256];
  i32 i = GROUP(0) * 256 + LOCAL(0);
  part[LOCAL(0)] = i < n ? half_f32(x[i]) : 0;
  BARRIER();
  f32 v = part[255 - LOCAL(0)];
  UNROLL
  for (i32 m = 16; m > 0; m /= 2) v += SHUFFLE_XOR(v, m);
  if (i < n) y[i] = v;
}
"""


@pytest.fixture(scope="module")
def compile():
    """`compile(arch, body)` gives a kernel's code object."""
    try:
        compiler("gfx90a")
    except DeviceError as error:
        if os.environ.get("WORKBENCH_FORBID_SKIPS"):
            raise
        pytest.skip(str(error))

    def compiled(arch, body=SOURCE, name="sums"):
        made = compiler(arch)
        return made.compile(made.dialect.prologue + body, name)

    return compiled


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_kernel_compiles_and_its_code_object_says_what_it_needs(compile, arch):
    code = compile(arch)
    said = read_code_object(code.binary)
    kernel = said.kernel("sums")
    assert is_gcn(code.binary)
    assert said.arch == arch
    assert kernel.wave == ARCHITECTURES[arch] == wave(arch)
    assert kernel.shared == 1024
    assert kernel.threads == 256
    assert kernel.arguments == 20
    assert kernel.spills == kernel.private == 0
    assert kernel.vgprs > 0
    assert kernel.sgprs > 0


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_machine_code_is_shown_as_text(compile, arch):
    text = gcn.disassemble(compile(arch).binary)
    assert "sums" in text
    assert "s_barrier" in text
    assert "s_endpgm" in text


def test_llvms_objdump_reads_the_same_machine_code(compile, monkeypatch):
    binary = compile("gfx90a").binary
    if not any(map(gcn.shutil.which, gcn.OBJDUMPS)):
        pytest.skip("LLVM's objdump is not installed")

    def instructions():
        lines = gcn.disassemble(binary).splitlines()
        return [line.split()[0] for line in lines if "//" in line and "<" not in line]

    expected = instructions()
    monkeypatch.setattr(gcn, "comgr_library", lambda: None)
    assert instructions() == expected


def test_without_a_disassembler_the_error_says_which_to_install(compile, monkeypatch):
    binary = compile("gfx90a").binary
    monkeypatch.setattr(gcn, "comgr_library", lambda: None)
    monkeypatch.setattr(gcn, "OBJDUMPS", ())
    with pytest.raises(DeviceError, match=r"libamd-comgr2.*llvm-objdump"):
        gcn.disassemble(binary)


@pytest.mark.parametrize("file", ["CompileSource", "sums.hip"])  # of ROCm 5, and of later ones
def test_a_log_does_not_name_temporary_files(file: str):
    log = f"In file {file}:\n/tmp/comgr-d164b8/input/{file}:58:28: error: use of 'half_of'\n"
    said = renamed(log, "sums")
    assert said == f"In file {file}:\nsums.hip:58:28: error: use of 'half_of'\n"


def test_a_source_that_does_not_compile_is_shown_with_its_line(compile):
    with pytest.raises(DeviceError) as caught:
        compile("gfx90a", SOURCE.replace("half_f32(x", "half_of(x"))
    said = str(caught.value)
    assert "kernel sums does not compile with hiprtc for gfx90a" in said
    assert "error: use of undeclared identifier 'half_of'" in said
    assert "sums.hip:" in said
    assert "comgr-" not in said
    marked = [line for line in said.splitlines() if line.startswith(">")]
    assert len(marked) == 1
    assert "half_of(x[i])" in marked[0]


def test_threads_compile_at_once_what_one_compiles_alone(compile):
    bodies = [SOURCE.replace("v += ", f"v += {k}.0f + ") for k in range(6)]
    alone = [compile("gfx90a", body).binary for body in bodies]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda body: compile("gfx90a", body).binary, bodies))
    assert together == alone
    assert len(set(alone)) == len(bodies)


@pytest.mark.usefixtures("compile")
def test_the_key_tells_architectures_and_versions_apart():
    keys = {compiler(arch).key for arch in ARCHITECTURES}
    assert len(keys) == len(ARCHITECTURES)
    assert compiler("gfx90a:sramecc+:xnack-").key == compiler("gfx90a").key


@pytest.mark.usefixtures("compile")
@pytest.mark.parametrize("arch", ["gfx90000", "sm_9", "", "--help", "gfx90a -O0"])
def test_what_is_no_processor_is_refused(arch):
    with pytest.raises(DeviceError, match="expected a processor such as gfx90a"):
        compiler(arch)


@pytest.mark.usefixtures("compile")
def test_a_processor_that_ends_hiprtc_5_is_refused_before():
    if not compiler("gfx90a").version.startswith("5."):
        pytest.skip("a newer HIP says so itself")
    with pytest.raises(DeviceError, match="does not compile for gfx942; it knows gfx801 to"):
        compiler("gfx942")


@pytest.mark.usefixtures("compile")
def test_without_a_device_the_error_says_what_to_do():
    try:
        here = found()
    except DeviceError as error:
        said = str(error)
        assert "hipErrorNoDevice" in said
        assert "/dev/kfd" in said
        assert "hip:gfx90a" in said
    else:
        assert here


@pytest.fixture
def unopened():
    """hip-python as it is before the first call, and afterwards."""
    rocm.hip_python.cache_clear()
    yield
    rocm.hip_python.cache_clear()


@pytest.mark.usefixtures("unopened")
def test_without_hip_python_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hip", None)
    with pytest.raises(DeviceError, match=r"pip install hip-python"):
        compiler("gfx90a")


@pytest.mark.usefixtures("compile", "unopened")
def test_without_hips_library_the_error_names_the_packages(monkeypatch):
    monkeypatch.setattr(rocm, "opens", lambda *_: False)
    with pytest.raises(DeviceError, match=r"libamdhip64 is not installed.*apt-get install"):
        compiler("gfx90a")


@pytest.mark.usefixtures("compile", "unopened")
def test_without_hips_compiler_the_error_names_the_packages(monkeypatch):
    monkeypatch.setattr(rocm, "opens", lambda _, symbol: symbol == "hipInit")
    with pytest.raises(DeviceError, match=r"libhiprtc is not installed.*apt-get install"):
        compiler("gfx90a")


@pytest.mark.usefixtures("unopened", "compile")
def test_hip_python_is_told_where_its_libraries_are_for_that_moment_alone():
    paths = sys.modules["rocm.bindings.util.paths"]
    before = paths.get_library_path
    rocm.hip_python()
    assert paths.get_library_path is before


def test_an_argument_lies_at_a_multiple_of_its_size():
    one, two, four = b"\1", b"\2\2", b"\4\4\4\4"
    assert packed([one, two, one, four]) == b"\1\0\2\2\1\0\0\0\4\4\4\4"
    assert packed([four, 0x1122]) == four + bytes(4) + b"\x22\x11" + bytes(6)
    assert packed([]) == b""


def elf(note, machine=224):
    """The least code object that has this note."""
    text = struct.pack("<III", 7, len(note), 32) + b"AMDGPU\0\0" + note
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(text), len(text), 4) + text


def described(kernels, target="amdgcn-amd-amdhsa--gfx90a"):
    return msgpack.packb({"amdhsa.target": target, "amdhsa.kernels": kernels})


def test_a_code_object_is_read_and_what_it_does_not_say_is_minus_one():
    said = read_code_object(elf(described([{".name": "k", ".vgpr_count": 9}])))
    assert said.arch == "gfx90a"
    assert said.kernel("k").vgprs == 9
    assert said.kernel("k").wave == -1
    with pytest.raises(DeviceError, match="no kernel 'j'; its kernels: k"):
        said.kernel("j")


@pytest.mark.parametrize(
    ("binary", "why"),
    [
        (b"", "expected an AMD code object"),
        (b"\x7fELF\x02\x01", "expected an AMD code object"),
        (elf(described([]), machine=62), "expected an AMD code object"),
        (elf(described([]))[:-1], "past its end"),
        (elf(b"\xc1"), "damaged"),
        (elf(msgpack.packb([1])), "is not a map"),
        (elf(described([{}])), "damaged"),
        (elf(described([7])), "damaged"),
        (elf(described(7)), "damaged"),
        (elf(described([{".name": "k", ".vgpr_count": "many"}])), "not a number"),
        (elf(described([], target="x86_64")), "its target is 'x86_64'"),
    ],
)
def test_a_damaged_code_object_is_refused_with_the_reason(binary, why):
    with pytest.raises(DeviceError, match=why):
        read_code_object(binary)


@given(st.data())
def test_no_bytes_do_worse_than_a_refusal(data):
    binary = bytearray(elf(described([{".name": "k", ".vgpr_count": 9, ".wavefront_size": 64}])))
    for _ in range(data.draw(st.integers(1, 4))):
        binary[data.draw(st.integers(0, len(binary) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DeviceError):
        read_code_object(bytes(binary[: data.draw(st.integers(0, len(binary)))]))
