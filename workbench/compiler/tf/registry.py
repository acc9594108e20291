"""The handlers of TensorFlow operators, by name; ``tf_op`` adds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.tf.context import Handler

_HANDLERS: dict[str, Handler] = {}

H = TypeVar("H", bound=Handler)


def tf_op(*op_types: str) -> Callable[[H], H]:
    """Register a function as the importer of some operators.

    The function takes a NodeContext and the node's inputs, in TensorFlow's layout, and returns the
    instructions of its outputs. A later registration of the same operator wins.
    """

    def register(handler: H) -> H:
        for op_type in op_types:
            _HANDLERS[op_type] = handler
        return handler

    return register


def find(op_type: str) -> Handler | None:
    """The handler of an operator, if there is one."""
    load()
    return _HANDLERS.get(op_type)


def operators() -> list[str]:
    """The names of all operators with a handler."""
    load()
    return sorted(_HANDLERS)


def load() -> None:
    """Import every file of handlers once; each registers its own."""
    import_modules("workbench.compiler.tf.nodes")
