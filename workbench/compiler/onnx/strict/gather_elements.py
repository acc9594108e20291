"""GatherElements as MIGraphX composes it."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import strict_op


@strict_op("GatherElements")
def gather_elements(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """For each position, the element along an axis that the index there selects; none may be negative.

    Positions in the flat data are shifted by the difference of the indices and their own coordinates.
    """
    node.expect(inputs, 2)
    x, indices = inputs
    if x.shape.is_dynamic or indices.shape.is_dynamic or x.shape.ndim != indices.shape.ndim:
        shapes = f"{x.shape} and {indices.shape}"
        raise node.fail(f"{shapes}; expected fixed dimensions and equal ranks")
    axis, type = node.axis(node.integer("axis", 0), x.shape.ndim), indices.shape.type
    lens = indices.shape.lens
    x, indices = node.standard(x), node.standard(indices)
    strides = x.shape.strides
    check_size(Shape(DType.INT64, lens), node.op_type)
    places = np.indices(lens, dtype=np.int64, sparse=True)
    flat = np.zeros(lens, np.int64) + sum(p * s for p, s in zip(places, strides, strict=True))
    own = np.broadcast_to(places[axis], lens)
    data = node.reshape(x, x.shape.elements)
    bases, along = (node.literal(np.ascontiguousarray(v.astype(type.numpy))) for v in (flat, own))
    stride = node.multibroadcast(node.vector(type, [strides[axis]]), lens)
    moved = node.add("mul", node.add("sub", indices, along), stride)
    return node.add("gather", data, node.add("add", bases, moved), axis=0)
