"""Machine code as text, by any disassembler that is installed; without one the text says what to install."""

from __future__ import annotations

import importlib.util
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from workbench.compiler.errors import DeviceError
from workbench.gpu.code.cubins import is_cubin
from workbench.gpu.code.gcn import OBJDUMPS, disassemble
from workbench.gpu.code.objects import is_gcn, read_code_object

_SECONDS = 60
_POCL = b"poclbin"
_ELF = b"\x7fELF"
_X86 = 62
_MACHINE = struct.Struct("<16xHH")
_SIZE = struct.Struct("<I")
_NVIDIA_FOLDERS = (
    ("nvidia", "cu*/bin"),
    ("nvidia", "cuda_*/bin"),
    ("triton", "backends/nvidia/bin"),
)
"""Folders in which packages from PyPI install NVIDIA's tools."""
_CUDA_FOLDER = "/usr/local/cuda/bin"

NO_NVDISASM = (
    "no disassembler for NVIDIA's machine code was found: pip install nvidia-cuda-nvdisasm, or install "
    "the CUDA toolkit"
)
NO_OBJDUMP = (
    "no disassembler for the CPU's machine code was found: install objdump (on Debian binutils) or "
    "llvm-objdump (on Debian llvm)"
)


def machine_code(binary: bytes, assembly: str = "") -> str:
    """The machine code of a code object as text; a comment says what could not be disassembled.

    Args:
        binary: NVIDIA's cubin, AMD's code object, or PoCL's program binary.
        assembly: Assembly from the compiler, such as PTX; it is appended to the machine code.
    """
    shown = _shown(binary)
    return f"{shown}\n{_headed('PTX, from the compiler', assembly)}" if assembly else shown


def _shown(binary: bytes) -> str:
    if is_gcn(binary):
        return _gcn(binary)
    if is_cubin(binary):
        return _sass(binary)
    if binary.startswith(_POCL):
        return _host(binary)
    begin = binary[:8].hex(" ") or "nothing"
    return _comment(
        f"no disassembler for this kind of code: {len(binary):,} bytes that begin with {begin}"
    )


def _comment(text: str) -> str:
    return "".join(f"// {line}\n" for line in text.splitlines())


def _headed(head: str, text: str) -> str:
    return f"{_comment(head)}{text.rstrip()}\n"


def _gcn(binary: bytes) -> str:
    try:
        text = disassemble(binary).replace("Disassembly of section .text:\n", "")
        return _headed(f"machine code of {read_code_object(binary).arch}", text)
    except DeviceError as error:
        return _comment(str(error))


# NVIDIA

_AFTER_ADDRESS = re.compile(r"(?<=\*/)\s+")


def _sass(binary: bytes) -> str:
    for name, options in (("nvdisasm", ["-c"]), ("cuobjdump", ["-sass"])):
        for tool in _nvidia_tools(name):
            text = _output([tool, *options], binary, "kernel.cubin")
            if text is not None:
                return _headed(f"SASS, the machine code, by {name}", _without_frame(text))
    return _comment(NO_NVDISASM)


def _nvidia_tools(name: str) -> Generator[str]:
    """Candidates for one of NVIDIA's tools: on PATH, in the toolkit's folder, or in a package."""
    for folder in (None, _CUDA_FOLDER, *_packaged()):
        if found := shutil.which(name, path=folder):
            yield found


def _packaged() -> Generator[str]:
    for package, pattern in _NVIDIA_FOLDERS:
        spec = importlib.util.find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            yield from map(str, sorted(Path(place).glob(pattern)))


def _without_frame(text: str) -> str:
    """Instructions and labels, without the sections' directives and decoration."""
    kept = [line.rstrip() for line in text.splitlines()]
    return "\n".join(_indented(line) for line in kept if _is_code(line))


def _is_code(line: str) -> bool:
    start = line.strip()
    if start.startswith((".text.", "//-")):
        return False
    return bool(start) and (start.endswith(":") or not start.startswith("."))


def _indented(line: str) -> str:
    return f"    {_AFTER_ADDRESS.sub(' ', line.strip())}" if line[:1].isspace() else line


# The CPU, through PoCL


def _host(binary: bytes) -> str:
    libraries = list(_libraries(binary))
    if not libraries:
        return _comment(
            "the program binary holds no machine code: PoCL generates it at the first launch"
        )
    texts = [_of_library(library) for library in libraries]
    if None in texts:
        return _comment(NO_OBJDUMP)
    return "\n".join(dict.fromkeys(filter(None, texts)))


def _libraries(binary: bytes) -> Generator[bytes]:
    """The shared objects in a program binary of PoCL, which stores a file as name, size and bytes."""
    at = binary.find(_ELF)
    while at >= 0:
        size = _SIZE.unpack_from(binary, at - _SIZE.size)[0] if at >= _SIZE.size else 0
        is_library = binary[: at - _SIZE.size].endswith(b".so")
        if is_library and 0 < size <= len(binary) - at:
            yield binary[at : at + size]
        at = binary.find(_ELF, at + max(1, size if is_library else 1))


def _of_library(library: bytes) -> str | None:
    is_x86 = len(library) >= _MACHINE.size and _MACHINE.unpack_from(library)[1] == _X86
    for name, syntax in _objdumps(is_x86):
        tool = shutil.which(name)
        command = [tool or name, "-d", "--no-show-raw-insn", "-j", ".text", *syntax]
        text = _output(command, library, "kernel.so") if tool else None
        if text is not None:
            return _headed(f"machine code of the CPU, by {name}", _short(text))
    return None


def _objdumps(is_x86: bool) -> Iterable[tuple[str, Sequence[str]]]:
    yield "objdump", ["-M", "intel"] if is_x86 else []
    for name in OBJDUMPS:
        yield name, ["--x86-asm-syntax=intel"] if is_x86 else []


_SYMBOL = re.compile(r"^[0-9a-f]+ <(?:_pocl_kernel_)?(.+)>:$")
_CODE = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
_PLACE = re.compile(r"(\s+#\s*(?:0x)?[0-9a-f]+)?\s*<(?:_pocl_kernel_)?[^<>]*?(\+0x[0-9a-f]+)?>")
_ADDRESS = re.compile(r"\s+#\s*(?:0x)?[0-9a-f]+$")


def _short(text: str) -> str:
    """Labels and instructions with their addresses; jumps show the address without symbol and offset."""
    lines: list[str] = []
    for line in text.splitlines():
        if label := _SYMBOL.match(line):
            lines += ["", f"{label[1]}:"] if lines else [f"{label[1]}:"]
        elif code := _CODE.match(line):
            said = _ADDRESS.sub("", _PLACE.sub("", code[2])).replace("\t", " ").strip()
            lines.append(f"    {code[1]}: {said}")
    return "\n".join(lines)


def _output(command: Sequence[str], binary: bytes, name: str) -> str | None:
    """The output of a tool for a file; None if the tool fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(binary)
        try:
            done = subprocess.run(
                [*command, str(path)], capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
