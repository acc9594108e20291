"""The processor that PoCL compiles for, named where its LLVM does not know it.

PoCL 3.0 has LLVM 14. On a processor that is newer, it asks clang for the processor ``generic``, which clang
refuses on x86-64, so that no kernel compiles. The name is a string that a device's structure points to, next
to the one of the target triple; it is replaced by a processor that LLVM 14 knows and this one includes.

The file imports nothing of the workbench: a process that tries PoCL runs it alone.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_UNKNOWN = b"generic"
_TRIPLE = b"x86_64-unknown-linux-gnu"
_SLOTS = 512
"""Pointers of a device's structure that are searched; PoCL 3.0 has the name in the 81st."""
_KNOWN = (
    (b"skylake-avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "bmi2", "fma"}),
    (b"haswell", {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe"}),
    (b"x86-64", set[str]()),
)
"""Processors that LLVM 14 knows, the best first, with the features that they need of this one."""
_names = {name: ctypes.create_string_buffer(name) for name, _ in _KNOWN}
"""The strings that devices point to, kept for as long as the process."""


def recognise(device: Any) -> str:
    """Let PoCL compile for a processor that its LLVM knows, if it did not recognise this one.

    Args:
        device: PoCL's device, as pyopencl has it; it has made no context yet.

    Returns:
        The name of the processor; empty if nothing had to be changed.
    """
    if not device.version.strip().endswith("-generic"):
        return ""
    name = _best(_flags())
    slots = (ctypes.c_uint64 * _SLOTS).from_address(device.int_ptr)
    readable = _readable()
    for k in range(_SLOTS - 1):
        here = device.int_ptr + 8 * k
        if not _holds(readable, here, 16):
            break
        if _reads(readable, slots[k], _TRIPLE) and _reads(readable, slots[k + 1], _UNKNOWN):
            slots[k + 1] = ctypes.addressof(_names[name])
            return name.decode()
    return ""


def vector_registers() -> tuple[int, int]:
    """The bytes of a vector register of this processor, and how many there are."""
    flags = _flags()
    if "avx512vl" in flags:
        return 64, 32
    return (32, 16) if "avx2" in flags else (16, 16)


def _best(flags: set[str]) -> bytes:
    return next(name for name, needed in _KNOWN if needed <= flags)


def _flags() -> set[str]:
    """The features of this processor, as Linux names them."""
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def _readable() -> list[tuple[int, int]]:
    """The ranges of addresses that this process may read."""
    found: list[tuple[int, int]] = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, rights = line.split()[:2]
        if rights.startswith("r"):
            start, end = (int(part, 16) for part in span.split("-"))
            found.append((start, end))
    return found


def _holds(readable: list[tuple[int, int]], address: int, bytes: int) -> bool:
    return any(start <= address and address + bytes <= end for start, end in readable)


def _reads(readable: list[tuple[int, int]], address: int, text: bytes) -> bool:
    """Whether a string stands at an address."""
    size = len(text) + 1
    return _holds(readable, address, size) and ctypes.string_at(address, size) == text + b"\0"
