"""Provenance of instructions: a node's name, scopes, and attributes as short texts."""

from __future__ import annotations

from workbench.compiler.ir.module import SourceNode
from workbench.compiler.tf.reader import Message

_SHOWN = 200


def source_node(node: Message) -> SourceNode:
    """A node as a source of instructions; the parts of its name are its scopes."""
    scope = tuple(part for part in node.name.split("/")[:-1] if part)
    return SourceNode(
        node.name, node.op, scope, tuple(node.input), (node.name,), attributes_text(node)
    )


def attributes_text(node: Message) -> str:
    """Attributes as one short text: ``padding=SAME, strides=[1, 2, 2, 1]``."""
    text = ", ".join(f"{name}={_value_text(node.attr[name])}" for name in sorted(node.attr))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _value_text(value: Message) -> str:
    match value.WhichOneof("value"):
        case "i":
            return str(value.i)
        case "f":
            return f"{value.f:g}"
        case "b":
            return str(value.b)
        case "s":
            return value.s[:_SHOWN].decode("utf-8", "replace")
        case "list":
            return str(list(value.list.i[:20]) or [f"{f:g}" for f in value.list.f[:20]])
        case "tensor":
            return f"tensor{[d.size for d in value.tensor.tensor_shape.dim]}"
        case "shape":
            return f"shape{[d.size for d in value.shape.dim]}"
        case kind:
            return kind or "empty"
