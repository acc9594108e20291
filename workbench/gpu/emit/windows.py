"""Values of sliding windows: pooling, and local response normalisation."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.pool import Lrn, Pooling, PoolingMode
from workbench.compiler.ops.pool_indices import MaxPoolIndices
from workbench.compiler.ops.windows import Window, both_sides, window_of
from workbench.gpu.emit.index import Index, Variable, linear
from workbench.gpu.emit.scalar import Scalar, c_type, cast, number
from workbench.gpu.emit.sums import bounded, finished, larger, lowest, real_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes

_COVERED = (
    "DEVICE {I} covered_{I}({I} start, {I} low, {I} high, {I} step, {I} size) {{"
    " {I} a = low > start ? (low - start + step - 1) / step : 0;"
    " {I} b = high > start ? (high - start + step - 1) / step : 0;"
    " return (b < size ? b : size) - (a < size ? a : size); }}"
)
"""The number of the ``size`` positions ``start``, ``start + step``, … that lie in [``low``, ``high``)."""

_UNROLLED = 25
"""Most taps of a window whose loops are unrolled on a CPU, so that loops around them become vectors."""


@contextmanager
def taps(
    t: Tensors, window: Window, outputs: Sequence[Index]
) -> Generator[tuple[Indices, Indices]]:
    """Loops over the taps of a window that lie inside the input.

    Args:
        t: The kernel's values.
        window: The window.
        outputs: The index of the output along each spatial axis.

    Yields:
        The tap's index in the window, and its position in the input.
    """
    with _visited(t, window, outputs, branches=True) as (tap, place, _):
        yield tap, place


@contextmanager
def guarded_taps(
    t: Tensors, window: Window, outputs: Sequence[Index]
) -> Generator[tuple[Indices, Indices, str]]:
    """As `taps`, for a sum of terms.

    On a CPU the loops also visit the taps outside the input, at a position inside: compilers take a fraction
    of the time for loops without branches.

    Yields:
        The tap's index in the window, its position in the input, and the condition for its term to count.
    """
    branches = not t.is_cpu or 0 in window.input
    with _visited(t, window, outputs, branches=branches) as visited:
        yield visited


@contextmanager
def _visited(
    t: Tensors, window: Window, outputs: Sequence[Index], *, branches: bool
) -> Generator[tuple[Indices, Indices, str]]:
    """Loops over taps, with a branch around those outside the input, or else a condition for each."""
    tap: list[Index] = []
    place: list[Index] = []
    counts = "1"
    with ExitStack() as blocks:
        for axis, n in enumerate(window.input):
            size = window.size[axis]
            loop = t.w.loop(size, unroll=not branches and prod(window.size) <= _UNROLLED)
            tap.append(blocks.enter_context(loop) if size != 1 else Index())
            at = start_of(window, axis, outputs[axis]) + tap[-1] * window.dilation[axis]
            condition = t.inside([at], [n])
            if condition == "1" or branches:
                if condition != "1":
                    blocks.enter_context(t.w.block(f"if ({condition})"))
                place.append(bounded(t.w, at, n))
                continue
            inside = t.w.define("i32", condition)
            name = t.w.define(t.w.integer_type, f"{inside} ? {at.text()} : 0", "i")
            place.append(Index.of(Variable(name, 0, n - 1)))
            counts = inside if counts == "1" else t.w.define("i32", f"{counts} & {inside}")
        yield tuple(tap), tuple(place), counts


def start_of(window: Window, axis: int, output: Index) -> Index:
    """The position of an output's first tap along an axis; negative in the padding."""
    return output * window.stride[axis] - window.begin[axis]


# Pooling


@value_of(Pooling)
def pooled(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The mean, maximum or norm of the taps inside the input."""
    op, x = attributes(t, i), i.inputs[0]
    window = _pooling_window(op, x.shape.lens[2:])
    if op.mode == PoolingMode.MAX:
        return _maximum(t, i, window, index)
    work = real_type(x.shape.type)
    if op.mode == PoolingMode.AVERAGE:
        total = _total(t, i, window, index, "{0}")
        count = _count(t, op, window, index)
        mean = Scalar(t.w.let(c_type(work), f"{total.text} / {count}"), work)
        return finished(t.w, mean, x.shape.type)
    return _norm(t, i, op.lp_order, window, index)


def _pooling_window(op: Pooling, lens: tuple[int, ...]) -> Window:
    if op.dyn_global:
        ones, none = (1,) * len(lens), (0,) * len(lens)
        return Window(lens, lens, ones, ones, none, none)
    return window_of(op, lens, op.lengths, op.ceil_mode)


def _maximum(t: Tensors, i: Instruction, window: Window, index: Indices) -> Scalar:
    x, type = i.inputs[0], i.shape.type
    best = t.w.variable(c_type(type), lowest(type).text)
    with guarded_taps(t, window, index[2:]) as (_, place, counts):
        value = _counted(t, t.at(x, (*index[:2], *place)), counts, lowest(type))
        t.w.line(f"{best} = {larger(t.w, best, value, type)};")
    return finished(t.w, Scalar(best, type), type)


def _total(t: Tensors, i: Instruction, window: Window, index: Indices, term: str) -> Scalar:
    """The sum of a term over the taps; ``{0}`` in the term stands for the tap's value."""
    x = i.inputs[0]
    work = real_type(x.shape.type)
    total = t.w.variable(c_type(work), number(0, work).text)
    with guarded_taps(t, window, index[2:]) as (_, place, counts):
        value = cast(t.w, t.at(x, (*index[:2], *place)), work)
        counted = _counted(t, value, counts, number(0, work))
        t.w.line(f"{total} += {term.format(counted)};")
    return Scalar(total, work)


def _counted(t: Tensors, value: Scalar, counts: str, otherwise: Scalar) -> str:
    """A tap's value, or another one if it does not count."""
    if counts == "1":
        return value.text
    return t.w.define(c_type(value.type), f"{counts} ? {value.text} : {otherwise.text}")


def _count(t: Tensors, op: Pooling, window: Window, index: Indices) -> str:
    """The number of elements in a mean, at least 1."""
    factors: list[str] = []
    known = 1
    for axis, n in enumerate(window.input):
        low, high = (-window.begin[axis], n + window.end[axis]) if op.count_include_pad else (0, n)
        start = start_of(window, axis, index[2 + axis])
        if start.range[0] >= low and start.range[1] + window.span[axis] <= high:
            known *= window.size[axis]
            continue
        kind = t.w.integer_type
        t.w.need(_COVERED.format(I=kind))
        rest = f"{low}, {high}, {window.dilation[axis]}, {window.size[axis]}"
        factors.append(t.w.integer(f"covered_{kind}({start.text()}, {rest})"))
    if not factors:
        return str(known)
    count = t.w.integer(" * ".join([str(known), *factors]))
    return f"({count} > 1 ? {count} : 1)"


def _norm(t: Tensors, i: Instruction, order: int, window: Window, index: Indices) -> Scalar:
    """The norm of a window; of whole numbers, one that is whole is exact, for it is truncated."""
    type = i.shape.type
    if order == 0:
        return number(1, type)
    work, whole = real_type(type), type.is_integral
    term = {1: "fabs({0})", 2: "{0} * {0}"}.get(order, _power("fabs({0})", order, work, whole))
    total = _total(t, i, window, index, term).text
    root = f"pow({total}, {number(1 / order, work).text})"
    norm = t.w.let(c_type(work), {1: total, 2: f"sqrt({total})"}.get(order, root))
    if whole and order > 2:
        near = t.w.let(c_type(work), f"rint({norm})")
        norm = f"({_power(near, order, work, whole)} == {total} ? {near} : {norm})"
    return finished(t.w, Scalar(norm, work), type)


def _power(base: str, order: int, work: DType, whole: bool) -> str:
    raised = f"pow({base}, {number(order, work).text})"
    return f"rint({raised})" if whole else raised


@value_of(MaxPoolIndices)
def index_of_maximum(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The index of the first largest tap; a later tap wins only if it is greater."""
    op, x, w = attributes(t, i), i.inputs[0], t.w
    lens, type = x.shape.lens[2:], x.shape.type
    begin, end = both_sides(op, op.padding, len(lens))
    window = Window(lens, op.lengths, op.stride, op.dilations, begin, end, op.ceil_mode)
    strides = [prod(lens[:a] if op.column_major else lens[a + 1 :]) for a in range(len(lens))]
    best = w.variable(c_type(type), number(0, type).text)
    found = w.variable(w.integer_type, "-1")
    with taps(t, window, index[2:]) as (_, place):
        value = t.at(x, (*index[:2], *place)).text
        wins = f"{found} < 0 || {value} > {best}"
        if type.is_float:
            wins += f" || ({value} != {value} && {best} == {best})"
        with w.block(f"if ({wins})"):
            w.line(f"{best} = {value};")
            w.line(f"{found} = {linear(place, strides).text()};")
    image = linear(index[:2], [x.shape.lens[1] * prod(lens), prod(lens)])
    number_ = f"(i64)(({found} > 0 ? {found} : 0) + {image.text()})"
    return Scalar(w.let("i64", number_), DType.INT64)


# Normalisation


@value_of(Lrn)
def normalised(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """``x * (bias + alpha / size * sum of squares) ** -beta``, summed over adjacent channels."""
    op, x, w = attributes(t, i), i.inputs[0], t.w
    type = i.shape.type
    work = real_type(type)
    total = w.variable(c_type(work), number(0, work).text)
    with w.loop(op.size) as offset:
        channel = index[1] + offset - (op.size - 1) // 2
        n = x.shape.lens[1]
        with w.block(f"if ({t.inside([channel], [n])})"):
            place = (index[0], bounded(w, channel, n), *index[2:])
            value = cast(w, t.at(x, place), work).text
            w.line(f"{total} += {value} * {value};")
    alpha, bias, beta = (number(v, work).text for v in (op.alpha / op.size, op.bias, -op.beta))
    value = cast(w, t.at(x, index), work).text
    made = w.let(c_type(work), f"{value} * pow({total} * {alpha} + {bias}, {beta})")
    return finished(w, Scalar(made, work), type)
