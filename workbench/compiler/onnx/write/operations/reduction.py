"""Reductions, softmax, scans, and what picks elements by their order."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.nodes.reduction import PLAIN
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import writes

_REDUCED = {op: onnx for onnx, op in PLAIN.items()}
_SOFT = {"softmax": "Softmax", "logsoftmax": "LogSoftmax"}
_SCANS = {"prefix_scan_sum": "CumSum", "prefix_scan_prod": "CumProd"}


def _wide(type: DType) -> DType:
    return DType.FLOAT if type.is_float else DType.INT64


def _axes(call: Call) -> str:
    return call.constant([*call.op.axes, *_behind(call)]) if call.op.axes else call.whole(1)


def _behind(call: Call) -> range:
    """The axes behind those reduced, if all have one element.

    With them elements lie in a row, which runtimes add up in parts and so more exactly than in turn.
    """
    shape = call.shapes[0]
    if shape.dims is not None:
        return range(0)
    last = 1 + max(axis % shape.ndim for axis in call.op.axes)
    behind = range(last, shape.ndim)
    return behind if all(shape.lens[axis] == 1 for axis in behind) else range(0)


def _reduced(call: Call, op_type: str, value: str) -> str:
    noop = None if call.op.axes else 1
    return call.add(op_type, value, _axes(call), noop_with_empty_axes=noop)


@writes(*_REDUCED)
def reduce(call: Call) -> str:
    """A reduction; types that ONNX does not reduce are reduced in a wider one."""
    own, op_type = call.type, _REDUCED[call.op.name]
    type = call.taken(op_type, own, _wide(own))
    made = _reduced(call, op_type, call.cast(call.inputs[0], own, type))
    return call.cast(made, type, own)


@writes("reduce_all", "reduce_any")
def reduce_truth(call: Call) -> str:
    """The smallest or largest truth value."""
    op_type = {"reduce_all": "ReduceMin", "reduce_any": "ReduceMax"}[call.op.name]
    true = call.cast(call.inputs[0], call.type, DType.BOOL)
    made = _reduced(call, op_type, call.cast(true, DType.BOOL, DType.INT32))
    return call.cast(made, DType.INT32, call.type)


@writes(*_SOFT)
def softmax(call: Call) -> str:
    """Softmax or its logarithm; for integers it is computed in float64 and truncated."""
    own, op_type = call.type, _SOFT[call.op.name]
    if own.is_float or own is DType.BOOL:
        wide = DType.FLOAT if own.is_float else DType.DOUBLE
        return call.within(op_type, own, wide, axis=call.op.axis)
    x = call.cast(call.inputs[0], own, DType.DOUBLE)
    made = call.cast(call.add(op_type, x, axis=call.op.axis), DType.DOUBLE, DType.INT64)
    return call.cast(made, DType.INT64, own)


@writes(*_SCANS)
def scan(call: Call) -> str:
    """A running sum or product."""
    own, op, op_type = call.type, call.op, _SCANS[call.op.name]
    type = call.taken(op_type, own, _wide(own))
    made = call.add(op_type, call.cast(call.inputs[0], own, type), call.constant(op.axis),
                    exclusive=int(op.exclusive), reverse=int(op.reverse))  # fmt: skip
    return call.cast(made, type, own)


@writes("argmax", "argmin")
def arg_extreme(call: Call) -> str:
    """ArgMax or ArgMin."""
    op_type = {"argmax": "ArgMax", "argmin": "ArgMin"}[call.op.name]
    type = call.taken(op_type, call.type, DType.FLOAT if call.type.is_float else DType.INT32)
    x = call.cast(call.inputs[0], call.type, type)
    last = int(call.op.select_last_index)
    return call.add(op_type, x, axis=call.op.axis, select_last_index=last)


@writes("topk")
def topk(call: Call) -> tuple[str, ...]:
    """TopK."""
    op, own, shape = call.op, call.type, call.shapes[0]
    if len(call.inputs) == 2:
        raise call.refuse("its second operand decides among equal elements, which no operator does")
    count = call.constant([op.k])
    axis = op.axis % shape.ndim
    if shape.dims is not None and shape.dims[axis].min < op.k:
        count = call.add("Min", count, call.add("Shape", call.inputs[0], start=axis, end=axis + 1))
    type = call.taken("TopK", own, _wide(own))
    x = call.cast(call.inputs[0], own, type)
    found, places = call.several("TopK", 2, x, count, axis=op.axis, largest=int(op.largest))
    return call.cast(found, type, own), places
