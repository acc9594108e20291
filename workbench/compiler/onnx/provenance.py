"""Provenance of instructions: unique node names, scopes, and attributes as short texts."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx

from workbench.compiler.ir.module import SourceNode
from workbench.compiler.ir.program import Program

_SHOWN = 200
_SCOPES_KEY = "pkg.torch.onnx.name_scopes"
_A = onnx.AttributeProto


@dataclass
class Provenance:
    """Registers the nodes and initialisers of a model as the source nodes of a program."""

    program: Program
    taken: set[str] = field(default_factory=set[str])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    """The highest number tried for each name, so that the next node need not try these again."""

    def initializer(self, name: str) -> str:
        """Register an initialiser; returns its name as a source."""
        scope = tuple(part for part in name.split(".")[:-1] if part)
        if "/" in name:
            scope = _from_path(name)
        return self._add(SourceNode(name, "Initializer", scope, (), (name,)), "initializer")

    def node(self, node: onnx.NodeProto, index: int, prefix: str, scope: tuple[str, ...]) -> str:
        """Register a node; returns its unique name as a source.

        Args:
            node: The node.
            index: Its position in its graph.
            prefix: The prefix of the name: the call of the enclosing function.
            scope: The scope of that call.
        """
        made = SourceNode(
            prefix + node.name if node.name else "",
            f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
            scope + scope_of(node),
            tuple(node.input),
            tuple(node.output),
            attributes_text(node.attribute),
        )
        return self._add(made, f"{prefix}{node.op_type}_{index}")

    def restore(self, known: dict[str, SourceNode]) -> None:
        """Discard the nodes registered since then, which are imported again."""
        self.program.source_nodes.clear()
        self.program.source_nodes.update(known)
        self.taken = set(known)
        self._counts.clear()

    def _add(self, made: SourceNode, fallback: str) -> str:
        name = base = made.name or fallback
        count = self._counts.get(base, 0)
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self.taken.add(name)
        if name != made.name:
            made = SourceNode(
                name, made.op_type, made.scope, made.inputs, made.outputs, made.attributes
            )
        self.program.source_nodes[name] = made
        return name


def scope_of(node: onnx.NodeProto) -> tuple[str, ...]:
    """The enclosing scopes of a node, outermost first.

    Read from the metadata of PyTorch's exporter (``pkg.torch.onnx.name_scopes``), or else from a name that
    is a path (``/layer1/conv1/Conv``).
    """
    for entry in node.metadata_props:
        if entry.key == _SCOPES_KEY and (scope := _from_list(entry.value)) is not None:
            return scope
    return _from_path(node.name)


def _from_path(name: str) -> tuple[str, ...]:
    return tuple(part for part in name.split("/")[:-1] if part)


def _from_list(text: str) -> tuple[str, ...] | None:
    """``['', 'model', 'model.layer.0', 'linear']``: qualified names of modules, then the node's own."""
    try:
        names = ast.literal_eval(text) if len(text) < 10_000 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(names, list):
        return None
    modules = [n for n in names[:-1] if isinstance(n, str)]  # pyright: ignore[reportUnknownVariableType]
    return tuple(part for part in max(modules, key=len, default="").split(".") if part)


def attributes_text(attributes: Iterable[onnx.AttributeProto]) -> str:
    """Attributes as one short text: ``kernel_shape=[3, 3], group=1``."""
    text = ", ".join(f"{a.name}={_value_text(a)}" for a in attributes)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _value_text(attribute: _A) -> str:
    match attribute.type:
        case _A.INT:
            return str(attribute.i)
        case _A.FLOAT:
            return f"{attribute.f:g}"
        case _A.STRING:
            return attribute.s[:_SHOWN].decode("utf-8", "replace")
        case _A.INTS:
            return str(list(attribute.ints[:20]))
        case _A.FLOATS:
            return str([round(f, 6) for f in attribute.floats[:20]])
        case _A.TENSOR:
            return f"tensor{list(attribute.t.dims)}"
        case _A.GRAPH:
            return f"graph {attribute.g.name!r}"
        case _:
            return _A.AttributeType.Name(attribute.type).lower()
