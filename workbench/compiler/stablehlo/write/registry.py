"""The writers of operations, by name; ``writes`` adds one, ``refuses`` says why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from workbench.compiler.discovery import import_modules

if TYPE_CHECKING:
    from workbench.compiler.stablehlo.write.call import Call
    from workbench.compiler.stablehlo.write.lines import Tensor

Written: TypeAlias = "Tensor | tuple[Written, ...]"
"""A value of the module, or those of a tuple."""

Writer: TypeAlias = "Callable[[Call], Written]"
"""Adds the lines of an instruction, and gives its value."""

_WRITERS: dict[str, Writer] = {}
_REASONS: dict[str, str] = {}

W = TypeVar("W", bound=Writer)


def writes(*names: str) -> Callable[[W], W]:
    """Register a function as the writer of some operations. A later registration wins."""

    def register(writer: W) -> W:
        _WRITERS.update(dict.fromkeys(names, writer))
        return writer

    return register


def refuses(reasons: Mapping[str, str]) -> None:
    """Register operations that are not written, each with a clause that says why."""
    _REASONS.update(reasons)


def find(name: str) -> Writer | None:
    """The writer of an operation, or None."""
    _load()
    return _WRITERS.get(name)


def written() -> list[str]:
    """The names of the operations that have a writer."""
    _load()
    return sorted(_WRITERS)


def refused() -> dict[str, str]:
    """The operations that have none, and why."""
    _load()
    return dict(_REASONS)


def _load() -> None:
    import_modules("workbench.compiler.stablehlo.write.operations")
