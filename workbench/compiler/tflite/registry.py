"""The handlers of TensorFlow Lite's operators, by name; ``tflite_op`` adds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.tflite.context import Handler

_HANDLERS: dict[str, Handler] = {}

H = TypeVar("H", bound=Handler)


def tflite_op(*names: str) -> Callable[[H], H]:
    """Register a function as the importer of some operators.

    The function takes a Context and the operator's inputs, None for one that is left out, and returns the
    value of its output, or a list of them. Quantized inputs are floats. A later registration wins.

    Args:
        names: Operators as the schema names them, such as ``CONV_2D``; ``CUSTOM:Name`` for a custom one.
    """

    def register(handler: H) -> H:
        _HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


def find(name: str) -> Handler | None:
    """The handler of an operator, if there is one."""
    load()
    return _HANDLERS.get(name)


def operators() -> list[str]:
    """The names of all operators with a handler."""
    load()
    return sorted(_HANDLERS)


def load() -> None:
    """Import every file of handlers once; each registers its own."""
    import_modules("workbench.compiler.tflite.nodes")
