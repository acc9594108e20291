"""Graphs as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.compat.popart.dumps.text import attributes_of

if TYPE_CHECKING:
    from workbench.compat.popart.ir.ir import Ir
    from workbench.compat.popart.ir.op import Op
    from workbench.compat.popart.ir.tensors import Tensor


def json_of(ir: Ir) -> str:
    """The operations of each graph by its id; the main graph is ``maingraph``."""
    found = {g.id or "maingraph": [_op(op) for op in g.ops()] for g in ir.graphs}
    return json.dumps(found, indent=1)


def _op(op: Op) -> dict[str, Any]:
    return {
        "type": op.op_type,
        "name": op.name,
        "inputs": [_tensor(t, k) for k, t in enumerate(op.inputs)],
        "outputs": [_tensor(t, k) for k, t in enumerate(op.outputs)],
        "attributes": {name: str(value) for name, value in attributes_of(op).items()},
    }


def _tensor(tensor: Tensor, index: int) -> dict[str, Any]:
    type = tensor.dtype.as_numpy().__name__
    return {"name": tensor.id, "shape": list(tensor.shape), "type": type, "index": index}
