"""Data movement: layouts are left out, the rest are operators with constant lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.tensors import CODES
from workbench.compiler.onnx.write import protos
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import Named, writes
from workbench.compiler.ops.view import over_memory

_ENDS = np.iinfo(np.int64)


@writes("identity", "capture", "contiguous", "layout", "expect_dims", "copy")
def unchanged(call: Call) -> Named:
    """The first operand: values do not have a layout, nor a place in memory."""
    return call.values[0]


@writes("undefined", "@comment", "set_stream", "record_event", "wait_event")
def nothing(_: Call) -> str:
    """Write no node: these operations have no value, and a model's runtime decides when operators run."""
    return ""


@writes("transpose")
def transpose(call: Call) -> str:
    """Transpose."""
    return call.add("Transpose", *call.inputs, perm=call.op.permutation)


@writes("reshape", "reshape_lazy")
def reshape(call: Call) -> str:
    """Reshape, to constant lens if they are known."""
    if len(call.inputs) == 2:
        return call.add("Reshape", call.inputs[0], call.lengths(call.inputs[1], call.shapes[1]))
    if call.shape.dims is not None:
        return call.add("Reshape", call.inputs[0], call.constant(list(call.op.dims)))
    return to_lens(call, call.inputs[0], call.shape.array_lens)


def to_lens(call: Call, value: str, lens: tuple[int, ...]) -> str:
    """A value reshaped to lens, of which some may be 0."""
    allow = 1 if 0 in lens else None
    return call.add("Reshape", value, call.constant(list(lens)), allowzero=allow)


@writes("reshape_with_dims")
def reshape_with_dims(call: Call) -> str:
    """Reshape to lens that are computed."""
    allow = 1 if call.op.allowzero else None
    return call.add("Reshape", call.inputs[0], call.whole(1), allowzero=allow)


@writes("flatten")
def flatten(call: Call) -> str:
    """Flatten."""
    return call.add("Flatten", *call.inputs, axis=call.op.axis)


@writes("squeeze")
def squeeze(call: Call) -> str:
    """Squeeze of the axes, or of those whose length is surely 1."""
    shape = call.shapes[0]
    dims = shape.array_lens if shape.dims is None else [d.max for d in shape.dims]
    axes = call.op.axes or [i for i, n in enumerate(dims) if n == 1]
    return (
        call.add("Squeeze", call.inputs[0], call.constant(list(axes))) if axes else call.inputs[0]
    )


@writes("unsqueeze")
def unsqueeze(call: Call) -> str:
    """Unsqueeze; Reshape where a new axis takes elements from the next."""
    if call.op.steps:
        return to_lens(call, call.inputs[0], call.shape.array_lens)
    return call.add("Unsqueeze", call.inputs[0], call.constant(list(call.op.axes)))


@writes("slice")
def slice_(call: Call) -> str:
    """Slice, with the bounds that are operands in their place."""
    given = iter(range(1, len(call.inputs)))
    op = call.op
    bounds = [
        call.constant(list(known)) if known else call.whole(next(given))
        for known in (op.starts, op.ends, op.axes)
    ]
    return call.add("Slice", call.inputs[0], *bounds)


@writes("step")
def step(call: Call) -> str:
    """Slice of whole axes in steps."""
    return _sliced(call, call.op.axes, 0, _ENDS.max, call.op.steps)


@writes("reverse")
def reverse(call: Call) -> str:
    """Slice of whole axes backwards."""
    axes = call.op.axes
    return _sliced(call, axes, -1, _ENDS.min, [-1] * len(axes)) if axes else call.inputs[0]


def _sliced(call: Call, axes: list[int], start: int, end: int, steps: list[int]) -> str:
    count = len(axes)
    lists = ([start] * count, [end] * count, list(axes), list(steps))
    return call.add("Slice", call.inputs[0], *map(call.constant, lists))


@writes("scan_slice")
def scan_slice(call: Call) -> str:
    """Slice of length 1 from a computed position."""
    start = call.add("Reshape", call.whole(1), call.constant([1]))
    one, axis = call.constant([1]), call.op.axis
    if call.op.direction:
        start = call.add("Sub", call.constant([-1]), start)
        rest = call.lengths(call.inputs[0], call.shapes[0])
        start = call.add("Add", start, call.add("Gather", rest, call.constant([axis])))
    return call.add(
        "Slice", call.inputs[0], start, call.add("Add", start, one), call.constant([axis])
    )


@writes("concat")
def concat(call: Call) -> str:
    """Concat."""
    return call.add("Concat", *call.inputs, axis=call.op.axis)


_PAD_MODES = {0: "constant", 1: "reflect", 2: "edge", 3: "wrap"}


@writes("pad")
def pad(call: Call) -> str:
    """Pad, with the value that fits the type."""
    op, mode = call.op, _PAD_MODES[int(call.op.mode)]
    fill = ""
    if mode == "constant":
        edge = replace(op, pads=(1, 0)).compute(np.empty(0, call.type.numpy))
        fill = call.constant(edge.reshape(()))
    return call.add("Pad", call.inputs[0], call.constant(list(op.pads)), fill, mode=mode)


@writes("pad_by")
def pad_by(call: Call) -> str:
    """Pad by pads that are computed."""
    fill = call.add("Reshape", call.inputs[2], call.constant([]))
    axes = call.constant(list(call.op.axes))
    mode = _PAD_MODES[int(call.op.mode)]
    return call.add("Pad", call.inputs[0], call.whole(1), fill, axes, mode=mode)


@writes("fixed_pad")
def fixed_pad(call: Call) -> str:
    """Pad up to the greatest lengths."""
    x = call.shapes[0]
    if x.dims is None:
        return call.inputs[0]
    most = call.constant([d.max for d in x.dims])
    ends = call.add("Sub", most, call.lengths(call.inputs[0], x))
    return call.add(
        "Pad", call.inputs[0], call.add("Concat", call.constant([0] * x.ndim), ends, axis=0)
    )


@writes("dimensions_of")
def dimensions_of(call: Call) -> str:
    """Shape."""
    return call.lengths(call.inputs[0], call.shapes[0], call.op.start, call.op.end)


@writes("as_shape")
def as_shape(call: Call) -> str:
    """Gather of the flat elements at the places that the strides reach."""
    wanted: Shape = call.op.shape
    if wanted.dims is not None or call.shapes[0].dims is not None:
        raise call.refuse("it reads memory by strides of which only the symbols are known")
    places = over_memory(np.arange(call.shapes[0].elements), wanted)
    flat = call.add("Reshape", call.inputs[0], call.constant([-1]))
    return call.add("Gather", flat, call.constant(np.ascontiguousarray(places)))


# Buffers, which are values here


def zeros(call: Call, lengths: str, type: DType) -> str:
    """Zeros of computed lengths."""
    return call.add("ConstantOfShape", lengths, value=protos.tensor("", np.zeros(1, type.numpy)))


@writes("allocate", "preallocate")
def allocate(call: Call) -> str:
    """ConstantOfShape."""
    shape: Shape = call.shape
    if call.inputs:
        return zeros(call, call.whole(0), shape.type)
    if not shape.is_tensor or shape.type not in CODES or shape.is_dynamic:
        raise call.refuse(f"a buffer of {shape} is not a tensor of known lengths")
    return zeros(call, call.constant(list(shape.array_lens)), shape.type)


@writes("fill")
def fill(call: Call) -> str:
    """Expand of the value to the buffer's lens."""
    one = call.add("Reshape", call.inputs[0], call.constant([]))
    return call.add("Expand", one, call.lengths(call.inputs[1], call.shapes[1]))
