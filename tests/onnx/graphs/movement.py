"""Steps that move elements or make shapes: results have the bounds, grid and error of what they move."""

import math

import numpy as np
from onnx import helper, numpy_helper

from tests.onnx.graphs.growing import (
    BOOL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Known,
    Model,
    Value,
    like,
    step,
)

I64 = np.dtype(np.int64)


def wide(model: Model, other=lambda _: True) -> Value | None:
    """A value with at least one axis."""
    return model.value(lambda v: v.rank > 0 and other(v))


@step
def transposes(model: Model) -> None:
    if x := model.value():
        order = sorted(range(x.rank), key=lambda _: model.integer(0, 9))
        if x.rank and model.flag():
            model.add("Transpose", [x], like(x, lens=tuple(x.lens[a] for a in order)), perm=order)
        else:
            model.add("Transpose", [x], like(x, lens=x.lens[::-1]))


@step
def reshapes(model: Model) -> None:
    if x := model.value(lambda v: v.size > 0):
        factors = [p for n in x.lens for p in _primes(n)]
        lens = [1] * model.integer(0 if x.size == 1 else 1, 4)
        for p in factors:
            lens[model.integer(0, len(lens) - 1)] *= p
        asked = list(lens)
        if lens and model.flag():
            asked[model.integer(0, len(lens) - 1)] = -1
        model.add("Reshape", [x, model.constant(asked)], like(x, lens=tuple(lens)))


def _primes(n: int) -> list[int]:
    for p in range(2, n):
        if n % p == 0:
            return [p, *_primes(n // p)]
    return [n] if n > 1 else []


@step
def reshapes_by_a_shape(model: Model) -> None:
    """As PyTorch exports ``x.view(x.size(0), -1)``: the shape is computed in the graph."""
    if x := wide(model, lambda v: v.size > 0):
        at = model.integer(0, x.rank - 1)
        names = [model.name() for _ in range(4)]
        _plain(model, "Shape", [x.name], names[0])
        _plain(model, "Gather", [names[0], model.constant(at)], names[1], axis=0)
        _plain(model, "Unsqueeze", [names[1], model.constant([0])], names[2])
        _plain(model, "Concat", [names[2], model.constant([-1])], names[3], axis=0)
        lens = (x.lens[at], x.size // x.lens[at])
        model.add("Reshape", [x, names[3]], like(x, lens=lens))


def _plain(model: Model, op: str, inputs: list[str], output: str, **attributes) -> None:
    model.nodes.append(helper.make_node(op, inputs, [output], **attributes))


@step
def asks_for_the_shape(model: Model) -> None:
    if x := model.value():
        high = max(x.lens, default=0)
        model.add("Shape", [x], Known(I64, (x.rank,), 0, high, 1))
        model.add("Size", [x], Known(I64, (), x.size, x.size, 1))


@step
def adds_and_drops_axes(model: Model) -> None:
    if x := model.value():
        if 1 in x.lens and model.flag():
            ones = [a for a, n in enumerate(x.lens) if n == 1]
            dropped = [a for a in ones if model.flag()] or ones
            lens = tuple(n for a, n in enumerate(x.lens) if a not in dropped)
            signed = [a - x.rank if model.flag() else a for a in dropped]
            model.add("Squeeze", [x, model.constant(signed)], like(x, lens=lens))
        else:
            at = model.integer(0, x.rank)
            lens = (*x.lens[:at], 1, *x.lens[at:])
            signed = at - len(lens) if model.flag() else at
            model.add("Unsqueeze", [x, model.constant([signed])], like(x, lens=lens))


@step
def flattens(model: Model) -> None:
    if x := model.value():
        at = model.integer(0, x.rank)
        lens = (math.prod(x.lens[:at]), math.prod(x.lens[at:]))
        model.add("Flatten", [x], like(x, lens=lens), axis=at)


@step
def expands(model: Model) -> None:
    if x := model.value():
        lens = tuple(model.integer(1, 3) if n == 1 else n for n in x.lens)
        lens = (*([model.integer(1, 2)] if model.flag() else []), *lens)
        asked = [
            1 if n == m and model.flag() else n
            for n, m in zip(lens[::-1], x.lens[::-1], strict=False)
        ][::-1]
        asked = [*lens[: len(lens) - len(asked)], *asked]
        model.add("Expand", [x, model.constant(asked)], like(x, lens=lens))


@step
def tiles(model: Model) -> None:
    if x := wide(model):
        times = [model.integer(1, 2) for _ in x.lens]
        lens = tuple(n * t for n, t in zip(x.lens, times, strict=True))
        model.add("Tile", [x, model.constant(times)], like(x, lens=lens))


@step
def joins(model: Model) -> None:
    if x := wide(model):
        axis = model.integer(0, x.rank - 1)

        def fits(v: Value) -> bool:
            return (
                v.type == x.type
                and v.rank == x.rank
                and all(
                    n == m for a, (n, m) in enumerate(zip(v.lens, x.lens, strict=True)) if a != axis
                )
            )

        parts = [x, *(model.value(fits) or x for _ in range(model.integer(1, 2)))]
        lens = (*x.lens[:axis], sum(p.lens[axis] for p in parts), *x.lens[axis + 1 :])
        known = Known(
            x.type,
            lens,
            min(p.low for p in parts),
            max(p.high for p in parts),
            min(p.grid for p in parts),
            max(p.error for p in parts),
        )
        model.add("Concat", parts, known, axis=axis - x.rank if model.flag() else axis)


@step
def splits(model: Model) -> None:
    if x := wide(model):
        axis = model.integer(0, x.rank - 1)
        first = model.integer(0, x.lens[axis])
        sizes = (first, x.lens[axis] - first)
        known = [like(x, lens=(*x.lens[:axis], n, *x.lens[axis + 1 :])) for n in sizes]
        if 0 < sizes[0] == sizes[1] and model.flag():
            model.add("Split", [x], *known, axis=axis, num_outputs=2)
        else:
            model.add("Split", [x, model.constant(sizes)], *known, axis=axis)


@step
def cuts(model: Model) -> None:
    if x := wide(model):
        axes = model.axes(x)
        starts, ends, steps = ([model.integer(-6, 6) for _ in axes] for _ in range(3))
        steps = [s or 1 for s in steps]
        parts = [slice(None)] * x.rank
        for axis, start, end, by in zip(axes, starts, ends, steps, strict=True):
            parts[axis] = slice(_first(start, by, x.lens[axis]), end, by)
        lens = tuple(len(range(*p.indices(n))) for p, n in zip(parts, x.lens, strict=True))
        given = [model.constant(v) for v in (starts, ends, axes, steps)]
        model.add("Slice", [x, *given], like(x, lens=lens))


def _first(start: int, by: int, n: int) -> int:
    """The start of a slice: ONNX goes backwards from the first element where Python has none."""
    return max(start, -n) if by < 0 and n else start


@step
def gathers(model: Model) -> None:
    if x := wide(model):
        axis = model.integer(0, x.rank - 1)
        n = x.lens[axis]
        lens = model.one_of([(), (1,), (3,), (2, 2)]) if n else (0,)
        index = (
            np.random.default_rng(model.integer(0, 9)).integers(-n, n, lens) if n else np.zeros(0)
        )
        known = like(x, lens=(*x.lens[:axis], *lens, *x.lens[axis + 1 :]))
        model.add("Gather", [x, model.constant(index, model.one_of(INTEGERS))], known, axis=axis)


@step
def gathers_elements(model: Model) -> None:
    if x := wide(model, lambda v: v.size > 0):
        axis = model.integer(0, x.rank - 1)
        n = x.lens[axis]
        lens = (*x.lens[:axis], model.integer(1, 4), *x.lens[axis + 1 :])
        index = np.random.default_rng(model.integer(0, 9)).integers(-n, n, lens)
        model.add("GatherElements", [x, model.constant(index)], like(x, lens=lens), axis=axis)


@step
def scatters(model: Model) -> None:
    if x := wide(model, lambda v: v.size > 0 and v.type in NUMBERS and v.grid > 0):
        axis = model.integer(0, x.rank - 1)
        index = np.random.default_rng(model.integer(0, 9)).permuted(
            np.broadcast_to(
                np.arange(x.lens[axis]).reshape([-1 if a == axis else 1 for a in range(x.rank)]),
                x.lens,
            ),
            axis=axis,
        )
        updates = model.given(x.type, x.lens, False)
        known = like(
            x,
            low=min(x.low, updates.low),
            high=max(x.high, updates.high),
            grid=min(x.grid, updates.grid),
        )
        model.add("ScatterElements", [x, model.constant(index), updates], known, axis=axis)


@step
def pads(model: Model) -> None:
    if x := wide(model, lambda v: v.type in NUMBERS and v.size > 0):
        mode = model.one_of(["constant", "edge", "reflect"])
        most = 2 if mode != "reflect" else min(x.lens) - 1
        both = [model.integer(0, min(most, 2)) for _ in range(2 * x.rank)]
        lens = tuple(n + a + b for n, a, b in zip(x.lens, both, both[x.rank :], strict=False))
        given = [x, model.constant(both)]
        known = like(x, lens=lens)
        if mode == "constant":
            value = model.integer(-2, 2) if model.flag() else 0
            given += [model.constant(value, x.type)] if value else []
            known = like(
                x,
                lens=lens,
                low=min(x.low, value),
                high=max(x.high, value),
                grid=x.grid and min(x.grid, 1),
            )
        model.add("Pad", given, known, mode=mode)


@step
def keeps_a_triangle(model: Model) -> None:
    if x := model.value(lambda v: v.rank >= 2 and v.type in (*FLOATS[:2], *INTEGERS[:1], BOOL)):
        diagonal = model.constant(model.integer(-2, 2))
        known = like(x, low=min(x.low, 0), high=max(x.high, 0))
        model.add("Trilu", [x, diagonal], known, upper=model.integer(0, 1))


@step
def fills(model: Model) -> None:
    if x := model.value():
        name = model.name()
        _plain(model, "Shape", [x.name], name)
        type = model.one_of((*NUMBERS, BOOL))
        value = model.integer(0, 1)
        tensor = numpy_helper.from_array(np.array([value], type))
        model.add("ConstantOfShape", [name], Known(type, x.lens, value, value, 1), value=tensor)


@step
def counts(model: Model) -> None:
    start, by = model.integer(-4, 4), model.integer(1, 3)
    n = model.integer(0, 5)
    type = model.one_of((np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.int32)))
    given = [model.constant(v, type) for v in (start, start + n * by, by)]
    model.add("Range", given, Known(type, (n,), start, start + max(n - 1, 0) * by, 1))


@step
def marks_places(model: Model) -> None:
    if x := wide(model, lambda v: v.type in INTEGERS):
        depth = model.integer(1, 5)
        given = [x, model.constant(depth), model.constant([0, 1], np.float32)]
        axis = model.integer(0, x.rank)
        known = Known(np.dtype(np.float32), (*x.lens[:axis], depth, *x.lens[axis:]), 0, 1, 1)
        if -depth <= x.low and x.high < depth:
            model.add("OneHot", given, known, axis=axis)
