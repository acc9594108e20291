"""Integers of four bits, two in a byte: ONNX has them as a type, but not their bytes."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import writes


@writes("unpack_int4")
def unpack_int4(call: Call) -> str:
    """The halves of each byte by a mask and a shift, side by side along the axis."""
    x = call.cast(call.inputs[0], call.type, DType.UINT8)
    low = call.add("BitwiseAnd", x, call.constant(15, DType.UINT8))
    high = call.add("BitShift", x, call.constant(4, DType.UINT8), direction="RIGHT")
    axis = call.op.axis % call.shapes[0].ndim + 1
    places = call.constant([axis])
    pairs = call.add("Concat", *(call.add("Unsqueeze", v, places) for v in (low, high)), axis=axis)
    made = call.add("Reshape", pairs, call.constant(list(call.shape.lens)))
    if call.type is DType.UINT8:
        return made
    signed = call.cast(made, DType.UINT8, DType.INT8)
    less = call.add("Sub", signed, call.constant(16, DType.INT8))
    return call.add("Where", call.add("Less", signed, call.constant(8, DType.INT8)), signed, less)


@writes("pack_int4")
def pack_int4(call: Call) -> str:
    """Pairs along the axis: the saturated second times 16 plus the low half of the first."""
    low, high = (0, 15) if call.type is DType.UINT8 else (-8, 7)
    bounds = [call.constant(n, DType.INT32) for n in (low, high)]
    axis = call.op.axis % call.shapes[0].ndim
    x = call.cast(call.inputs[0], call.type, DType.INT32)
    x = call.add("Min", call.add("Max", x, bounds[0]), bounds[1])
    ends = np.iinfo(np.int64).max
    halves = [
        call.add("Slice", x, *(call.constant([n]) for n in (start, ends, axis, 2)))
        for start in (0, 1)
    ]
    mask, sixteen = call.constant(15, DType.INT32), call.constant(16, DType.INT32)
    first, second = (call.add("BitwiseAnd", h, mask) for h in halves)
    made = call.add("Add", call.add("Mul", second, sixteen), first)
    return call.cast(made, DType.INT32, call.shape.type)
