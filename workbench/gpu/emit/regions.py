"""Values of pooling over regions of interest, whose borders are data.

A region's batch index that is out of range is clamped; the reference refuses it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.ops.regions import MaxRoiPool
from workbench.compiler.ops.resize import MOST_SAMPLES, RoiAlign
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import Scalar, c_type, cast, number
from workbench.gpu.emit.sums import clamped, finished, larger, lowest, real_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes


def _batch(t: Tensors, value: Scalar, n: int) -> Index:
    """The image of a region: a negative index counts from the end, and all are clamped to the range."""
    whole = t.w.let("i64", cast(t.w, value, DType.INT64).text)
    front = t.w.let("i64", f"{whole} < 0 ? {whole} + {n} : {whole}")
    kind = t.w.integer_type
    name = t.w.integer(f"({kind})({front} < 0 ? 0 : {front} > {n - 1} ? {n - 1} : {front})")
    return Index.of(Variable(name, 0, n - 1))


# Bilinear samples


@dataclass(frozen=True)
class _Line:
    """Samples of a region along one axis, evenly spaced over the cells."""

    start: str
    step: str
    samples: str
    """Samples per cell."""
    n: int
    """The length of the axis."""


@dataclass(frozen=True)
class _Sample:
    """A sample along one axis: the two elements beside it, and their weights."""

    at: tuple[Index, Index]
    weights: tuple[str, str]


@value_of(RoiAlign)
def aligned(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The mean or maximum of bilinear samples in a cell."""
    op, x, w = attributes(t, i), i.inputs[0], t.w
    work = real_type(i.shape.type)
    kind = c_type(work)
    image = _batch(t, t.at(i.inputs[2], index[:1]), x.shape.lens[0])
    lines = [_line(t, i, index[0], axis) for axis in (0, 1)]
    largest = op.mode != PoolingMode.AVERAGE
    total = w.variable(kind, (lowest(work) if largest else number(0, work)).text)
    with _samples(t, lines[0], index[2]) as row, _samples(t, lines[1], index[3]) as column:
        for (a, p), (b, q) in product(_sides(row), _sides(column)):
            value = cast(w, t.at(x, (image, index[1], a, b)), work).text
            term = w.let(kind, f"{value} * ({kind})({p} * {q})")
            more = f"= {larger(w, total, term, work)}" if largest else f"+= {term}"
            w.line(f"{total} {more};")
    if not largest:
        w.line(f"{total} /= ({kind})(({kind}){lines[0].samples} * {lines[1].samples});")
    return finished(w, Scalar(total, work), i.shape.type)


def _sides(sample: _Sample) -> list[tuple[Index, str]]:
    return list(zip(sample.at, sample.weights, strict=True))


def _line(t: Tensors, i: Instruction, region: Index, axis: int) -> _Line:
    """The samples along rows or columns; a region may run backwards."""
    op, w = attributes(t, i), t.w
    cells = (op.output_height, op.output_width)[axis]
    half = op.coordinate_transformation_mode == "half_pixel"
    start, end = (_corner(t, i, region, k, 0.5 if half else 0.0) for k in (1 - axis, 3 - axis))
    extent = w.let("f64", f"{end} - {start}")
    if not half:
        extent = w.let("f64", f"{extent} < 1 ? 1 : {extent}")
    samples = str(op.sampling_ratio)
    if not op.sampling_ratio:
        count = w.let("f64", f"ceil({extent} / {cells})")
        samples = w.integer(
            f"{count} > {MOST_SAMPLES} ? {MOST_SAMPLES} : {count} > 1 ? (i32){count} : 1"
        )
    step = w.let("f64", f"{extent} / ((f64){cells} * {samples})")
    return _Line(start, step, samples, i.inputs[0].shape.lens[2 + axis])


def _corner(t: Tensors, i: Instruction, region: Index, number_: int, shift: float) -> str:
    value = cast(t.w, t.at(i.inputs[1], (region, Index((), number_))), DType.DOUBLE)
    scale = number(attributes(t, i).spatial_scale, DType.DOUBLE).text
    return t.w.let("f64", f"{value.text} * {scale} - {number(shift, DType.DOUBLE).text}")


@contextmanager
def _samples(t: Tensors, line: _Line, cell: Index) -> Generator[_Sample]:
    """A loop over the samples of a cell; those beyond the edge have weight 0."""
    w, last = t.w, line.n - 1
    kind, name = w.integer_type, w.name("s")
    with w.block(f"for ({kind} {name} = 0; {name} < {line.samples}; ++{name})"):
        count = f"(f64)(({cell.text()}) * {line.samples} + {name}) + 0.5"
        at = w.let("f64", f"{line.start} + ({count}) * {line.step}")
        inside = w.let("f64", f"{at} >= -1 && {at} <= {line.n} ? 1.0 : 0.0")
        kept = w.let("f64", f"{at} > {last} ? {last} : {at} > 0 ? {at} : 0")
        low = Index.of(Variable(w.integer(f"({kind}){kept}"), 0, last))
        beyond = w.let("f64", f"{kept} - ({low.text()})")
        weights = w.let("f64", f"(1 - {beyond}) * {inside}"), w.let("f64", f"{beyond} * {inside}")
        yield _Sample((low, clamped(w, low + 1, last)), weights)


# Whole elements


@value_of(MaxRoiPool)
def region_maximum(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The maximum of the elements of a cell; 0 where it has none."""
    op, w = attributes(t, i), t.w
    x, regions = i.inputs
    type = i.shape.type
    kind = c_type(type)
    image = _batch(t, t.at(regions, (index[0], Index())), x.shape.lens[0])
    best = w.variable(kind, lowest(type).text)
    found = w.variable("i32", "0")
    corners = [_whole_corner(t, i, index[0], k) for k in (1, 2, 3, 4)]
    rows = corners[1], corners[3], op.pooled_shape[0]
    columns = corners[0], corners[2], op.pooled_shape[1]
    with (
        _elements(t, rows, index[2], x.shape.lens[2]) as row,
        _elements(t, columns, index[3], x.shape.lens[3]) as column,
    ):
        value = t.at(x, (image, index[1], row, column)).text
        w.line(f"{best} = {larger(w, best, value, type)};")
        w.line(f"{found} = 1;")
    most = w.let(kind, f"{found} ? {best} : {number(0, type).text}")
    return finished(w, Scalar(most, type), type)


def _whole_corner(t: Tensors, i: Instruction, region: Index, number_: int) -> str:
    """A border, rounded to the nearest integer, halves away from zero."""
    value = cast(t.w, t.at(i.inputs[1], (region, Index((), number_))), DType.DOUBLE)
    scale = number(attributes(t, i).spatial_scale, DType.DOUBLE).text
    scaled = t.w.let("f64", f"{value.text} * {scale}")
    return t.w.let("f64", f"copysign(floor(fabs({scaled}) + 0.5), {scaled})")


@contextmanager
def _elements(t: Tensors, line: tuple[str, str, int], cell: Index, n: int) -> Generator[Index]:
    """A loop over the elements of a cell along one axis, which may be none."""
    w = t.w
    first, last, count = line
    kind, name = w.integer_type, w.name("s")
    span = w.let("f64", f"{last} - {first} + 1")
    size = w.let("f64", f"({span} > 1 ? {span} : 1.0) / {count}")
    start = w.let("f64", f"floor(({cell.text()}) * {size}) + {first}")
    end = w.let("f64", f"ceil(({cell.text()} + 1) * {size}) + {first}")
    low, high = (w.integer(f"({kind})({v} > 0 ? {v} < {n} ? {v} : {n} : 0)") for v in (start, end))
    with w.block(f"for ({kind} {name} = {low}; {name} < {high}; ++{name})"):
        yield Index.of(Variable(name, 0, n - 1))
