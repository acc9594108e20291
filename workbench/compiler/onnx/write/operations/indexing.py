"""Gathers, scatters and selections at indices that are data."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.protos import takes
from workbench.compiler.onnx.write.registry import writes

_HOW = ("none", "add", "mul", "min", "max")


@writes("gather")
def gather(call: Call) -> str:
    """Gather."""
    return call.add("Gather", call.inputs[0], call.indices(1), axis=call.op.axis)


@writes("gather_elements")
def gather_elements(call: Call) -> str:
    """GatherElements."""
    return call.add("GatherElements", call.inputs[0], call.indices(1), axis=call.op.axis)


@writes("gathernd")
def gathernd(call: Call) -> str:
    """GatherND."""
    batch = call.op.batch_dims
    return call.add("GatherND", call.inputs[0], call.whole(1), batch_dims=batch or None)


def _how(call: Call) -> str | None:
    """The way in which updates change elements; None if they replace them."""
    how = call.op.name.rsplit("_", 1)[1]
    return None if how == "none" else how


@writes(*(f"scatter_{how}" for how in _HOW))
def scatter(call: Call) -> str:
    """ScatterElements, with as many updates as there are indices."""
    if call.op.skip_out_of_bounds:
        raise call.refuse("it skips indices out of bounds, which ONNX does not allow")
    updates = call.inputs[2]
    index, given = call.shapes[1], call.shapes[2]
    if index.dims is not None or given.dims is not None or index.lens != given.lens:
        rank = index.ndim
        lens = call.lengths(call.inputs[1], index)
        axes = call.constant(list(range(rank)))
        updates = call.add("Slice", updates, call.constant([0] * rank), lens, axes)
    inputs = call.inputs[0], call.indices(1), updates
    return call.add("ScatterElements", *inputs, axis=call.op.axis, reduction=_how(call))


@writes(*(f"scatternd_{how}" for how in _HOW))
def scatternd(call: Call) -> str:
    """ScatterND."""
    return call.add(
        "ScatterND", call.inputs[0], call.whole(1), call.inputs[2], reduction=_how(call)
    )


@writes("onehot")
def onehot(call: Call) -> str:
    """OneHot."""
    op = call.op
    depth = call.whole(1) if op.depth is None else call.constant(op.depth)
    if op.depth is None:
        depth = call.add("Reshape", depth, call.constant([]))
    index = call.cast(call.inputs[0], call.type, DType.INT64)
    own = call.shapes[-1].type
    type = own if takes("OneHot", 2, own) else DType.FLOAT
    values = call.cast(call.inputs[-1], own, type)
    return call.cast(call.add("OneHot", index, depth, values, axis=op.axis), type, own)


@writes("nonzero")
def nonzero(call: Call) -> str:
    """NonZero, padded with columns of zeros to one column per element of the input."""
    x, shape = call.inputs[0], call.shapes[0]
    found = call.add(
        "NonZero", call.cast(x, call.type, call.taken("NonZero", call.type, DType.FLOAT))
    )
    count = call.add("Shape", found, start=1, end=2)
    room = call.add("Size", x) if shape.dims is not None else call.constant(shape.elements)
    rest = call.add("Sub", room, count)
    pads = call.add("Concat", call.constant([0, 0, 0]), rest, axis=0)
    return call.add("Pad", found, pads)


@writes("unique")
def unique(call: Call) -> tuple[str, ...]:
    """Unique."""
    own, op = call.type, call.op
    type = call.taken("Unique", own, DType.FLOAT)
    x = call.cast(call.inputs[0], own, type)
    values, *places = call.several("Unique", 4, x, axis=op.axis, sorted=int(op.sorted))
    return call.cast(values, type, own), *places


@writes("nonmaxsuppression")
def nonmaxsuppression(call: Call) -> str:
    """NonMaxSuppression, with zeros after its rows where as many as possible are wanted."""
    types = (DType.FLOAT, DType.FLOAT, DType.INT64, DType.FLOAT, DType.FLOAT)
    inputs = [
        call.cast(v, s.type, t) for v, s, t in zip(call.inputs, call.shapes, types, strict=False)
    ]
    boxed = [*inputs[:2], *(call.add("Reshape", v, call.constant([1])) for v in inputs[2:])]
    center = int(call.op.center_point_box)
    found = call.add("NonMaxSuppression", *boxed, center_point_box=center)
    if call.op.use_dyn_output:
        return found
    if call.shape.dims is not None:
        raise call.refuse("its number of rows is not known")
    count = call.add("Shape", found, start=0, end=1)
    rest = call.add("Sub", call.constant([call.shape.lens[0]]), count)
    zeros = call.constant([0, 0])
    return call.add("Pad", found, call.add("Concat", zeros, rest, call.constant([0]), axis=0))


@writes("dynamic_range")
def dynamic_range(call: Call) -> str:
    """Range, cut off after the most elements that the program allows."""
    own, op = call.type, call.op
    type = call.taken("Range", own, DType.FLOAT if own.is_float else DType.INT64)
    bounds = [call.add("Reshape", v, call.constant([])) for v in call.inputs]
    made = call.add("Range", *(call.cast(v, own, type) for v in bounds))
    if op.max_output < 2147483647:
        made = call.add("Slice", made, *(call.constant([n]) for n in (0, op.max_output)))
    return call.cast(made, type, own)


@writes("random_seed")
def random_seed(call: Call) -> str:
    """The seed, which is always the same."""
    return call.constant(call.op.compute())
