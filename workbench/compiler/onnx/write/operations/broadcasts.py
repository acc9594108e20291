"""Broadcasts: Expand, to lens that are known or another value's."""

from __future__ import annotations

from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import writes


def _expanded(call: Call, value: str, shape: Shape, lens: list[int]) -> str:
    same = shape.dims is None and list(shape.array_lens) == lens
    return value if same else call.add("Expand", value, call.constant(lens))


def _repeats(call: Call, value: str, lens: tuple[int, ...]) -> None:
    """Record the value that the result repeats, of these lens from the right."""
    call.block.narrow[call.instruction] = value, lens


@writes("multibroadcast")
def multibroadcast(call: Call) -> str:
    """Expand to the lens, or to those that all operands have in common."""
    value, dims = call.inputs[0], call.op.out_dyn_dims
    if call.shape.dims is None:
        _repeats(call, value, call.shapes[0].array_lens)
        return _expanded(call, value, call.shapes[0], list(call.shape.array_lens))
    if len(call.inputs) == 1:
        raise call.refuse("the lengths that it repeats to are expressions of symbols")
    for name, shape in zip(call.inputs[1:], call.shapes[1:], strict=True):
        value = call.add("Expand", value, call.lengths(name, shape))
    fixed = [d.min if d.is_fixed else 1 for d in dims]
    return call.add("Expand", value, call.constant(fixed)) if any(n > 1 for n in fixed) else value


@writes("broadcast")
def broadcast(call: Call) -> str:
    """Unsqueeze to the rank that remains after the axis, then Expand."""
    x, rank = call.shapes[0], call.shape.ndim
    tail = list(range(x.ndim, rank - call.op.axis))
    value = call.add("Unsqueeze", call.inputs[0], call.constant(tail)) if tail else call.inputs[0]
    if call.shape.dims is None:
        _repeats(call, value, (*x.array_lens, *(1 for _ in tail)))
        return call.add("Expand", value, call.constant(list(call.shape.array_lens)))
    if len(call.inputs) == 1:
        raise call.refuse("the lengths that it repeats to are expressions of symbols")
    return call.add("Expand", value, call.lengths(call.inputs[1], call.shapes[1]))


@writes("scalar")
def scalar(call: Call) -> str:
    """Expand, or Reshape to rank 0."""
    lens = list(call.op.scalar_bcst_dims)
    if lens:
        _repeats(call, call.inputs[0], call.shapes[0].array_lens)
    return call.add("Expand" if lens else "Reshape", call.inputs[0], call.constant(lens))


@writes("broadcast_for_dot")
def broadcast_for_dot(call: Call) -> str:
    """Expand of the leading axes only."""
    other, shape = call.inputs[1], call.shapes[1]
    if shape.ndim == 2:
        return call.inputs[0]
    outer = call.lengths(other, shape, 0, shape.ndim - 2)
    lens = call.add("Concat", outer, call.constant([1, 1]), axis=0)
    return call.add("Expand", call.inputs[0], lens)


@writes("broadcast_with_dims")
def broadcast_with_dims(call: Call) -> str:
    """Expand to lens that are computed."""
    return call.add("Expand", call.inputs[0], call.whole(1))
