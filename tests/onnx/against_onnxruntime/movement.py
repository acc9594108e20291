"""Generators of what moves elements, makes them, or looks at lengths alone."""

from typing import Any

import numpy as np
from onnx import helper

from tests.onnx.against_onnxruntime.elementwise import code
from tests.onnx.against_onnxruntime.pick import (
    NUMBERS,
    NUMPY,
    Example,
    Pick,
    covers,
    ints,
    is_float,
)


@covers("Transpose")
def transpose(pick: Pick) -> Example:
    lens = pick.lens()
    attributes = pick.some(perm=pick.order(len(lens))) if lens else {}
    return Example([pick.array(pick.type(), lens)], attributes)


@covers("Reshape")
def reshape(pick: Pick) -> Example:
    lens = pick.lens()
    count = int(np.prod(lens))
    dims = list(factors_of(pick, count))
    if dims and count and pick.flag():
        dims[pick.integer(0, len(dims) - 1)] = -1
    same = [i for i, (n, m) in enumerate(zip(lens, dims, strict=False)) if n == m]
    attributes: dict[str, Any] = {}
    if same and pick.flag() and count:
        dims[pick.one_of(same)] = 0
    elif not count and pick.opset >= 14:
        attributes = {"allowzero": 1}
    elif not count:
        dims = list(lens)
    x = pick.array(pick.type(), lens)
    return Example([x, np.array(dims, np.int64)], attributes, fixed=fixed(pick, 1))


def factors_of(pick: Pick, count: int) -> tuple[int, ...]:
    """Lengths whose product is ``count``."""
    found: list[int] = []
    while count > 1 or (pick.flag() and len(found) < 4):
        divisors = [d for d in range(1, count + 1) if count % d == 0] or [0]
        found.append(pick.one_of(divisors) if len(found) < 3 else count)
        count //= max(found[-1], 1)
    if not count and 0 not in found:
        found.append(0)
    pick.source.shuffle(found)
    return tuple(found)


def fixed(pick: Pick, *indices: int) -> tuple[int, ...]:
    """These inputs, or none: they are initialisers at times."""
    return indices if pick.flag() else ()


@covers("Flatten")
def flatten(pick: Pick) -> Example:
    lens = pick.lens(0 if pick.opset >= 11 else 1)
    low = -len(lens) if pick.opset >= 11 else 0
    # The axis 1 that is left out is past a scalar.
    attributes = {"axis": pick.integer(low, len(lens))}
    return Example([pick.array(pick.type(), lens)], attributes if pick.flag() or not lens else {})


@covers("Squeeze")
def squeeze(pick: Pick) -> Example:
    lens = list(pick.lens())
    ones = [i for i, n in enumerate(lens) if n == 1]
    axes = pick.subset(ones)
    x = pick.array(pick.type(), lens)
    if pick.opset < 13:
        axes = sorted(axes) if pick.opset < 11 else axes
        return Example([x], {"axes": axes} if axes else {})
    axes = [a - len(lens) if pick.flag() else a for a in axes]
    return Example([x, ints(*axes)] if axes else [x], fixed=fixed(pick, 1) if axes else ())


@covers("Unsqueeze")
def unsqueeze(pick: Pick) -> Example:
    lens, count = pick.lens(), pick.integer(1, 3)
    rank = len(lens) + count
    axes = pick.order(rank)[:count]
    x = pick.array(pick.type(), lens)
    if pick.opset < 11:
        return Example([x], {"axes": sorted(axes)})
    axes = [a - rank if pick.flag() else a for a in axes]
    if pick.opset < 13:
        return Example([x], {"axes": axes})
    return Example([x, ints(*axes)], fixed=fixed(pick, 1))


@covers("Expand")
def expand(pick: Pick) -> Example:
    a, b = pick.together(2)
    return Example([pick.array(pick.type(), a), np.array(b, np.int64)], fixed=fixed(pick, 1))


@covers("Tile")
def tile(pick: Pick) -> Example:
    lens = pick.lens(1)
    repeats = ints(*[pick.one_of([0, 1, 1, 2, 3]) for _ in lens])
    return Example([pick.array(pick.type(), lens), repeats], fixed=fixed(pick, 1))


@covers("Concat")
def concat(pick: Pick) -> Example:
    type, lens = pick.type(), list(pick.lens(1))
    axis = pick.axis(len(lens))
    arrays: list[Any] = []
    for _ in range(pick.integer(1, 4)):
        own = list(lens)
        own[axis] = pick.integer(0, 3)
        arrays.append(pick.array(type, own))
    return Example(arrays, {"axis": axis if pick.opset >= 11 else axis % len(lens)})


@covers("Split")
def split(pick: Pick) -> Example:
    type, lens = pick.type(), list(pick.lens(1, empty=False))
    axis = pick.axis(len(lens))
    axis = axis if pick.opset >= 11 else axis % len(lens)
    parts = pick.integer(1, 3)
    kind = pick.one_of(["even", "sizes", "uneven"] if pick.opset >= 18 else ["even", "sizes"])
    sizes = (
        [pick.integer(1, 2)] * parts
        if kind == "even"
        else [pick.integer(0, 3) for _ in range(parts)]
    )
    if kind == "uneven":
        size = pick.integer(1, 3)
        sizes = [size] * (parts - 1) + [pick.integer(1, size)]
    lens[axis] = sum(sizes)
    x, attributes = pick.array(type, lens), {"axis": axis}
    if kind != "sizes":
        attributes |= {"num_outputs": parts} if pick.opset >= 18 else {}
        return Example([x], attributes, outputs=parts)
    if pick.opset < 13:
        return Example([x], attributes | {"split": sizes}, outputs=parts)
    return Example([x, ints(*sizes)], attributes, outputs=parts, fixed=fixed(pick, 1))


@covers("Slice")
def slice_(pick: Pick) -> Example:
    type = pick.type("T")
    lens = pick.lens(1)
    axes = pick.axes(len(lens), 1) or [0]
    starts, ends = ([pick.integer(-6, 6) for _ in axes] for _ in range(2))
    steps = [pick.one_of([-3, -2, -1, 1, 2, 3]) if pick.opset >= 10 else 1 for _ in axes]
    # Backwards, ONNX takes the largest number for a place past the end; onnxruntime for "all".
    ends = [
        pick.one_of([e, 2**31, 2**63 - 1]) if s > 0 else e for e, s in zip(ends, steps, strict=True)
    ]
    x = pick.array(type, lens)
    if pick.opset < 10:
        axes = sorted(a % len(lens) for a in axes)
        return Example([x], {"starts": starts, "ends": ends, "axes": axes})
    index = np.int64 if max(ends) > 2**31 - 1 else pick.one_of([np.int32, np.int64])
    inputs: list[Any] = [np.array(v, index) for v in (starts, ends, axes)]
    if pick.flag() or min(steps) < 0:
        inputs.append(np.array(steps, index))
    return Example([x, *inputs], fixed=fixed(pick, *range(1, len(inputs) + 1)))


@covers("Pad", "com.microsoft.Pad")
def pad(pick: Pick) -> Example:
    type, lens = pick.type("T"), pick.lens(1, 3, empty=False)
    rank = len(lens)
    modes = ["constant", "constant", "edge", "reflect"] + (
        ["wrap"] if pick.opset >= 19 and not pick.domain else []
    )
    mode = pick.one_of(modes)
    axes = None
    if pick.opset >= 18 and not pick.domain and pick.flag():
        axes = pick.axes(rank, 1)
    chosen = [lens[a] for a in axes] if axes is not None else lens
    most = {"constant": [2] * rank, "edge": [2] * rank, "wrap": list(chosen)}.get(
        mode, [n - 1 for n in chosen]
    )
    pads = [pick.integer(0, m) for m in [*most[: len(chosen)], *most[: len(chosen)]]]
    if mode == "constant" and pick.rarely():
        pads = [pick.integer(-(n // 2), 1) for n in (*chosen, *chosen)]
    x = pick.array(type, lens)
    attributes = {"mode": mode} if mode != "constant" or pick.flag() else {}
    if pick.opset < 11:
        attributes |= pick.some(value=pick.number(-2, 2)) if is_float(type) else {}
        return Example([x], attributes | {"pads": pads})
    value = pick.scalar(type) if pick.flag() else None
    inputs = [x, ints(*pads), value] + ([ints(*axes)] if axes else [])
    return Example(inputs, attributes, fixed=fixed(pick, 1, 3))


@covers("DepthToSpace", "SpaceToDepth")
def between_depth_and_space(pick: Pick) -> Example:
    block, batch, depth = pick.integer(1, 3), pick.integer(1, 2), pick.integer(1, 2)
    height, width = pick.integer(1, 3), pick.integer(1, 3)
    if pick.op == "SpaceToDepth":
        lens = (batch, depth, height * block, width * block)
        return Example([pick.array(pick.type(), lens)], {"blocksize": block})
    attributes = pick.some(mode=pick.one_of(["DCR", "CRD"])) if pick.opset >= 11 else {}
    x = pick.array(pick.type(), (batch, depth * block**2, height, width))
    return Example([x], attributes | {"blocksize": block})


@covers("Shape")
def shape(pick: Pick) -> Example:
    ends = pick.some(start=pick.integer(-5, 5), end=pick.integer(-5, 5)) if pick.opset >= 15 else {}
    return Example([pick.array(pick.type(), pick.lens())], ends)


@covers("Size")
def size(pick: Pick) -> Example:
    return Example([pick.array(pick.type(), pick.lens())])


@covers("ConstantOfShape")
def constant_of_shape(pick: Pick) -> Example:
    type = pick.type("T2", [*NUMBERS, "bool"])
    value = helper.make_tensor(
        "v", code(type), [1], pick.array(type, (1,)).astype(np.float64).tolist()
    )
    lens = np.array(pick.lens(), np.int64)
    return Example([lens], {"value": value} if pick.flag() else {}, fixed=fixed(pick, 0))


@covers("Constant")
def constant(pick: Pick) -> Example:
    kinds: dict[str, Any] = {
        "value": helper.make_tensor("v", 1, [2], [1.5, -2.0]), "value_int": pick.integer(-9, 9),
        "value_float": pick.number(-9, 9), "value_ints": [1, -2, 3], "value_floats": [0.5, 1.5],
    }  # fmt: skip
    name = pick.one_of(list(kinds)) if pick.opset >= 12 else "value"
    return Example([], {name: kinds[name]})


@covers("EyeLike")
def eye_like(pick: Pick) -> Example:
    x = pick.array(pick.type("T1"), (pick.integer(1, 5), pick.integer(1, 5)))
    attributes: dict[str, Any] = pick.some(k=pick.integer(-4, 4))
    if pick.flag():
        attributes["dtype"] = code(pick.type("T2"))
    return Example([x], attributes)


@covers("Range", "com.microsoft.Range")
def range_(pick: Pick) -> Example:
    type = pick.type("T", None)
    step = pick.one_of([-2, -1, 1, 2, 3])
    ends = [pick.integer(-6, 6), pick.integer(-6, 6), step]
    inputs = [np.array(v, NUMPY[type]) for v in ends]
    return Example(inputs, fixed=fixed(pick, 0, 1, 2))


@covers("OneHot")
def one_hot(pick: Pick) -> Example:
    index, count, value = pick.types("T1", "T2", "T3")
    lens, depth = pick.lens(1, 3), pick.integer(1, 5)
    indices = pick.array(index, lens, -depth if not index.startswith("u") else 0, depth - 1)
    attributes = pick.some(axis=pick.integer(-len(lens) - 1, len(lens)))
    depths = np.array(depth, NUMPY[count]).reshape(pick.one_of([(), (1,)]))
    return Example(
        [np.trunc(indices).astype(indices.dtype), depths, pick.array(value, (2,))],
        attributes,
        fixed=fixed(pick, 1),
    )


@covers("Trilu", "com.microsoft.Trilu")
def trilu(pick: Pick) -> Example:
    x = pick.array(pick.type(), pick.lens(2), special=True)
    k = np.array(pick.integer(-4, 4)) if pick.flag() else None
    return Example([x, k], pick.some(upper=pick.integer(0, 1)), fixed=fixed(pick, 1))


@covers("AffineGrid")
def affine_grid(pick: Pick) -> Example:
    # The function squeezes a batch of 1 away, and then fails.
    batch, sides = pick.integer(2, 3), [pick.integer(2, 4) for _ in range(pick.integer(2, 3))]
    rank = len(sides)
    theta = pick.array(pick.type("T1"), (batch, rank, rank + 1))
    attributes = pick.some(align_corners=pick.integer(0, 1))
    return Example([theta, ints(batch, 2, *sides)], attributes, fixed=fixed(pick, 1), slack=10)
