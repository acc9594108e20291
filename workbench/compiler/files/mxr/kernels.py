"""The compiled part of a file: kernels for a device, and whether runs copy inputs and results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

from workbench.compiler.errors import ModelError
from workbench.compiler.files.mxr.values import expect
from workbench.compiler.files.mxr.writing import EXTRA

_KEY = "device"


@dataclass(frozen=True)
class SavedKernel:
    """A compiled kernel. Its machine code can do anything, so run it only if you trust the file's author."""

    name: str
    device: str
    """Everything besides the source that the code depends on: kind of device, architecture, versions."""
    source: str
    """The SHA-256 of the source from which it was compiled."""
    binary: bytes
    log: str = ""
    assembly: str = ""


@dataclass(frozen=True)
class Compiled:
    """The compiled part of a program for a device, as kept in a file."""

    kernels: tuple[SavedKernel, ...] = ()
    offload_copy: bool = True
    """Whether a run copies inputs to the device and results from it."""
    choices: tuple[tuple[str, str], ...] = ()
    """The variants of kernels that were chosen by measuring, after their problems."""

    def trusted(self, kernels: bool) -> Compiled:
        """This, without its kernels if their author is not trusted."""
        return self if kernels else replace(self, kernels=())


NOTHING = Compiled()


def with_compiled(value: dict[str, Any], compiled: Compiled) -> dict[str, Any]:
    """A program's value with its compiled part, placed where MIGraphX's reader ignores it."""
    if compiled == NOTHING:
        return value
    kernels = [asdict(k) for k in compiled.kernels]
    found: dict[str, Any] = {"offload_copy": compiled.offload_copy, "kernels": kernels}
    if compiled.choices:
        found["choices"] = dict(compiled.choices)
    return value | {EXTRA: {**value.get(EXTRA, {}), _KEY: found}}


def compiled_of(value: Any) -> Compiled:
    """The compiled part of a value from a file; nothing of it is loaded or run.

    Raises:
        ModelError: It is damaged.
    """
    extra: Any = value.get(EXTRA) or {}
    if _KEY not in extra:
        return NOTHING
    found = expect(extra[_KEY], dict, _KEY)
    kernels = expect(found.get("kernels") or [], list, "kernels")
    return Compiled(
        tuple(_kernel(k) for k in cast("list[Any]", kernels)),
        expect(found.get("offload_copy", True), bool, "offload_copy"),
        _choices(expect(found.get("choices") or {}, dict, "choices")),
    )


def _choices(value: dict[Any, Any]) -> tuple[tuple[str, str], ...]:
    for pair in value.items():
        for text in pair:
            expect(text, str, "choices")
    return tuple(value.items())


def _kernel(value: Any) -> SavedKernel:
    given = expect(value, dict, "kernel")
    for name in (f.name for f in fields(SavedKernel)):
        wanted = bytes if name == "binary" else str
        if not isinstance(given.get(name), wanted):
            raise ModelError(f"kernels: {name}: expected {wanted.__name__} in every kernel")
    return SavedKernel(**{f.name: given[f.name] for f in fields(SavedKernel)})
