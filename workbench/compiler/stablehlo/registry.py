"""The handlers of StableHLO's operations, by name; ``stablehlo_op`` adds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.stablehlo.context import Handler

_HANDLERS: dict[str, Handler] = {}

H = TypeVar("H", bound=Handler)


def stablehlo_op(*names: str) -> Callable[[H], H]:
    """Register a function as the importer of some operations.

    The function takes a Context and the operation's operands, which are instructions, and returns the
    value of its result, or a list of them. A later registration of the same operation wins.

    Args:
        names: Operations, such as ``stablehlo.add``, ``chlo.erf`` or a composite's own name; a name
            without a dialect is one of ``stablehlo``.
    """

    def register(handler: H) -> H:
        _HANDLERS.update((n if "." in n else f"stablehlo.{n}", handler) for n in names)
        return handler

    return register


def find(name: str) -> Handler | None:
    """The handler of an operation, if there is one."""
    load()
    return _HANDLERS.get(name)


def operators() -> list[str]:
    """The names of all operations with a handler."""
    load()
    return sorted(_HANDLERS)


def load() -> None:
    """Import every file of handlers once; each registers its own."""
    import_modules("workbench.compiler.stablehlo.nodes")
