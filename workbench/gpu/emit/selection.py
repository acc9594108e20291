"""Values of operations that select elements by indices from data.

An index that is out of range is clamped; the reference refuses it.
"""

from __future__ import annotations

from typing import Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.attention import ConcatPastPresent, GqaRotaryEmbedding
from workbench.compiler.ops.control import ScanSlice
from workbench.compiler.ops.index import Gather, GatherElements, GatherNd
from workbench.compiler.ops.select import OneHot
from workbench.compiler.ops.sequences import (
    RnnVarSlLastOutput,
    RnnVarSlShiftOutput,
    RnnVarSlShiftSequence,
)
from workbench.gpu.emit.choices import Arm, Arms, axis_of, below, chosen, kept, wrapped
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.emit.scalar import Scalar, c_type, number, rounded
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes

# Gathers


def _has_elements(i: Instruction) -> bool:
    return 0 not in i.inputs[0].shape.lens


@value_of(Gather, when=_has_elements)
def gathered(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element of the slice that the index selects along the axis."""
    data, places = i.inputs
    axis, lens = axis_of(i), data.shape.lens
    count = i.shape.ndim - data.shape.ndim + 1  # none of MIGraphX's scalar
    named = t.at(places, index[axis : axis + count])
    rest = index[axis + count :] if len(lens) > 1 else ()
    return t.at(data, (*index[:axis], wrapped(t, named, lens[axis]), *rest))


@value_of(GatherElements, when=_has_elements)
def gathered_elements(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The data's element at the same position, but at the given index along the axis."""
    data, places = i.inputs
    axis = axis_of(i)
    at = wrapped(t, t.at(places, index), data.shape.lens[axis])
    return t.at(data, (*index[:axis], at, *index[axis + 1 :]))


@value_of(GatherNd, when=_has_elements)
def gathered_nd(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The data's element at an index tuple, which is read along the last axis of the indices."""
    data, places = (x.shape.lens for x in i.inputs)
    batch, lead = attributes(t, i).batch_dims, index[: len(places) - 1]
    found = [
        wrapped(t, t.at(i.inputs[1], (*lead, Index((), k))), n)
        for k, n in enumerate(data[batch : batch + places[-1]])
    ]
    rest = index[len(lead) :] if len(data) > batch + places[-1] else ()
    return t.at(i.inputs[0], (*lead[:batch], *found, *rest))


@value_of(ScanSlice, when=_has_elements)
def scanned(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The data's element at a position along the axis, counted from the end if ``direction`` is 1."""
    data, position = i.inputs
    axis, length = axis_of(i), data.shape.lens[axis_of(i)]
    at = kept(t, t.at(position, [Index()] * position.shape.ndim), length)
    at = Index((), length - 1) - at if attributes(t, i).direction else at
    return t.at(data, (*index[:axis], at, *index[axis + 1 :]))


@value_of(OneHot, when=lambda i: cast("Any", i.op).depth is not None)
def one_hot(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The second value if the index equals the position along the new axis, else the first."""
    op, w, type = attributes(t, i), t.w, i.shape.type
    axis = op.axis % i.shape.ndim
    at = converted(w, t.at(i.inputs[0], (*index[:axis], *index[axis + 1 :])), DType.INT64)
    from_front = w.let("i64", f"{at.text} < 0 ? {at.text} + {op.depth} : {at.text}")
    off, on = (t.at(i.inputs[-1], (Index((), k),)).text for k in (0, 1))
    return Scalar(w.let(c_type(type), f"{from_front} == {index[axis].text()} ? {on} : {off}"), type)


# Sequences of different lengths


def _steps(t: Tensors, i: Instruction, sequence: Index) -> Index:
    """The length of a batch's sequence."""
    steps = i.inputs[0].shape.lens[0]
    return kept(t, t.at(i.inputs[1], (sequence,)), steps + 1)


def _or_zero(t: Tensors, i: Instruction, condition: str, at: Index, index: Indices) -> Scalar:
    """The input's element at a step if a condition holds, else 0."""
    x, type = i.inputs[0], i.shape.type
    last = max(x.shape.lens[0] - 1, 0)

    def element() -> Scalar:
        step = Index.of(Variable(t.w.integer(at.text()), 0, last)) if last else Index()
        return t.at(x, (step, *index))

    return t.choose(condition, type, element, lambda: number(0, type))


@value_of(RnnVarSlShiftSequence)
def shifted_sequence(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """Each sequence shifted to the end by the steps that it lacks."""
    at = index[0] + _steps(t, i, index[1]) - i.shape.lens[0]
    return _or_zero(t, i, f"{at.text()} >= 0", at, index[1:])


@value_of(RnnVarSlShiftOutput)
def shifted_output(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """States within the sequence; those of the reverse direction are at the end of the input."""
    steps = _steps(t, i, index[2])
    direction, moved = attributes(t, i).direction, index[0] - steps + i.shape.lens[0]
    inside = f"{index[0].text()} < {steps.text()}"
    if i.shape.lens[1] == 1:
        at = moved if direction.reverses(0) else index[0]
    else:
        reverse = f"{index[1].text()} == 1 ? {moved.text()} : {index[0].text()}"
        at = Index.of(Variable(t.w.integer(reverse), *moved.range))
    return _or_zero(t, i, inside, at, index[1:])


@value_of(RnnVarSlLastOutput)
def last_output(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The state after the last step; for the reverse direction that is the first state."""
    steps = _steps(t, i, index[1])
    last, direction = steps - 1, attributes(t, i).direction
    if i.shape.lens[0] == 1:
        at = Index() if direction.reverses(0) else last
    else:
        text = f"{index[0].text()} == 1 ? 0 : {last.text()}"
        at = Index.of(Variable(t.w.integer(text), *last.range))
    return _or_zero(t, i, f"{steps.text()} > 0", at, index)


# Caches of keys and values


@value_of(ConcatPastPresent)
def appended(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The new rows at their positions, elsewhere the cache."""
    present, places, past = i.inputs
    length, room = present.shape.lens[2], past.shape.lens[2]
    old = Arm(lambda _: "1", lambda index: t.at(past, index))
    if length != 1:
        new = Arm(lambda index: below(index[2], length), lambda index: t.at(present, index))
        return chosen(t, i, index, Arms(i.shape.type, [new, old], {2: (length,)}))
    named = t.at(places, split(index[0], places.shape.lens, t.w))
    row = kept(t, named, room)
    same = "1" if room == 1 else f"{index[2].text()} == {row.text()}"
    one = Arm(lambda _: same, lambda index: t.at(present, (index[0], index[1], Index(), index[3])))
    bounds = {2: range(room)}
    return chosen(t, i, index, Arms(i.shape.type, [one, old], bounds))


@value_of(GqaRotaryEmbedding)
def turned(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """Queries and keys, rotated with their partners; all other elements unchanged."""
    op, x = attributes(t, i), i.inputs[0]
    half, heads = i.inputs[2].shape.lens[1], op.num_heads + op.kv_num_heads

    def copied(index: Indices) -> str:
        parts = [_not(below(index[1], heads)), _not(below(index[3], 2 * half))]
        return "1" if "1" in parts else " || ".join(p for p in parts if p != "0") or "0"

    arms = [Arm(copied, lambda index: t.at(x, index))]
    if op.interleaved:
        arms.append(Arm(lambda _: "1", lambda index: _turned_pair(t, i, index)))
        return chosen(t, i, index, Arms(i.shape.type, arms, {1: (heads,), 3: (2 * half,)}))
    arms.append(
        Arm(lambda index: below(index[3], half), lambda at: _turned(t, i, at, at[3], half, -1))
    )
    arms.append(Arm(lambda _: "1", lambda at: _turned(t, i, at, at[3] - half, -half, 1)))
    return chosen(t, i, index, Arms(i.shape.type, arms, {1: (heads,), 3: (half, 2 * half)}))


def _not(condition: str) -> str:
    return {"0": "1", "1": "0"}.get(condition, f"!({condition})")


def _turned_pair(t: Tensors, i: Instruction, index: Indices) -> Scalar:
    pair, second = index[3].divmod(2, t.w)
    return _turned(t, i, index, pair, second * -2 + 1, second * 2 - 1)


def _turned(
    t: Tensors,
    i: Instruction,
    index: Indices,
    angle: Index,
    partner: Index | int,
    sign: Index | int,
) -> Scalar:
    """The element times the cosine, plus the signed partner, at the given distance, times the sine."""
    x, lens, cosines, sines = i.inputs
    w, kind = t.w, c_type(i.shape.type)
    position = index[2]
    if x.shape.lens[2] == 1:
        named = t.at(lens, split(index[0], lens.shape.lens, w))
        position = kept(t, named, cosines.shape.lens[0])
    cosine, sine = (t.at(table, (position, angle)).text for table in (cosines, sines))
    own, other = t.at(x, index).text, t.at(x, (*index[:3], index[3] + partner)).text
    signed = w.let(kind, f"({kind})({Index.of(sign).text()}) * {other}")
    return rounded(w, Scalar(w.let(kind, f"{own} * {cosine} + {signed} * {sine}"), i.shape.type))
