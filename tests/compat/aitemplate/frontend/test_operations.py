"""Every operation against its formula in NumPy: float16 and float32, one element, odd lengths, ranges."""

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.compat.aitemplate.frontend.graphs import given, output, run
from workbench.compat.aitemplate.frontend import IntVar, ops
from workbench.compat.aitemplate.frontend.ops import FuncEnum

RANDOM = np.random.default_rng(7)
F = FuncEnum


def floats(*lens: int) -> Any:
    """Numbers around 0."""
    return RANDOM.normal(size=lens).astype(np.float32)


class Case(NamedTuple):
    """An operation of some inputs, and its formula."""

    name: str
    build: Callable[..., Any]
    formula: Callable[..., Any]
    inputs: tuple[Any, ...]
    ranges: bool = True
    """Whether the first length of the first input can be any."""


def function(name: str, formula: Callable[..., Any], *numbers: float, count: int = 1) -> Case:
    """An elementwise function of arrays of positive and negative numbers, and of further numbers."""
    arrays = tuple(floats(3, 5) for _ in range(count))
    return Case(name, lambda *ts: ops.elementwise(F[name])(*ts, *numbers), formula, arrays)


def erf(x: Any) -> Any:
    """By the integral, which is accurate to 1e-6."""
    t = np.linspace(0, 1, 401)
    values = np.exp(-((x[..., None] * t) ** 2))
    return 2 / np.sqrt(np.pi) * x * np.trapezoid(values, t, axis=-1)


def sigmoid(x: Any) -> Any:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def relu(x: Any) -> Any:
    """The positive part."""
    return np.maximum(x, 0)


def softmax(x: Any, axis: int = -1) -> Any:
    """Exponentials divided by their sum."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def fast_gelu(x: Any) -> Any:
    """By the hyperbolic tangent."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def hardswish(x: Any) -> Any:
    """``x * clip(x + 3, 0, 6) / 6``."""
    return x * np.clip(x + 3, 0, 6) / 6


def normalised(x: Any, axes: tuple[int, ...]) -> Any:
    """Mean 0 and variance 1."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def convolved(x: Any, w: Any, stride: int = 1, pad: int = 0, dilate: int = 1) -> Any:
    """A convolution by its sum, of images whose channels are last."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    span = [dilate * (k - 1) + 1 for k in w.shape[1:3]]
    rows, columns = ((n - s) // stride + 1 for n, s in zip(x.shape[1:3], span, strict=True))
    found = np.zeros((x.shape[0], rows, columns, w.shape[0]), x.dtype)
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride, j * stride
            part = x[:, top : top + span[0] : dilate, left : left + span[1] : dilate]
            found[:, i, j] = np.einsum("nhwc,mhwc->nm", part, w)
    return found


def spread(x: Any, w: Any, stride: int, pad: int) -> Any:
    """A transposed convolution by its sum."""
    n, h, width, _ = x.shape
    _, kh, kw, m = w.shape
    found = np.zeros((n, (h - 1) * stride + kh, (width - 1) * stride + kw, m), x.dtype)
    for i in range(h):
        for j in range(width):
            part = np.einsum("nc,chwm->nhwm", x[:, i, j], w)
            found[:, i * stride : i * stride + kh, j * stride : j * stride + kw] += part
    return found[:, pad : found.shape[1] - pad, pad : found.shape[2] - pad]


def pooled(x: Any, reduced: Any, fill: float, size: int, stride: int, pad: int) -> Any:
    """Windows reduced."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (1, 2))
    return reduced(windows[:, ::stride, ::stride], axis=(-2, -1))


def attended(
    q: Any, k: Any, v: Any, causal: bool = False, keys: Any = None, queries: Any = None
) -> Any:
    """Attention, positions before heads."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    row, column = np.indices(scores.shape[-2:])
    if causal:
        scores = np.where(column <= row, scores, -np.inf)
    if keys is not None:
        scores = np.where(column < keys.reshape(-1, 1, 1, 1), scores, -np.inf)
    found = softmax(scores) @ v
    if queries is not None:
        found = np.where(row[:, :1] < queries.reshape(-1, 1, 1, 1), found, 0)
    return np.swapaxes(found, 1, 2)


def flash(x: Any, ends: Any) -> Any:
    """Causal attention within each sequence."""
    parts = [x[a:b].transpose(1, 2, 0, 3)[:, None] for a, b in pairwise(ends)]
    return np.concatenate([attended(*p, causal=True)[0] for p in parts])


ACTIVATED = {
    "relu": relu, "sigmoid": sigmoid, "tanh": np.tanh, "softmax": softmax, "hardswish": hardswish,
    "swish": lambda x: x * sigmoid(x), "fast_gelu": fast_gelu,
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
}  # fmt: skip


def finished(name: str, x: Any, rest: list[Any]) -> Any:
    """An epilogue by its words."""
    for word in name.replace("fast_gelu", "fast-gelu").split("_"):
        if word in ("bias", "add"):
            x = x + rest.pop(0)
        elif word == "mul":
            x = x * rest.pop(0)
        elif word:
            x = ACTIVATED[word.replace("-", "_")](x)
    return x


def gemm(name: str) -> Case:
    """A product of a 3 × 5 and a 5 × 7 matrix with its epilogue."""
    _, layout, *words = name.split("_")
    w = floats(7, 5) if layout == "rcr" else floats(5, 7)
    rest = [
        floats(7) if n == "bias" else floats(3, 7) for n in words if n in ("bias", "add", "mul")
    ]

    def formula(a: Any, b: Any, *more: Any) -> Any:
        return finished("_".join(words), a @ (b.T if layout == "rcr" else b), list(more))

    return Case(name, getattr(ops, name)(), formula, (floats(3, 5), w, *rest))


def bmm(name: str) -> Case:
    """Two products of a 3 × 5 and a 5 × 7 matrix."""
    _, layout, *words = name.split("_")
    a, b, c = (letter == "r" for letter in layout)
    lens = [
        (2, 3, 5) if a else (2, 5, 3),
        (2, 5, 7) if b else (2, 7, 5),
        (2, 3, 7) if c else (2, 7, 3),
    ]
    inputs = tuple(floats(*n) for n in (lens if "add" in words else lens[:2]))

    def formula(x: Any, y: Any, *more: Any) -> Any:
        found = (x if a else x.mT) @ (y if b else y.mT)
        return finished("_".join(words), found if c else found.mT, list(more))

    return Case(name, getattr(ops, name)(), formula, inputs)


def conv(name: str, **options: int) -> Case:
    """A convolution with its epilogue."""
    x, w = floats(2, 7, 5, 3), floats(4, 3, 3, 3)
    words = name.removeprefix("conv2d").removesuffix("_few_channels")
    made = convolved(x, w, **options)
    rest = [floats(4), floats(*made.shape)][: words.count("bias") + words.count("add")]

    def formula(a: Any, b: Any, *more: Any) -> Any:
        return finished(words, convolved(a, b, **options), list(more))

    build = getattr(ops, name)(**{"stride": 1, "pad": 0, **options})
    return Case(name, build, formula, (x, w, *rest))


WHOLE = np.array([[2, 0], [1, 1]], np.int64)
CUBE = floats(2, 3, 4)
SEEN = (floats(2, 2, 5, 4), floats(2, 2, 3, 4), floats(2, 2, 3, 6))
ENDS = np.array([0, 2, 3, 7], np.int32)
ODD = np.array([[np.nan, np.inf, -np.inf], [1, -2, 3]], np.float32)

CASES = [
    function("ADD", np.add, count=2),
    function("SUB", np.subtract, count=2),
    function("MUL", np.multiply, count=2),
    function("DIV", np.divide, count=2),
    function("TANH", np.tanh),
    function("COS", np.cos),
    function("SIN", np.sin),
    function("SIGN", np.sign),
    function("ABS", np.abs),
    function("EXP", np.exp),
    Case("LOGE", ops.elementwise(F.LOGE), np.log, (np.abs(CUBE) + 1,)),
    Case("SQRT", ops.elementwise(F.SQRT), np.sqrt, (np.abs(CUBE),)),
    function("MAX", np.maximum, count=2),
    function("MIN", np.minimum, count=2),
    function("SIGMOID", sigmoid),
    function("LRELU", lambda x: np.where(x > 0, x, x * 0.2), 0.2),
    function("HARDTANH", lambda x: np.clip(x, -0.5, 1), -0.5, 1),
    function("RELU", relu),
    function("SILU", ACTIVATED["swish"]),
    function("POW", lambda x: x**2, 2.0),
    function("GELU", ACTIVATED["gelu"]),
    function("FASTGELU", fast_gelu),
    function("SOFTPLUS", lambda x: np.log1p(np.exp(x * 2)) / 2, 2.0, 20.0),
    Case("SOFTPLUS", ops.elementwise(F.SOFTPLUS), lambda x: x, (np.array([30, 90], np.float32),)),
    function("ELU", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), 0.5),
    function("CELU", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x / 0.5)), 0.5),
    function("SOFTSIGN", lambda x: x / (1 + np.abs(x))),
    function("FLOOR", np.floor),
    function("FLOOR_DIV", lambda x: np.floor(x / 0.5), 0.5),
    function("HARDSWISH", hardswish),
    Case(
        "NAN_TO_NUM",
        lambda x: ops.elementwise(F.NAN_TO_NUM)(x, 7.0, 8.0, -9.0),
        lambda x: np.nan_to_num(x, nan=7, posinf=8, neginf=-9),
        (ODD,),
    ),
    Case(
        "NAN_TO_NUM",
        ops.elementwise(F.NAN_TO_NUM),
        np.nan_to_num,
        (np.array([np.nan, -1], np.float32),),
    ),
    Case(
        "CLAMP_NAN_TO_NUM",
        lambda x: ops.elementwise(F.CLAMP_NAN_TO_NUM)(x, -1, 2, 0.5),
        lambda x: np.clip(np.nan_to_num(x, nan=0.5), -1, 2),
        (ODD,),
    ),
    Case("scalar", lambda x: 1 - x * 2 / 3 + x, lambda x: 1 - x * 2 / 3 + x, (floats(1),)),
    Case("broadcast", lambda x, y: x + y, lambda x, y: x + y, (floats(3, 1), floats(5))),
    Case("clamp", lambda x: ops.clamp()(x, -0.5, None), lambda x: np.maximum(x, -0.5), (CUBE,)),
    *[
        Case(n, getattr(ops, n)(), f, (floats(3, 3), np.zeros((3, 1), np.float32)))
        for n, f in (
            ("gt", np.greater),
            ("ge", np.greater_equal),
            ("lt", np.less),
            ("le", np.less_equal),
        )
    ],
    Case("eq", lambda x: ops.eq()(x, 1), lambda x: x == 1, (ODD,)),
    Case("ne", lambda x: ops.ne()(x, 1), lambda x: x != 1, (ODD,)),
    Case("where", ops.where(), np.where, (CUBE > 0, CUBE, floats(4))),
    Case(
        "where",
        lambda c: ops.where()(c, 1, 2),
        lambda c: np.where(c, 1, 2).astype(np.float16),
        (CUBE > 0,),
    ),
    Case("cast", lambda x: ops.cast()(x, "int32"), lambda x: x.astype(np.int32), (CUBE * 9,)),
    Case("identity", ops.identity(), lambda x: x, (floats(1),)),
    *[gemm(n) for n in ops.OPERATIONS if n.startswith("gemm_")],
    *[bmm(n) for n in ops.OPERATIONS if n.startswith("bmm_") and n != "bmm_softmax_bmm"],
    Case("gemm_rcr", ops.gemm_rcr(), lambda a, b: a @ b.T, (floats(2, 1, 5), floats(1, 5))),
    Case("bmm_rrr", ops.bmm_rrr(), lambda a, b: a @ b, (floats(1, 3, 1), floats(4, 1, 2)), False),
    Case(
        "bmm_softmax_bmm",
        ops.bmm_softmax_bmm(0.5),
        lambda a, b, c: softmax(a @ b.mT / 2) @ c,
        (floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 1)),
    ),
    *[conv(n) for n in ops.OPERATIONS if n.startswith("conv2d")],
    conv("conv2d", stride=2, pad=1, dilate=2),
    conv("conv2d_bias_relu", stride=3, pad=2),
    Case(
        "transposed_conv2d",
        ops.transposed_conv2d(2, 1),
        lambda x, w: spread(x, w, 2, 1),
        (floats(2, 3, 4, 3), floats(3, 2, 2, 5)),
    ),
    Case(
        "transposed_conv2d_bias_relu",
        ops.transposed_conv2d_bias_relu(2, 0),
        lambda x, w, b: relu(spread(x, w, 2, 0) + b),
        (floats(1, 3, 3, 2), floats(2, 2, 2, 3), floats(3)),
    ),
    Case(
        "avg_pool2d",
        ops.avg_pool2d(3, 2, 1),
        lambda x: pooled(x, np.mean, 0, 3, 2, 1),
        (floats(2, 7, 5, 3),),
    ),
    Case(
        "max_pool2d",
        ops.max_pool2d(2, 2, 0),
        lambda x: pooled(x, np.max, 0, 2, 2, 0),
        (floats(1, 6, 7, 1),),
    ),
    Case("softmax", ops.softmax(), softmax, (floats(3, 5),)),
    Case("softmax", lambda x: ops.softmax()(x, 0), lambda x: softmax(x, 0), (floats(3, 1),)),
    Case(
        "layernorm",
        lambda x, g, b: ops.layernorm()(x, g, b, [3, 4]),
        lambda x, g, b: normalised(x, (1, 2)) * g + b,
        (CUBE, floats(3, 4), floats(3, 4)),
    ),
    Case("layernorm", ops.layernorm([1]), lambda x: x * 0, (floats(2, 1),)),
    Case(
        "layernorm_sigmoid_mul",
        lambda x, b: ops.layernorm_sigmoid_mul([4])(x, None, b),
        lambda x, b: sigmoid(normalised(x, (2,)) + b) * x,
        (CUBE, floats(4)),
    ),
    *[
        Case(
            n,
            getattr(ops, n)(2, 4),
            lambda x, g, b, n=n: finished(
                n.removeprefix("group_norm"),
                normalised(x.reshape(2, 3, 3, 2, 2), (1, 2, 4)).reshape(x.shape) * g + b,
                [],
            ),
            (floats(2, 3, 3, 4), floats(4), floats(4)),
        )
        for n in ("group_norm", "group_norm_swish")
    ],
    *[
        Case(n, getattr(ops, n)(1), lambda x, f=f: f(x, axis=1), (CUBE,))
        for n, f in (
            ("reduce_sum", np.sum),
            ("reduce_mean", np.mean),
            ("reduce_max", np.max),
            ("reduce_min", np.min),
        )
    ],
    Case(
        "reduce_sum",
        ops.reduce_sum([0, -1], keepdim=True, dtype="float32"),
        lambda x: x.astype(np.float32).sum((0, 2), keepdims=True),
        (CUBE,),
    ),
    Case("var", ops.var(1, unbiased=True), lambda x: x.var(1, ddof=1), (CUBE,)),
    Case(
        "var",
        ops.var([0, 1], unbiased=False, keepdim=True),
        lambda x: x.var((0, 1), keepdims=True),
        (CUBE,),
    ),
    Case("vector_norm", ops.vector_norm(2, -1), lambda x: np.sqrt((x * x).sum(-1)), (CUBE,)),
    Case("argmax", ops.argmax(1), lambda x: x.argmax(1), (CUBE,)),
    Case("topk", ops.topk(2), lambda x: np.argsort(-x, -1, kind="stable")[..., :2], (CUBE,)),
    Case(
        "concatenate",
        lambda x, y: ops.concatenate()([x, y], -1),
        lambda *x: np.concatenate(x, -1),
        (CUBE, floats(2, 3, 1)),
    ),
    Case("concatenate", lambda x: ops.concatenate()([x]), lambda x: x, (floats(1),)),
    Case("split", lambda x: ops.split()(x, [1, 3], 2), lambda x: [x[..., :1], x[..., 1:]], (CUBE,)),
    Case("split", lambda x: ops.split()(x, 2, 1), lambda x: [x[:, :2], x[:, 2:]], (CUBE,)),
    Case("chunk", lambda x: ops.chunk()(x, 2, 1), lambda x: [x[:, :2], x[:, 2:]], (CUBE,)),
    Case(
        "dynamic_slice",
        lambda x: ops.dynamic_slice()(x, [None, -2, 1], [None, None, -1]),
        lambda x: x[:, -2:, 1:-1],
        (CUBE,),
    ),
    Case(
        "dynamic_slice",
        lambda x: ops.dynamic_slice()(x, [0, 1, 0], [9, 9, 9]),
        lambda x: x[:, 1:],
        (CUBE,),
    ),
    Case(
        "gather",
        lambda x, i: ops.gather()(x, 1, i),
        lambda x, i: np.take_along_axis(x[:2], i, 1),
        (floats(4, 3), WHOLE),
        False,
    ),
    Case(
        "batch_gather",
        ops.batch_gather(),
        lambda x, i: np.stack([x[k][i[k]] for k in range(2)]),
        (CUBE, WHOLE),
    ),
    Case("batch_gather", ops.batch_gather(), lambda x, i: x[i], (floats(3, 2), WHOLE[0])),
    Case(
        "index_select", ops.index_select(1), lambda x, i: x[:, i], (CUBE, WHOLE[0].astype(np.int32))
    ),
    Case("reshape", lambda x: ops.reshape()(x, [4, -1]), lambda x: x.reshape(4, 6), (CUBE,)),
    Case(
        "reshape", lambda x: ops.reshape()(x, []), lambda x: x.reshape(()), (floats(1, 1),), False
    ),
    Case("flatten", ops.flatten(), np.ravel, (CUBE,)),
    Case("flatten", ops.flatten(1, -1), lambda x: x.reshape(2, 12), (CUBE,)),
    Case(
        "permute", lambda x: ops.permute()(x, [1, -1, 0]), lambda x: x.transpose(1, 2, 0), (CUBE,)
    ),
    Case("permute021", ops.permute021(), lambda x: x.mT, (CUBE,)),
    Case("permute102", ops.permute102(), lambda x: x.transpose(1, 0, 2), (CUBE,)),
    Case("permute210", ops.permute210(), lambda x: x.T, (CUBE,)),
    Case(
        "permute0213", ops.permute0213(), lambda x: x.transpose(0, 2, 1, 3), (floats(1, 2, 3, 1),)
    ),
    Case("transpose", lambda x: ops.transpose()(x, 0, -1), lambda x: x.T, (CUBE,)),
    Case("squeeze", ops.squeeze(None), np.squeeze, (floats(1, 3, 1),), False),
    Case("squeeze", ops.squeeze(1), lambda x: x, (floats(1, 3),)),
    Case("unsqueeze", ops.unsqueeze(-1), lambda x: x[..., None], (CUBE,)),
    Case(
        "expand",
        lambda x: ops.expand()(x, [2, -1, 4]),
        lambda x: np.broadcast_to(x, (2, 3, 4)),
        (floats(3, 1),),
    ),
    Case(
        "full",
        lambda x: x + ops.full()([2, 1, 4], 1.5, x.dtype()),
        lambda x: x + 1.5,
        (CUBE,),
        False,
    ),
    Case(
        "arange",
        lambda x: x + ops.arange(1, 9, 2)(x.dtype()),
        lambda x: x + np.array([1, 3, 5, 7]),
        (CUBE,),
    ),
    Case(
        "size",
        lambda x: ops.reshape()(x, [ops.getitem()(ops.size()(x), 1), -1]),
        lambda x: x.reshape(3, 8),
        (CUBE,),
    ),
    Case("mem_eff_attention", ops.mem_eff_attention(False), attended, SEEN),
    Case(
        "mem_eff_attention", ops.mem_eff_attention(True), lambda *x: attended(*x, causal=True), SEEN
    ),
    Case(
        "mem_eff_attention",
        ops.mem_eff_attention(False, 0, True, True),
        lambda *x: attended(*x[:3], False, *x[3:]),
        (*SEEN, np.array([1, 3], np.int32), np.array([5, 2], np.int32)),
    ),
    Case("flash_attention", ops.flash_attention(3, 0, 4, True), flash, (floats(7, 3, 2, 4), ENDS)),
]


def check(case: Case, arrays: tuple[Any, ...], batch: IntVar | None, tolerance: float) -> None:
    """Compare an operation with its formula."""
    named = {f"x{k}": a for k, a in enumerate(arrays)}
    first = arrays[0].shape[:1]
    tensors = [
        given(a, n, {0: batch} if batch is not None and a.shape[:1] == first else {})
        for n, a in named.items()
    ]
    built = copy.deepcopy(case.build)(*tensors)
    several = built if isinstance(built, list) else [built]
    found = run([output(t, f"y{k}") for k, t in enumerate(several)], named)
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    expected = case.formula(*wide)
    for a, b in zip(found, expected if isinstance(built, list) else [expected], strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a.astype(np.asarray(b).dtype), b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_an_operation_is_its_formula_in_float32(case: Case):
    check(case, case.inputs, None, 3e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_an_operation_is_its_formula_in_float16(case: Case):
    half = tuple(a.astype(np.float16) if a.dtype == np.float32 else a for a in case.inputs)
    check(case, half, None, 2e-2)


@pytest.mark.parametrize("case", [c for c in CASES if c.ranges], ids=lambda c: c.name)
def test_the_first_length_can_be_a_range(case: Case):
    check(case, case.inputs, IntVar([1, case.inputs[0].shape[0] + 2], "batch"), 3e-5)
