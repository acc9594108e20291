"""The handlers of ONNX operators, by name; ``onnx_op`` adds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.onnx.context import Handler

STANDARD = {"", "ai.onnx"}
DOMAINS = STANDARD | {
    "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft", "com.amd",
    "org.pytorch.aten",
}  # fmt: skip
"""Operator sets whose operators are looked up by name only."""

_HANDLERS: dict[tuple[str | None, str], Handler] = {}
_STRICT: dict[tuple[str | None, str], Handler] = {}
"""Handlers that emit what MIGraphX's importer emits, for strict imports."""


H = TypeVar("H", bound=Handler)


def onnx_op(*op_types: str, domain: str | None = None) -> Callable[[H], H]:
    """Register a function as the importer of some operators.

    The function takes a NodeContext and the node's inputs, and returns the instructions of its outputs.
    A later registration of the same operator wins.

    Args:
        op_types: Names of operators.
        domain: The operator set; any of the common ones if None.
    """

    def register(handler: H) -> H:
        for op_type in op_types:
            _HANDLERS[domain, op_type] = handler
            for key in ((domain, op_type), (None, op_type)):
                _STRICT.pop(key, None)
        return handler

    return register


def strict_op(*op_types: str, domain: str | None = None) -> Callable[[H], H]:
    """Register a function as the importer of some operators for strict imports.

    A handler that ``onnx_op`` registers later replaces it.
    """

    def register(handler: H) -> H:
        _STRICT.update({(domain, op_type): handler for op_type in op_types})
        return handler

    return register


def find(domain: str, op_type: str, *, strict: bool = False) -> Handler | None:
    """The handler of an operator, or None; for strict imports, preferably the strict one."""
    load()
    domain = "" if domain in STANDARD else domain
    tables = (_STRICT, _HANDLERS) if strict else (_HANDLERS,)
    for table in tables:
        own = table.get((domain, op_type))
        if own is None and domain in DOMAINS:
            own = table.get((None, op_type))
        if own is not None:
            return own
    return None


def operators() -> list[str]:
    """The names of all operators with a handler."""
    load()
    return sorted({op_type for _, op_type in _HANDLERS})


def load() -> None:
    """Import every file of handlers once; each registers its own."""
    import_modules("workbench.compiler.onnx.nodes")
    import_modules("workbench.compiler.onnx.strict")
