"""NVIDIA's cubins: a kernel's registers and memory, read from the sections of the file.

A cubin is an ELF file. The attributes in its section ``.nv.info`` give each function's registers and
the memory of a thread; the size of ``.nv.shared.NAME`` is the shared memory of a block. A file may
come from a cache folder and be damaged, so every length is checked against the file's own.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import FunctionFacts

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_CUDA = 190
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTIONS = 65_535
_NO_BITS = 8

_REGISTERS, _FRAME = 0x2F, 0x11
_SIZED = 4
_RESERVED = 1024
"""Bytes of shared memory that the system reserves in each block from sm_90 on; the section includes them."""


def is_cubin(binary: bytes) -> bool:
    """Whether these bytes are NVIDIA's machine code, by their header."""
    if len(binary) < _HEADER.size or not binary.startswith(_MAGIC):
        return False
    return _HEADER.unpack_from(binary)[2] == _CUDA


def cubin_facts(binary: bytes, name: str) -> FunctionFacts:
    """Registers, shared memory and local memory of one kernel. The occupancy is known only to a device.

    Raises:
        DeviceError: It is not a cubin, is damaged, or has no such kernel.
    """
    if not is_cubin(binary):
        raise DeviceError(
            f"expected a cubin (ELF, 64 bits, machine {_CUDA}), found {len(binary)} bytes that begin "
            f"with {binary[:8].hex(' ') or 'nothing'}"
        )
    try:
        return _Cubin(binary).facts(name)
    except (KeyError, ValueError, struct.error) as error:
        raise DeviceError(f"the cubin is damaged: {error}; compile it again") from error


@dataclass(frozen=True)
class _Section:
    kind: int
    start: int
    size: int


@dataclass(frozen=True)
class _Cubin:
    binary: bytes

    def facts(self, name: str) -> FunctionFacts:
        if name not in self.functions:
            names = ", ".join(n for n in self.functions if n) or "none"
            raise DeviceError(f"the cubin has no kernel {name!r}; its functions: {names}")
        number = self.functions[name]
        said = {what: value for what, function, value in self._attributes() if function == number}
        return FunctionFacts(said.get(_REGISTERS, -1), self._shared(name), said.get(_FRAME, -1))

    def _shared(self, name: str) -> int:
        section = self.sections.get(f".nv.shared.{name}")
        if section is None:
            return 0
        reserved = _RESERVED if ".nv.shared.reserved.0" in self.sections else 0
        return max(0, section.size - reserved)

    @cached_property
    def sections(self) -> Mapping[str, _Section]:
        header = _HEADER.unpack_from(self.binary)
        start, size, count = header[6], header[11], header[12]
        named: int = header[13]
        if size != _SECTION.size or not 0 <= named < count <= _SECTIONS:
            raise ValueError(f"{count} sections of {size} bytes in its header")
        table = _part(self.binary, start, count * size)
        rows: list[tuple[int, ...]] = [_SECTION.unpack_from(table, k * size) for k in range(count)]
        sections: list[tuple[int, _Section]] = [
            (row[0], _Section(row[1], row[4], row[5])) for row in rows
        ]
        names = self._part_of(sections[named][1])
        return {_text(names, start): section for start, section in sections}

    @cached_property
    def functions(self) -> Mapping[str, int]:
        """The numbers of the symbols, by name."""
        names, table = self._contents(".strtab"), self._contents(".symtab")
        count = len(table) // _SYMBOL.size
        starts = (_SYMBOL.unpack_from(table, k * _SYMBOL.size)[0] for k in range(count))
        return {_text(names, start): k for k, start in enumerate(starts)}

    def _contents(self, name: str) -> bytes:
        section = self.sections.get(name)
        if section is None or section.kind == _NO_BITS:
            raise ValueError(f"it has no section {name}")
        return self._part_of(section)

    def _part_of(self, section: _Section) -> bytes:
        return _part(self.binary, section.start, section.size)

    def _attributes(self) -> Generator[tuple[int, int, int]]:
        """The attributes of functions: kind, the number of the function's symbol, value."""
        text, at = self._contents(".nv.info"), 0
        while at + 4 <= len(text):
            form, what, size = struct.unpack_from("<BBH", text, at)
            at += 4
            if form != _SIZED:
                continue  # the field that was read as a size is the value
            if size == 8:
                yield (what, *struct.unpack_from("<II", text, at))
            at += size


def _part(binary: bytes, start: int, size: int) -> bytes:
    if start + size > len(binary):
        raise ValueError(f"{size} bytes from byte {start} are past its end, byte {len(binary)}")
    return binary[start : start + size]


def _text(names: bytes, start: int) -> str:
    end = names.find(b"\0", start)
    if not 0 <= start < len(names) or end < 0:
        raise ValueError(f"a name at byte {start} of {len(names)}")
    return names[start:end].decode("utf-8", "replace")
