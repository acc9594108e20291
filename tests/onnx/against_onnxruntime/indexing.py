"""Generators of what reads and writes elements by their index."""

from typing import Any

import numpy as np

from tests.onnx.against_onnxruntime.pick import (
    FLOATS,
    INTEGERS,
    Example,
    Pick,
    covers,
    ints,
    is_float,
)


@covers("Gather")
def gather(pick: Pick) -> Example:
    lens = pick.lens(1)
    axis = pick.axis(len(lens))
    index = pick.type("Tind")
    own = pick.lens(0, 2) if lens[axis] else (0,)
    low = -lens[axis] if pick.opset >= 11 else 0
    indices = pick.array(index, own, low, max(lens[axis] - 1, low))
    return Example([pick.array(pick.type("T"), lens), indices], {"axis": axis})


@covers("GatherElements")
def gather_elements(pick: Pick) -> Example:
    lens = pick.lens(1, empty=False)
    axis = pick.axis(len(lens))
    own = [pick.integer(1, n) for n in lens]
    own[axis] = pick.integer(0, 4)
    index = pick.array(pick.type("Tind"), own, -lens[axis], lens[axis] - 1)
    return Example([pick.array(pick.type("T"), lens), index], {"axis": axis})


@covers("GatherND", "com.microsoft.GatherND")
def gather_nd(pick: Pick) -> Example:
    lens = pick.lens(1, empty=False)
    batch = pick.integer(0, len(lens) - 1) if pick.opset >= 12 and not pick.domain else 0
    depth = pick.integer(1, len(lens) - batch)
    own = (*lens[:batch], *pick.lens(0, 2, empty=False))
    indices = tuples(pick, lens[batch : batch + depth], own)
    x = pick.array(pick.type("T", [*INTEGERS, *FLOATS[:3]]), lens)
    return Example(
        [x, indices],
        {"batch_dims": batch}
        if batch or (pick.flag() and pick.opset >= 12 and not pick.domain)
        else {},
    )


def tuples(pick: Pick, lens: Any, own: Any) -> Any:
    """Tuples of indices into these lengths."""
    parts = [pick.array("int64", own, -n, n - 1) for n in lens]
    return np.stack(parts, axis=-1)


def reduction(pick: Pick, among: list[str]) -> dict[str, str]:
    """The reduction of elements that are written more than once."""
    return pick.some(reduction=pick.one_of(among))


@covers("ScatterElements", "Scatter")
def scatter_elements(pick: Pick) -> Example:
    type, lens = pick.type("T"), pick.lens(1, empty=False)
    axis = pick.axis(len(lens))
    own = [pick.integer(1, n) for n in lens]
    attributes: dict[str, Any] = {"axis": axis}
    if pick.opset >= 18:
        attributes |= reduction(pick, ["none", "add", "mul", "max", "min"])
    elif pick.opset >= 16:
        attributes |= reduction(pick, ["none", "add", "mul"])
    if type in {"bool", "bfloat16", "float16"}:  # onnxruntime reduces neither
        attributes.pop("reduction", None)
    indices = pick.array(pick.type("Tind"), own, 0, lens[axis] - 1)
    if attributes.get("reduction", "none") == "none":  # which of several is written is open
        indices = distinct(pick, own, axis % len(lens), lens[axis]).astype(indices.dtype)
    if pick.flag() and pick.opset >= 11:
        indices -= lens[axis]
    return Example([pick.array(type, lens), indices, pick.array(type, own)], attributes, slack=5)


def distinct(pick: Pick, own: list[int], axis: int, length: int) -> Any:
    """Indices that differ along the axis."""
    order = pick.generator().permutation(length)[: own[axis]]
    shape = [1] * len(own)
    shape[axis] = own[axis]
    return np.broadcast_to(order.reshape(shape), own).copy()


@covers("ScatterND")
def scatter_nd(pick: Pick) -> Example:
    type, lens = pick.type("T"), pick.lens(1, empty=False)
    depth = pick.integer(1, len(lens))
    attributes: dict[str, Any] = {}
    if pick.opset >= 18:
        attributes = reduction(pick, ["none", "add", "mul", "max", "min"])
    elif pick.opset >= 16:
        attributes = reduction(pick, ["none", "add", "mul"])
    if type in {"bool", "bfloat16", "float16"}:
        attributes = {}
    count = int(np.prod(lens[:depth]))
    wanted = pick.integer(1, count)
    repeated = attributes.get("reduction", "none") != "none" and pick.flag()
    flat = pick.generator().choice(count, wanted, replace=repeated)
    indices = np.stack(np.unravel_index(flat, lens[:depth]), axis=-1).astype(np.int64)
    updates = pick.array(type, (wanted, *lens[depth:]))
    return Example([pick.array(type, lens), indices, updates], attributes, slack=5)


@covers("NonZero")
def non_zero(pick: Pick) -> Example:
    # Of a scalar, ONNX wants no row, which onnxruntime makes.
    x = pick.array(pick.type(), pick.lens(1), -1, 1)
    return Example([np.trunc(x.astype(np.float32)).astype(x.dtype)])


@covers("Unique", "com.microsoft.Unique")
def unique(pick: Pick) -> Example:
    type = pick.type()
    if pick.domain:
        return Example([pick.array(type, (pick.integer(1, 6),), -2, 2).round()], outputs=3)
    lens = pick.lens(1, 3, empty=False)
    x = pick.array(type, lens, -2, 2)
    x = np.trunc(x) + 0 if is_float(type) else x
    attributes = pick.some(axis=pick.axis(len(lens)), sorted=pick.integer(0, 1))
    return Example([x], attributes, outputs=pick.integer(1, 4))


@covers("ReverseSequence")
def reverse_sequence(pick: Pick) -> Example:
    lens = (pick.integer(1, 4), pick.integer(1, 4), *pick.lens(0, 2, empty=False))
    time = pick.integer(0, 1)
    lengths = pick.array("int64", (lens[1 - time],), 1, lens[time])
    attributes = {"time_axis": time, "batch_axis": 1 - time}
    attributes = {} if time == 0 and pick.flag() else attributes
    return Example([pick.array(pick.type(), lens), lengths], attributes)


@covers("NonMaxSuppression")
def non_max_suppression(pick: Pick) -> Example:
    batch, count, classes = pick.integer(1, 2), pick.integer(1, 6), pick.integer(1, 2)
    centre = pick.flag()
    boxes = pick.array("float", (batch, count, 4), 0.1, 1)
    scores = pick.array("float", (batch, classes, count), 0, 1)
    limits = [
        ints(pick.integer(0, 5)),
        np.array([pick.number(0, 1)], np.float32),
        np.array([pick.number(0, 1)], np.float32),
    ]
    limits = [v if pick.flag() else None for v in limits]
    if limits[0] is None:
        limits[0] = ints(3)
    attributes = {"center_point_box": 1} if centre else {}
    return Example([boxes, scores, *limits], attributes)
