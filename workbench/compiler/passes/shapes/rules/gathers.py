"""Rules about gathers: scalar indices, and constant indices that are a strided view of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape, row_major
from workbench.compiler.passes.shapes.transform.chains import build
from workbench.compiler.passes.shapes.transform.descriptor import Transform, canonical
from workbench.compiler.passes.tidy.propagate_constant import value_of
from workbench.compiler.rewrite import Decline, Rewriter, constant, op, rule, var

Ints = tuple[int, ...]


def auto_reshape(b: Rewriter, x: Instruction, lens: Sequence[int]) -> Instruction:
    """A value reshaped to other lens, by a squeeze or unsqueeze if only axes of length 1 change."""
    old, new = x.shape.lens, tuple(lens)
    if old == new:
        return x
    ones, fresh = (tuple(i for i, n in enumerate(v) if n == 1) for v in (old, new))
    long_old, long_new = (tuple(n for n in v if n != 1) for v in (old, new))
    if len(old) > len(new) and long_old == new:
        return b("squeeze", x, axes=ones)
    if len(old) < len(new) and long_new == old:
        return b("unsqueeze", x, axes=fresh)
    return b.reshape(x, new)


def _moving(instruction: Instruction) -> bool:
    return not instruction.constant


def _is_scalar(instruction: Instruction) -> bool:
    return instruction.module.program.shape_rules.plain(instruction.shape).has_rank_0


@rule(op("gather", var("x"), var("indices").when(_is_scalar), name="root").when(_moving))
def find_gather_scalar(
    b: Rewriter, root: Instruction, x: Instruction, indices: Instruction
) -> Instruction:
    """gather(x, i) → squeeze(gather(x, unsqueeze(i))), for a scalar index i"""
    found = b(root.op, x, b("unsqueeze", indices, axes=(0,)))
    if root.shape.ndim and _is_scalar(root):
        found = auto_reshape(b, found, root.shape.lens)
        return b("squeeze", found, axes=(0,))
    return auto_reshape(b, found, root.shape.lens)


@rule(op("gather", var("x"), constant("indices"), name="root").when(_moving))
def find_gather(
    b: Rewriter, root: Instruction, x: Instruction, indices: Instruction
) -> Instruction | Decline:
    """gather(x, c) → slices, transposes and broadcasts of x, where the indices c are a strided view"""
    if indices.shape.broadcasted:
        return Decline(f"the indices #{indices.id} are broadcast")
    if not root.shape.elements:
        return Decline("it has no elements")
    axis: int = root.op.normalized([x.shape, indices.shape]).attributes()["axis"]
    length = x.shape.lens[axis]
    literal = value_of(indices)
    if literal is None:
        return Decline(f"the indices #{indices.id} are too large to be evaluated")
    values = literal.numpy().astype(np.int64)
    values = np.where(values < 0, values + length, values)
    if values.min() < 0 or values.max() >= length:
        return Decline(f"an index is out of the range of axis {axis}, {length}")
    rows, inner = np.arange(prod(x.shape.lens[:axis])), np.arange(prod(x.shape.lens[axis + 1 :]))
    places = rows[:, None, None] * length + values.reshape(1, -1, 1)
    offsets = (places * inner.size + inner).reshape(-1)
    view = view_of(offsets)
    if view is None:
        return Decline("the indices are not a strided view of the data")
    steps = steps_of(view, x.shape.elements)
    if isinstance(steps, str):
        return Decline(steps)
    flat = auto_reshape(b, x, (x.shape.elements,))
    b.before = flat.following if flat.module is root.module else root
    value = steps.build(b, flat)
    b.before = root
    value = auto_reshape(b, value, root.shape.lens)
    # Otherwise a slice of it could have the shape of MIGraphX's scalar, which stands for rank 0.
    return b("contiguous", value) if value.shape.ndim and value.shape.is_scalar else value


@dataclass(frozen=True)
class View:
    """A strided view of a flat array: an offset, lens and strides."""

    lens: Ints
    strides: Ints
    offset: int


def view_of(offsets: Array) -> View | None:
    """The view whose elements lie at these offsets, in order; None if there is none."""
    offset = int(offsets[0])
    bases = offsets - offset
    lens: list[int] = []
    strides: list[int] = []
    while not lens or bases.size > 1:
        count, step = _first_run(bases)
        if step < 0 or bases.size % count or bases.min() < 0:
            return None
        runs = bases.reshape(-1, count)
        if (np.diff(runs, axis=1) != step).any():
            return None
        lens.append(count)
        strides.append(step)
        bases = runs[:, 0]
    if 1 not in strides:
        lens.insert(0, 1)
        strides.insert(0, 1)
    return View(tuple(lens[::-1]), tuple(strides[::-1]), offset)


def _first_run(bases: Array) -> tuple[int, int]:
    """The number of leading values at equal distances, and the distance."""
    if bases.size < 2:
        return 1, 1
    steps = np.diff(bases)
    other = np.flatnonzero(steps != steps[0])
    return int(other[0]) + 1 if other.size else bases.size, int(steps[0])


@dataclass(frozen=True)
class Steps:
    """The steps to build a view of a flat array: slice a part, apply transforms, slice the result."""

    repeated: bool
    """Whether to repeat the array first, because the part reaches beyond its end."""
    part: tuple[int, int] | None
    chain: tuple[Transform, ...]
    cut: tuple[tuple[int, int, int], ...]
    """Axis, start and end of the final slice."""

    def build(self, b: Rewriter, flat: Instruction) -> Instruction:
        """The instructions that make the view."""
        value, n = flat, flat.shape.elements
        if self.repeated:
            value = b("broadcast", value, axis=1, out_lens=(2, n))
            value = b.reshape(value, (2 * n,))
        if self.part:
            value = b("slice", value, axes=(0,), starts=self.part[:1], ends=self.part[1:])
        for transform in self.chain:
            value = build(b, value, transform)
        if self.cut:
            axes, starts, ends = zip(*self.cut, strict=True)
            value = b("slice", value, axes=axes, starts=starts, ends=ends)
        return value


def steps_of(view: View, elements: int) -> Steps | str:
    """The transforms and slices that build a view of ``elements`` elements; or the reason why none do."""
    lens, strides, repeats = _laid_out(view, elements)
    order = Shape(lens=lens, strides=strides).permutation
    whole = _whole(lens, strides, order, elements)
    if whole is None:
        return f"the strides {list(view.strides)} are not multiples of one another"
    count, back = prod(whole), tuple(order.index(i) for i in range(len(order)))
    laid = [whole[i] for i in back]
    if any(n < m or (r != 1 and n != 1) for n, m, r in zip(laid, lens, repeats, strict=True)):
        return f"a view with strides {list(view.strides)} overlaps itself"
    found, part = _starts(view.offset, [lens[i] for i in order], whole), None
    if found is None:
        part = (view.offset, view.offset + count)
    elif count != elements:
        part = (0, count)
    if part and part[1] > 2 * elements:
        return f"the view spans {part[1]} elements, but the data has {elements}"
    starts = [(found or [0] * len(whole))[i] for i in back]
    out = tuple(r if n == 1 else n for n, r in zip(laid, repeats, strict=True))
    chain = canonical(
        (count,),
        (
            Transform("reshape", tuple(whole)),
            Transform("transpose", back),
            Transform("multibroadcast", out),
        ),
    )
    cut = [
        (i, at, at + m)
        for i, (n, m, at) in enumerate(zip(laid, lens, starts, strict=True))
        if n != m
    ]
    if chain is None:
        return "its transforms cannot be described"
    return Steps(part is not None and part[1] > elements, part, chain, tuple(cut))


def _laid_out(view: View, elements: int) -> tuple[list[int], list[int], list[int]]:
    """Lens and strides of the view without broadcasts, with a leading axis for the rest; and the repeats."""
    lens, strides = list(view.lens), list(view.strides)
    slowest = max(range(len(lens)), key=lambda i: strides[i])
    span = strides[slowest] * lens[slowest]
    if elements // span > 1:
        lens.insert(0, 1)
        strides.insert(0, span)
    repeats = [1 if s else n for n, s in zip(lens, strides, strict=True)]
    for i, stride in enumerate(strides):
        if not stride:
            lens[i], strides[i] = 1, strides[i - 1] if i else span
    return lens, strides, repeats


def _whole(
    lens: Sequence[int], strides: Sequence[int], order: Ints, elements: int
) -> list[int] | None:
    """The lens, slowest axis first, of the array that contains the view."""
    slowest = order[0]
    rest = elements // strides[slowest] if lens[slowest] == 1 else 0
    found = [rest if rest > 1 else lens[slowest]]
    for slow, fast in pairwise(order):
        if strides[slow] % strides[fast]:
            return None
        found.append(strides[slow] // strides[fast])
    return found


def _starts(offset: int, lens: Sequence[int], whole: Sequence[int]) -> list[int] | None:
    """The offset of a part with these lens along each axis; None if it would reach beyond an axis."""
    found = [offset // s % n for s, n in zip(row_major(whole), whole, strict=True)]
    fits = all(at <= n - m for at, n, m in zip(found, whole, lens, strict=True))
    return found if fits and offset < prod(whole) else None
