"""The operations of a graph as a table, with their placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.op import Op


def table_of(graph: Graph) -> DataFrame:
    """A row for each operation in the order in which they were made, by id."""
    import pandas as pd  # noqa: PLC0415

    ops = graph.ops()
    return pd.DataFrame(map(_row, ops), index=pd.Index([op.id for op in ops], name="id"))


def _row(op: Op) -> dict[str, object]:
    return {
        "type": op.op_type,
        "name": op.name,
        "inputs": [t.id for t in op.inputs],
        "outputs": [t.id for t in op.outputs],
        "ipu": op.ipu,
        "stage": op.pipeline_stage,
        "tiles": op.tile_set,
        "context": op.execution_context.name,
        "after": [o.id for o in op.in_sequence],
        "line": "" if op.location is None else op.location.label,
    }
