"""Steps that sum, sort or reduce: reductions, products of matrices, windows and normalizations."""

import math

import numpy as np

from tests.onnx.graphs.arithmetic import is_exact, is_float
from tests.onnx.graphs.growing import FLOATS, INTEGERS, NUMBERS, Known, Model, Value, like, step
from tests.onnx.graphs.movement import wide

I64 = np.dtype(np.int64)
WIDE_FLOATS = FLOATS[:2]


def sum_of(a: Value, b: Value, count: int) -> dict[str, float]:
    """The facts of a sum of products; any order of the terms stays within the bounds."""
    bound = count * a.bound * b.bound
    return {
        "low": -bound,
        "high": bound,
        "grid": a.grid * b.grid,
        "error": count * (a.bound * b.error + b.bound * a.error),
    }


@step
def reduces(model: Model) -> None:
    """Of values with elements: onnxruntime keeps an axis of length 0 that it sums over."""
    if x := wide(model, lambda v: v.type in NUMBERS and v.size > 0):
        op = model.one_of(
            ["Sum", "Max", "Min", "Mean", "L1", "SumSquare", "Prod", "L2", "LogSumExp"]
        )
        axes = model.axes(x) if model.flag() else ()
        along = {a % x.rank for a in axes} or set(range(x.rank))
        keep = model.integer(0, 1)
        lens = tuple(1 if a in along else n for a, n in enumerate(x.lens) if keep or a not in along)
        count = math.prod(x.lens[a] for a in along)
        known = _reduced(op, x, count)
        if known is None:
            return
        given = [x, model.constant(axes)] if axes else [x]
        model.add(f"Reduce{op}", given, like(x, lens=lens, **known), times=count + 8, keepdims=keep)


def _reduced(op: str, x: Value, count: int) -> dict[str, float] | None:
    if op in ("Max", "Min"):
        return {}
    if op == "Sum":
        return {"low": -count * x.bound, "high": count * x.bound, "error": count * x.error}
    if op == "L1":
        return {"low": 0, "high": count * x.bound, "error": count * x.error}
    if op == "SumSquare":
        return {**sum_of(x, x, count), "low": 0}
    if op == "Prod":
        small = count <= 4 and is_exact(x)
        return (
            {"low": -(x.bound**count), "high": x.bound**count, "grid": x.grid**count}
            if small
            else None
        )
    if x.type not in FLOATS:
        return None
    if op == "Mean":
        return {"grid": 0}
    if op == "L2":  # the root is steep at 0, where a sum of squares is exact or the error large
        return {"low": 0, "high": math.sqrt(count) * x.bound, "grid": 0} if is_exact(x) else None
    return {"low": x.low, "high": x.high + math.log(count), "grid": 0} if x.bound < 8 else None


@step
def finds_the_largest(model: Model) -> None:
    if x := wide(
        model, lambda v: v.type in (*FLOATS, np.dtype(np.int32)) and is_exact(v) and v.size > 0
    ):
        axis, keep = model.integer(0, x.rank - 1), model.integer(0, 1)
        lens = tuple(1 if a == axis else n for a, n in enumerate(x.lens) if keep or a != axis)
        known = Known(I64, lens, 0, x.lens[axis] - 1, 1)
        op = model.one_of(["ArgMax", "ArgMin"])
        model.add(op, [x], known, axis=axis, keepdims=keep, select_last_index=model.integer(0, 1))


@step
def sorts(model: Model) -> None:
    if x := wide(
        model, lambda v: v.type in (*WIDE_FLOATS, *INTEGERS) and is_exact(v) and v.size > 0
    ):
        axis = model.integer(0, x.rank - 1)
        n = model.integer(1, x.lens[axis])
        lens = (*x.lens[:axis], n, *x.lens[axis + 1 :])
        places = Known(I64, lens, 0, x.lens[axis] - 1, 1)
        largest = model.integer(0, 1)
        model.add(
            "TopK", [x, model.constant([n])], like(x, lens=lens), places, axis=axis, largest=largest
        )


@step
def sums_up(model: Model) -> None:
    if x := wide(model, lambda v: v.type in (*WIDE_FLOATS, *INTEGERS)):
        axis = model.integer(0, x.rank - 1)
        n = x.lens[axis]
        known = like(x, low=-n * x.bound, high=n * x.bound, error=n * x.error)
        flags = {"exclusive": model.integer(0, 1), "reverse": model.integer(0, 1)}
        model.add("CumSum", [x, model.constant(axis)], known, times=n, **flags)


@step
def multiplies_matrices(model: Model) -> None:
    if a := wide(model, lambda v: v.type in (*FLOATS, *INTEGERS) and v.size > 0):
        k = a.lens[-1]

        def fits(v: Value) -> bool:
            return v.type == a.type and v.size > 0 and _multiplied(a, v) is not None

        b = model.value(fits) if model.flag() else None
        if b is None:
            front = tuple(model.one_of([1, n]) for n in a.lens[:-2])[model.integer(0, 2) :]
            b = model.given(
                a.type,
                (*front, k, model.integer(1, 5)) if model.flag() else (k,),
                model.flag(),
                -2,
                2,
            )
        lens = _multiplied(a, b)
        if lens is not None:
            model.add("MatMul", [a, b], Known(a.type, lens, **sum_of(a, b, k)), times=k)


def _multiplied(a: Value, b: Value) -> tuple[int, ...] | None:
    try:
        return (
            np.matmul(np.empty(a.lens, np.int8), np.empty(b.lens, np.int8)).shape
            if b.rank
            else None
        )
    except ValueError:
        return None


@step
def multiplies_with_a_bias(model: Model) -> None:
    if a := model.value(lambda v: v.rank == 2 and v.type in FLOATS and v.size > 0):
        left, right = model.integer(0, 1), model.integer(0, 1)
        m, k = a.lens[::-1] if left else a.lens
        n = model.integer(1, 4)
        b = model.given(a.type, (n, k) if right else (k, n), model.flag(), -2, 2)
        known = sum_of(a, b, k)
        given: list[Value] = [a, b]
        if model.flag():
            c = model.given(a.type, model.one_of([(), (n,), (1, n), (m, 1), (m, n)]), model.flag())
            given.append(c)
            known |= {
                "low": known["low"] - 4,
                "high": known["high"] + 4,
                "grid": min(known["grid"], c.grid),
            }
        model.add("Gemm", given, Known(a.type, (m, n), **known), times=k, transA=left, transB=right)


@step
def convolves(model: Model) -> None:
    if x := model.image():
        groups = model.one_of([g for g in (1, 2, 4) if x.lens[1] % g == 0])
        spatial = x.rank - 2
        window = [model.integer(1, 3) for _ in range(spatial)]
        strides, dilations = ([model.integer(1, 2) for _ in range(spatial)] for _ in range(2))
        both = [model.integer(0, 1) for _ in range(2 * spatial)]
        out = _windows(x.lens[2:], window, strides, dilations, both)
        if min(out) < 1:
            return
        channels = groups * model.integer(1, 2)
        lens = (channels, x.lens[1] // groups, *window)
        w = model.given(x.type, lens, model.integer(0, 3) == 0, -1, 1)
        known = sum_of(x, w, math.prod(lens[1:]))
        given: list[Value] = [x, w]
        if model.flag():
            given.append(model.given(x.type, (channels,), False))
            known |= {
                "low": known["low"] - 4,
                "high": known["high"] + 4,
                "grid": min(known["grid"], 0.5),
            }
        model.add(
            "Conv", given, Known(x.type, (x.lens[0], channels, *out), **known), times=math.prod(lens[1:]),
            group=groups, strides=strides, dilations=dilations, pads=both, kernel_shape=window,
        )  # fmt: skip


def _windows(lens, window, strides, dilations, both) -> list[int]:
    spatial = len(lens)
    return [
        (lens[a] + both[a] + both[a + spatial] - dilations[a] * (window[a] - 1) - 1) // strides[a]
        + 1
        for a in range(spatial)
    ]


@step
def pools(model: Model) -> None:
    if x := model.image():
        spatial = x.rank - 2
        window = [model.integer(1, 3) for _ in range(spatial)]
        strides = [model.integer(1, 2) for _ in range(spatial)]
        both = [model.integer(0, w - 1) for _ in range(2) for w in window]
        out = _windows(x.lens[2:], window, strides, [1] * spatial, both)
        if min(out) < 1:
            return
        lens = (*x.lens[:2], *out)
        attributes = {"kernel_shape": window, "strides": strides, "pads": both}
        if model.flag():
            model.add("MaxPool", [x], like(x, lens=lens), **attributes)
        else:
            known = like(x, lens=lens, low=min(x.low, 0), high=max(x.high, 0), grid=0)
            include = model.integer(0, 1)
            model.add("AveragePool", [x], known, times=16, **attributes, count_include_pad=include)


@step
def pools_all(model: Model) -> None:
    if x := model.image():
        lens = (*x.lens[:2], *[1] * (x.rank - 2))
        if model.flag():
            model.add("GlobalMaxPool", [x], like(x, lens=lens))
        else:
            model.add("GlobalAveragePool", [x], like(x, lens=lens, grid=0), times=x.size)


@step
def normalizes(model: Model) -> None:
    if x := wide(model, lambda v: is_float(v) and v.size > 0 and v.bound <= 16):
        axis = model.integer(0, x.rank - 1)
        op = model.one_of(["Softmax", "LogSoftmax", "LayerNormalization"])
        n = x.lens[axis]
        if op == "Softmax":
            model.add(
                op, [x], like(x, low=0, high=1, grid=0, error=2 * x.error), times=n + 16, axis=axis
            )
        elif op == "LogSoftmax":
            low = x.low - x.high - math.log(n)
            known = like(x, low=low, high=0, grid=0, error=2 * x.error)
            model.add(op, [x], known, times=n + 16, axis=axis)
        elif x.type in WIDE_FLOATS:
            tail = x.lens[axis:]
            count = math.prod(tail)
            scale, bias = (model.given(x.type, tail, False, -1, 1) for _ in range(2))
            high = math.sqrt(count) + 1
            known = like(x, low=-high, high=high, grid=0, error=4 * x.error * (1 + x.bound))
            given = [x, scale, bias] if model.flag() else [x, scale]
            model.add(op, given, known, times=4 * count + 16, axis=axis, epsilon=1.0)


@step
def normalizes_channels(model: Model) -> None:
    """By constants: the form that passes fold into convolutions."""
    if x := model.value(lambda v: v.rank >= 2 and v.type in WIDE_FLOATS and v.size > 0):
        c = (x.lens[1],)
        scale, bias, mean = (model.given(x.type, c, False, -2, 2) for _ in range(3))
        variance = model.given(x.type, c, False, 1, 4)
        bound = 2.5 * (x.bound + 2) + 2
        known = like(x, low=-bound, high=bound, grid=0, error=3 * x.error)
        given = [x, scale, bias, mean, variance]
        model.add("BatchNormalization", given, known, times=16, epsilon=0.25)


@step
def contracts(model: Model) -> None:
    if a := model.value(lambda v: v.rank == 2 and v.type in WIDE_FLOATS and v.size > 0):
        b = model.given(a.type, (model.integer(1, 3), a.lens[1]), model.flag(), -2, 2)
        known = sum_of(a, b, a.lens[1])
        form, lens = model.one_of([
            ("ij,kj->ik", (a.lens[0], b.lens[0])), ("ij,kj->ki", (b.lens[0], a.lens[0])),
            ("ij,kj->ijk", (*a.lens, b.lens[0])),
        ])  # fmt: skip
        model.add("Einsum", [a, b], Known(a.type, lens, **known), times=a.lens[1], equation=form)
