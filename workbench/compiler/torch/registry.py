"""The handlers of PyTorch's operators, by name; ``torch_op`` adds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.torch.context import Handler

_HANDLERS: dict[str, Handler] = {}

COMPLEX: set[str] = set()
"""Operators whose handlers take or return complex numbers: values whose last axis has both parts."""

H = TypeVar("H", bound=Handler)


def torch_op(*names: str) -> Callable[[H], H]:
    """Register a function as the importer of some operators.

    The function takes a Context and the operator's arguments in the order of its schema, defaults filled
    in, and returns the value of its result, or a list of them. Tensors are instructions, and integers that
    are known only at run time are lengths. A later registration of the same operator wins.

    Args:
        names: Operators with their overloads, such as ``aten.add.Tensor``; without one, the default
            overload is meant (``aten.relu``).
    """

    def register(handler: H) -> H:
        _HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


def complex_op(*names: str) -> Callable[[H], H]:
    """Register a function as the importer of some operators that may have complex numbers."""
    COMPLEX.update(names)
    return torch_op(*names)


def registered(name: str) -> Handler | None:
    """The handler that an operator has so far; those of files that are not yet imported are unknown."""
    return _HANDLERS.get(name)


def find(name: str) -> Handler | None:
    """The handler of an operator, if there is one; the default overload has no suffix."""
    load()
    return _HANDLERS.get(name.removesuffix(".default"))


def operators() -> list[str]:
    """The names of all operators with a handler."""
    load()
    return sorted(_HANDLERS)


def load() -> None:
    """Import every file of handlers once; each registers its own."""
    import_modules("workbench.compiler.torch.nodes")
