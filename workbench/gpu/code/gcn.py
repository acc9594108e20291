"""AMD's machine code as text, by the library of AMD's compiler or by LLVM's objdump."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.compiler.errors import DeviceError
from workbench.gpu.code.objects import read_code_object
from workbench.gpu.devices.rocm import comgr_library, compiling

_SOURCE = 1
_EXECUTABLE = 8
_DISASSEMBLE_EXECUTABLE = 12
OBJDUMPS = ("llvm-objdump", *(f"llvm-objdump-{k}" for k in range(22, 13, -1)))
"""Names that LLVM's disassembler goes by."""
_SECONDS = 60


def disassemble(binary: bytes) -> str:
    """The machine code of a code object, an instruction a line, with addresses and its bytes.

    Raises:
        DeviceError: It is not a code object, or no disassembler for it is installed.
    """
    arch = read_code_object(binary).arch
    library = comgr_library()
    text = _with_comgr(library, binary, arch) if library is not None else None
    if text is None:
        text = _with_objdump(binary)
    if text is None:
        raise DeviceError(
            f"no disassembler for {arch} was found: install AMD's libamd_comgr "
            "(on Debian libamd-comgr2) or LLVM's llvm-objdump (on Debian llvm)"
        )
    return _tidy(text)


def _tidy(text: str) -> str:
    """The text without file names and trailing blanks, and with tabs as spaces."""
    lines = (line.rstrip().replace("\t", "    ") for line in text.splitlines())
    kept = [line for line in lines if "file format" not in line]
    return "\n".join(kept).strip("\n") + "\n"


class _Handle(ctypes.Structure):
    """comgr's handles are structures of one number, passed by value."""

    _fields_ = (("handle", ctypes.c_uint64),)


class _ComgrError(Exception):
    """Failure of a function of comgr."""


class _Comgr:
    """The few functions of comgr that disassemble."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def call(self, name: str, *arguments: Any) -> None:
        """Call the function ``amd_comgr_NAME``."""
        if status := getattr(self.library, f"amd_comgr_{name}")(*arguments):
            raise _ComgrError(f"{name}: status {status}")

    @contextmanager
    def made(self, create: str, destroy: str, *arguments: Any) -> Generator[_Handle]:
        """The object that a function creates, until the block ends."""
        handle = _Handle()
        self.call(create, *arguments, ctypes.byref(handle))
        try:
            yield handle
        finally:
            self.call(destroy, handle)

    def text(self, data: _Handle) -> bytes:
        """The contents of a data object."""
        size = ctypes.c_size_t()
        self.call("get_data", data, ctypes.byref(size), None)
        buffer = ctypes.create_string_buffer(size.value)
        self.call("get_data", data, ctypes.byref(size), buffer)
        return buffer.raw[: size.value]


def _with_comgr(library: ctypes.CDLL, binary: bytes, arch: str) -> str | None:
    comgr = _Comgr(library)
    isa = f"amdgcn-amd-amdhsa--{arch}".encode()
    try:
        with (
            comgr.made("create_data", "release_data", _EXECUTABLE) as data,
            comgr.made("create_data_set", "destroy_data_set") as given,
            comgr.made("create_data_set", "destroy_data_set") as made,
            comgr.made("create_action_info", "destroy_action_info") as action,
        ):
            comgr.call("set_data", data, ctypes.c_size_t(len(binary)), binary)
            comgr.call("set_data_name", data, b"kernel")
            comgr.call("data_set_add", given, data)
            comgr.call("action_info_set_isa_name", action, isa)
            with compiling:
                comgr.call("do_action", _DISASSEMBLE_EXECUTABLE, action, given, made)
            first = (made, _SOURCE, ctypes.c_size_t(0))
            with comgr.made("action_data_get_data", "release_data", *first) as text:
                return comgr.text(text).decode("utf-8", "replace")
    except _ComgrError:
        return None  # this version does not know the architecture; LLVM may


def _with_objdump(binary: bytes) -> str | None:
    for tool in filter(None, map(shutil.which, OBJDUMPS)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.hsaco"
            path.write_bytes(binary)
            command = [tool, "-d", "--triple=amdgcn-amd-amdhsa", str(path)]
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
            if done.returncode == 0:
                return done.stdout.decode("utf-8", "replace")
    return None
