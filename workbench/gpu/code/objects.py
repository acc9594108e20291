"""AMD's code objects: registers, memory and lanes of kernels, read from the notes.

A code object is an ELF file whose note ``AMDGPU`` is a msgpack map. It may come from a cache folder or
from elsewhere and be damaged, so every offset and size is checked against the file's length.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from workbench.compiler.errors import DeviceError
from workbench.compiler.files.mxr.msgpack_form import read_msgpack

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_AMDGPU = 224
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III")
_PT_NOTE = 4
_METADATA = 32
_SEGMENTS = 256
_TARGET = "amdgcn-amd-amdhsa--"


@dataclass(frozen=True)
class GcnKernel:
    """The compiler's description of a kernel in a code object; -1 stands for what it does not say."""

    name: str
    vgprs: int
    """Vector registers: one value per lane."""
    agprs: int
    """Accumulation registers, which the matrix units of gfx908 and later have."""
    sgprs: int
    """Scalar registers: one value per wave."""
    shared: int
    """Bytes of shared memory (LDS) per block."""
    private: int
    """Bytes of private memory per lane: arrays and spilled registers."""
    spills: int
    """Spilled registers, scalar and vector ones."""
    wave: int
    """Lanes of a wave: 64 or 32."""
    threads: int
    """Most work items of a block."""
    arguments: int
    """Bytes of the kernel's arguments."""


@dataclass(frozen=True)
class CodeObject:
    """The metadata of a code object."""

    arch: str
    """The processor, e.g. ``gfx90a``; after a colon come its settings."""
    kernels: tuple[GcnKernel, ...]

    def kernel(self, name: str) -> GcnKernel:
        """The kernel of this name.

        Raises:
            DeviceError: There is none.
        """
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        names = ", ".join(k.name for k in self.kernels) or "none"
        raise DeviceError(f"the code object has no kernel {name!r}; its kernels: {names}")


def is_gcn(binary: bytes) -> bool:
    """Whether these bytes are an AMD code object, by their header."""
    if len(binary) < _HEADER.size or not binary.startswith(_MAGIC):
        return False
    return _HEADER.unpack_from(binary)[2] == _AMDGPU


def read_code_object(binary: bytes) -> CodeObject:
    """The facts in a code object's notes.

    Raises:
        DeviceError: It is not an AMD code object, is damaged, or has no such note.
    """
    if not is_gcn(binary):
        raise DeviceError(
            f"expected an AMD code object (ELF, 64 bits, machine {_AMDGPU}), found {len(binary)} bytes "
            f"that begin with {binary[:8].hex(' ') or 'nothing'}"
        )
    try:
        return _code_object(_metadata(binary))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DeviceError(f"the code object is damaged: {error}; compile it again") from error


def _metadata(binary: bytes) -> Mapping[str, Any]:
    for name, kind, text in _notes(binary):
        if name == b"AMDGPU" and kind == _METADATA:
            found: object = read_msgpack(text)
            if isinstance(found, dict):
                return cast("dict[str, Any]", found)
            raise ValueError("its note AMDGPU is not a map")
    raise ValueError("it has no note AMDGPU with metadata")


def _notes(binary: bytes) -> Generator[tuple[bytes, int, bytes]]:
    header = _HEADER.unpack_from(binary)
    start, size, count = header[5], header[9], header[10]
    if size != _SEGMENT.size or count > _SEGMENTS:
        raise ValueError(f"{count} segments of {size} bytes in its header")
    for k in range(count):
        segment = _SEGMENT.unpack(_part(binary, start + k * size, size))
        if segment[0] == _PT_NOTE:
            yield from _notes_of(_part(binary, segment[2], segment[5]))


def _notes_of(segment: bytes) -> Generator[tuple[bytes, int, bytes]]:
    at = 0
    while at + _NOTE.size <= len(segment):
        name_size, size, kind = _NOTE.unpack_from(segment, at)
        at += _NOTE.size
        name = _part(segment, at, name_size).rstrip(b"\0")
        at += -(-name_size // 4) * 4
        yield name, kind, _part(segment, at, size)
        at += -(-size // 4) * 4


def _part(binary: bytes, start: int, size: int) -> bytes:
    if start + size > len(binary):
        raise ValueError(f"{size} bytes from byte {start} are past its end, byte {len(binary)}")
    return binary[start : start + size]


def _code_object(metadata: Mapping[str, Any]) -> CodeObject:
    target = metadata.get("amdhsa.target", _TARGET)
    if not isinstance(target, str) or not target.startswith(_TARGET):
        raise ValueError(f"its target is {target!r}, not {_TARGET}…")
    kernels = tuple(_kernel(k) for k in metadata.get("amdhsa.kernels", []))
    return CodeObject(target.removeprefix(_TARGET), kernels)


def _kernel(entry: Mapping[str, Any]) -> GcnKernel:
    def number(key: str) -> int:
        value = entry.get(key, -1)
        if not isinstance(value, int):
            raise TypeError(f"its {key} is {value!r}, not a number")
        return value

    return GcnKernel(
        name=str(entry[".name"]),
        vgprs=number(".vgpr_count"),
        agprs=number(".agpr_count"),
        sgprs=number(".sgpr_count"),
        shared=number(".group_segment_fixed_size"),
        private=number(".private_segment_fixed_size"),
        spills=max(0, number(".vgpr_spill_count")) + max(0, number(".sgpr_spill_count")),
        wave=number(".wavefront_size"),
        threads=number(".max_flat_workgroup_size"),
        arguments=number(".kernarg_segment_size"),
    )
