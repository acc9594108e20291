"""Error messages of a kernel's compiler, with the source lines that they refer to."""

from __future__ import annotations

import re

from workbench.compiler.errors import DeviceError

_CONTEXT = 4
_LOG_LINES = 40
# clang's `kernel.hip:4:86: error: …`, OpenCL's `error: …/x.cl:4:86: …`, NVRTC's `kernel.cu(4): error: …`
_PLACES = (
    re.compile(r":(\d+):\d+: (?:fatal )?error\b"),
    re.compile(r"\((\d+)\): (?:catastrophic )?error\b"),
    re.compile(r"\berror: [^\n]*?:(\d+):\d+:"),
)

OPENCL_NO_ROOM = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY")
OPENCL_ADVICE = {
    **dict.fromkeys(
        OPENCL_NO_ROOM,
        "its memory is full: free builds that are not needed, or use a smaller batch",
    ),
    "INVALID_WORK_GROUP_SIZE": "the block's size is not the kernel's own, or is over the device's limit",
    "INVALID_KERNEL_ARGS": "an argument is missing",
    "INVALID_KERNEL_NAME": "the code object has no such kernel",
    "INVALID_BINARY": "the code object is damaged or belongs to another device: compile it again",
}


def compile_error(compiler: str, name: str, source: str, log: str) -> DeviceError:
    """The error of a kernel that does not compile: the log, and the lines around its first error.

    Args:
        compiler: The compiler and its target, e.g. ``hiprtc for gfx90a``.
        name: The kernel's name.
        source: The source that was compiled.
        log: The compiler's log.
    """
    said = log.strip().splitlines() or ["(the compiler wrote no log)"]
    if len(said) > _LOG_LINES:
        said = [*said[:_LOG_LINES], f"… and {len(said) - _LOG_LINES} more lines"]
    parts = [f"kernel {name} does not compile with {compiler}:", *said]
    line = first_error(log)
    if line:
        parts += [f"around line {line} of its source:", numbered(source, line)]
    return DeviceError("\n".join(parts))


def first_error(log: str) -> int:
    """The line of the source that the first error names; 0 if it names none."""
    found = [m for place in _PLACES if (m := place.search(log))]
    return int(min(found, key=lambda m: m.start())[1]) if found else 0


def numbered(source: str, line: int) -> str:
    """The lines of a source around one of them, numbered, with a mark at that one."""
    lines = source.splitlines()
    first, last = max(0, line - 1 - _CONTEXT), min(len(lines), line + _CONTEXT)
    width = len(str(last))
    return "\n".join(
        f"{'>' if k + 1 == line else ' '} {k + 1:{width}} | {lines[k]}" for k in range(first, last)
    )
