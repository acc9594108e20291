"""Values of look-ups in tables, lengths, random seeds, samples of classes, and Fourier transforms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.random import Multinomial, RandomSeed
from workbench.compiler.ops.spectral import Dft
from workbench.compiler.ops.tables import Lookup
from workbench.compiler.ops.view import DimensionsOf
from workbench.gpu.emit.choices import axis_of
from workbench.gpu.emit.functions import definition
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import Scalar, c_type, number, rounded
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes

_LONG = 1 << 12
"""Number of keys from which a linear search takes longer than the host does."""


@value_of(DimensionsOf)
def dimensions(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The length of one axis; the index of the axis may be known only at run time."""
    op = attributes(t, i)
    lens = i.inputs[0].shape.lens[op.start : op.end]
    low, high = index[0].range
    if low == high:
        return number(lens[low], DType.INT64)
    text = str(lens[-1])
    for k, n in reversed(list(enumerate(lens[:-1]))):
        text = f"{index[0].text()} == {k} ? {n} : {text}"
    return Scalar(t.w.let("i64", f"(i64)({text})"), DType.INT64)


@value_of(RandomSeed, when=lambda i: not (i.shape.type.is_integral and i.shape.type.size == 1))
def seed(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """A constant seed."""
    return number(float(i.op.compute()[0]), i.shape.type)


# Searches


def _is_searchable(i: Instruction) -> bool:
    """Whether there is a default, and the keys are sorted constants or few."""
    count = i.inputs[1].shape.elements
    return len(i.inputs) == 4 and (count <= _LONG or _is_sorted(i.inputs[1]))


def _is_sorted(keys: Instruction) -> bool:
    if keys.literal is None:
        return False
    values = keys.literal.numpy()
    return bool(np.all(values[:-1] < values[1:]))


@value_of(Lookup, when=_is_searchable)
def looked_up(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The value of the first equal key, or the default."""
    source, keys, values, default = i.inputs
    w, count = t.w, keys.shape.elements
    found = t.at(default, (Index(),))
    if not count:
        return found
    x = t.at(source, index)
    name = w.variable(c_type(found.type), found.text)
    if _is_sorted(keys):
        at = _bisected(t, keys, x, count)
        with w.block(f"if ({_same(t.at(keys, (at,)), x)})"):
            w.line(f"{name} = {t.at(values, (at,)).text};")
    else:
        with w.loop(count) as at, w.block(f"if ({_same(t.at(keys, (at,)), x)})"):
            w.line(f"{name} = {t.at(values, (at,)).text};")
            w.line("break;")
    return Scalar(name, found.type)


def _same(a: Scalar, b: Scalar) -> str:
    equal = f"{a.text} == {b.text}"
    nan = f"({a.text} != {a.text} && {b.text} != {b.text})"
    return f"{equal} || {nan}" if a.type.is_float else equal


def _bisected(t: Tensors, keys: Instruction, x: Scalar, count: int) -> Index:
    """The index of the last key that is at most x, or 0."""
    w = t.w
    low, high = w.variable(w.integer_type, "0"), w.variable(w.integer_type, str(count))
    with w.block(f"while ({high} - {low} > 1)"):
        middle = w.define(w.integer_type, f"({low} + {high}) / 2", "i")
        key = t.at(keys, (Index.of(Variable(middle, 0, count - 1)),))
        w.line(f"if ({key.text} <= {x.text}) {low} = {middle}; else {high} = {middle};")
    return Index.of(Variable(w.define(w.integer_type, low, "i"), 0, count - 1))


@value_of(Multinomial)
def drawn(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The first entry of the cumulative sums that is greater than the sample."""
    sums, samples = i.inputs
    w, classes = t.w, sums.shape.lens[1]
    row = Index() if sums.shape.lens[0] == 1 else index[0]
    sample = converted(w, t.at(samples, index[-samples.shape.ndim :]), DType.DOUBLE)
    total = converted(w, t.at(sums, (row, Index((), classes - 1))), DType.DOUBLE)
    key = w.let("f64", f"{sample.text} * {total.text}")
    low, high = w.variable(w.integer_type, "0"), w.variable(w.integer_type, str(classes))
    with w.block(f"while ({low} < {high})"):
        middle = w.define(w.integer_type, f"({low} + {high}) / 2", "i")
        at = Index.of(Variable(middle, 0, classes - 1))
        entry = converted(w, t.at(sums, (row, at)), DType.DOUBLE).text
        # NaN counts as the greatest number, as NumPy sorts it
        greater = f"{key} < {entry} || ({entry} != {entry} && {key} == {key})"
        w.line(f"if ({greater}) {high} = {middle}; else {low} = {middle} + 1;")
    found = w.define("i64", low)
    return converted(w, Scalar(found, DType.INT64), i.shape.type)


# Frequencies


@value_of(Dft)
def frequency(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """A sum over the signal, with each element rotated by its angle."""
    op, x, axis, w = attributes(t, i), i.inputs[0], axis_of(i), t.w
    work = DType.DOUBLE if i.shape.type is DType.DOUBLE else DType.FLOAT
    length: int = op._length(x.shape.lens[axis])
    halves = op.inverse and op.onesided
    taps = min(length // 2 + 1 if halves else length, x.shape.lens[axis])
    total = w.variable(c_type(work), number(0, work).text)
    angle = w.variable(w.integer_type, "0", "n")
    with w.loop(taps) as tap:
        at = (*index[:axis], tap, *index[axis + 1 : -1])
        term = _turned(t, x, at, _Turn(angle, length, op.inverse, index[-1], work))
        weight = f"({tap.text()} == 0 || {tap.text()} * 2 == {length} ? 1 : 2) * " * halves
        w.line(f"{total} += {weight}({term});")
        w.line(f"{angle} += {index[axis].text()};")
        w.line(f"if ({angle} >= {length}) {angle} -= {length};")
    scale = number(1 / length, work).text
    sum = w.define(c_type(work), f"{total} * {scale}" if op.inverse else total)
    return rounded(w, converted(w, Scalar(sum, work), i.shape.type))


@dataclass(frozen=True)
class _Turn:
    angle: str
    """The angle in units of a full turn / ``length``: a variable that counts from 0 to ``length``."""
    length: int
    inverse: bool
    part: Index
    """The part of the rotated number to compute: 0 is the real one, 1 the imaginary one."""
    work: DType


def _turned(t: Tensors, x: Instruction, at: Indices, turn: _Turn) -> str:
    """One part of a rotated complex number, or of a rotated real number."""
    w, kind = t.w, c_type(turn.work)
    parts = f"({turn.angle} * 2 > {turn.length} ? {turn.angle} - {turn.length} : {turn.angle})"
    angle = f"{'' if turn.inverse else '-'}{parts}, {turn.length}"
    for name in ("cos_turn", "sin_turn"):
        w.need(definition(name, kind))
    cosine = w.define(kind, f"cos_turn_{kind}({angle})")
    sine = w.define(kind, f"sin_turn_{kind}({angle})")
    real = converted(w, t.at(x, (*at, Index())), turn.work).text
    is_real = _either(turn.part, f"{real} * {cosine}", f"{real} * {sine}")
    if x.shape.lens[-1] == 1:
        return is_real
    other = converted(w, t.at(x, (*at, Index((), 1))), turn.work).text
    return f"{is_real} + {_either(turn.part, f'-{other} * {sine}', f'{other} * {cosine}')}"


def _either(part: Index, real: str, imaginary: str) -> str:
    if part.is_constant:
        return (real, imaginary)[part.constant]
    return f"({part.text()} == 0 ? {real} : {imaginary})"
