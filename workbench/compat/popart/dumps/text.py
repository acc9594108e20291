"""Graphs as text, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.ir import Ir
    from workbench.compat.popart.ir.op import Op

_RULE = "=" * 60


def text_of(ir: Ir) -> str:
    """The main graph, then the subgraphs."""
    parts = ["\n".join(_lines(graph)) for graph in ir.graphs]
    return f"\n{_RULE}\n".join(parts) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"Graph {graph.id or 'main'}"
    for what, tensors in (
        ("Inputs", graph.get_input_tensors()),
        ("Outputs", graph.get_output_tensors()),
    ):
        if tensors:
            yield f"  {what}: {', '.join(f'{t.id} {t.dtype} {t.shape}' for t in tensors)}"
    for op in graph.schedule():
        yield from _op(op)


def _op(op: Op) -> Iterator[str]:
    yield f'Op "{op.name}", {op.id} of type {op.op_type}'
    for what, tensors in (("Inputs", op.inputs), ("Outputs", op.outputs)):
        yield f"  {what}:"
        yield from (f"    {t.id} {t.dtype} {t.shape}" for t in tensors)
    yield "  Attributes:"
    for name, value in attributes_of(op).items():
        yield f"    {name}: {value}"


def attributes_of(op: Op) -> dict[str, object]:
    """The attributes of an operation, with those of its context."""
    found: dict[str, object] = dict(op.attributes)
    found |= {
        "vgraph": op.ipu,
        "tileSet": op.tile_set,
        "executionContext": op.execution_context.name,
    }
    if op.pipeline_stage is not None:
        found["pipelineStage"] = op.pipeline_stage
    if op.graph.id:
        found["scope"] = op.graph.id
    if op.called_graphs:
        found["calledGraphs"] = [g.id for g in op.called_graphs]
    if op.in_sequence:
        found["after"] = [o.id for o in op.in_sequence]
    if op.location is not None:
        found["line"] = f"{op.location.file}:{op.location.line}"
    return found
