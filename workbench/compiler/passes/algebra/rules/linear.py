"""Rules about factors and terms of dots and convolutions: they go into weights, or come out as constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.movement import Concat
from workbench.compiler.ops.packing import UnpackInt4
from workbench.compiler.ops.quant import Dequantizelinear
from workbench.compiler.passes.broadcasting import (
    is_factor,
    laid,
    moving,
    spread,
    used_once,
    varying_axes,
)
from workbench.compiler.passes.shapes.rules.slices import slice_of
from workbench.compiler.rewrite import (
    Decline,
    Rewriter,
    behind_broadcasts,
    constant,
    op,
    rule,
    var,
)
from workbench.compiler.run.constants import evaluate_constant

_LARGE = 1 << 20
_WHOLE = (Rearrangement.RELAID, Rearrangement.REPEATED)
FEW = 1024
"""Constants of more elements are not looked at."""


def _too_large(weights: Instruction) -> str:
    """The reason to leave a dot's weights alone: computing new ones costs more than a run saves."""
    count = weights.shape.elements
    return (
        "" if count <= _LARGE else f"input #{weights.id} has {count} elements, more than {_LARGE}"
    )


def from_int4(value: Instruction) -> bool:
    """Whether weights are stored in 4 bits; folding them would unpack them."""
    stack, seen = [value], {value}
    while stack:
        found = stack.pop()
        if isinstance(found.op, UnpackInt4):
            return True
        if found.op.rearranges in _WHOLE or isinstance(found.op, Concat | Dequantizelinear):
            stack += [i for i in found.inputs if i not in seen]
            seen.update(found.inputs)
    return False


def _unfit(weights: Instruction) -> str:
    """The reason why constant weights take no factor; empty if they do."""
    if from_int4(weights):
        return f"input #{weights.id} is unpacked from 4 bits"
    return _too_large(weights)


def rounded_again(weights: Instruction, factor: Instruction) -> str:
    """The reason why weights take no factor: their products would be rounded to half or bfloat16.

    What scales the result instead rounds nothing where sums are in float.
    """
    type = weights.shape.type
    if type not in (DType.HALF, DType.BF16) or _is_exact(factor):
        return ""
    return (
        f"the products of weights #{weights.id} and the factor would be rounded to {type.type_name}"
    )


def _is_exact(factor: Instruction) -> bool:
    """Whether a constant only holds powers of two."""
    found = behind_broadcasts(factor).literal
    if found is None or found.shape.elements > FEW:
        return False
    mantissas, _ = np.frexp(np.abs(found.numpy().astype(np.float64)))
    return bool(np.all(mantissas == 0.5))


@rule(
    op("mul", op("dot", var("x"), var("y"), name="dot").once, var("a").when(is_factor)),
    except_at={Edge.INFINITE},  # a factor that a run makes infinite meets terms of both signs
)
def find_mul_dot(
    b: Rewriter, x: Instruction, y: Instruction, a: Instruction
) -> Instruction | Decline:
    """mul(dot(x, y), a) → dot(mul(x, a), y) or dot(x, mul(y, a)), on the constant side"""
    if not b.root.shape.elements:
        return Decline("its result is empty")
    if not (x.constant or y.constant):
        return Decline("neither input of the dot is constant: one would take the factor")
    rank, axes = b.root.shape.ndim, varying_axes(a)
    if axes not in ([], [rank - 1], [rank - 2]):
        return Decline("the factor varies along an axis other than the rows or the columns")
    left = axes == [rank - 2] or (not axes and x.constant)
    side = x if left else y
    if not side.constant:
        return Decline(
            f"input {0 if left else 1} of the dot, which would take the factor, is not constant"
        )
    if reason := _unfit(side) or rounded_again(side, a):
        return Decline(reason)
    scaled = b("mul", side, laid(b, a, side.shape.lens))
    return b("dot", scaled, y) if left else b("dot", x, scaled)


def _sides(dot: Instruction, name: str) -> tuple[Instruction, Instruction] | None:
    """The input of a dot that is a ``name``, and the other input if that is constant."""
    x, y = dot.inputs
    if x.name == name and y.constant and not x.constant:
        return x, y
    return (y, x) if y.name == name and x.constant and not y.constant else None


def _in_order(b: Rewriter, part: Instruction, side: Instruction, other: Instruction) -> Instruction:
    """A dot like the root, with ``part`` in place of ``side``."""
    return b("dot", part, other) if b.root.inputs[0] is side else b("dot", other, part)


@rule(
    op("dot", var("x"), var("y"))
    .reading(frozenset({"mul"}))
    .when(lambda i: _sides(i, "mul") is not None)
)
def find_dot_mul(b: Rewriter) -> Instruction | Decline:
    """dot(mul(x, a), c) → dot(x, mul(c, a)), for a constant c and a factor a along the summed axis"""
    side, c = _sides(b.root, "mul") or b.root.inputs
    x, a = side.inputs if side.inputs[1].constant else side.inputs[::-1]
    rank, left = c.shape.ndim, side is b.root.inputs[0]
    if reason := _not_a_factor(side, x, a, rank - 1 if left else rank - 2) or _unfit(c):
        return Decline(reason)
    if _is_computed(x) and (reason := rounded_again(c, a)):
        return Decline(reason)
    turned = (*range(rank - 2), rank - 1, rank - 2)
    factor = laid(b, a, tuple(c.shape.lens[i] for i in turned))
    return _in_order(b, x, side, b("mul", c, b("transpose", factor, permutation=turned)))


def _is_computed(x: Instruction) -> bool:
    """Whether a value is computed elementwise or reduced, so that its factor is no kernel of its own."""
    while x.op.rearranges is not None and x.inputs:
        x = x.inputs[0]
    return x.op.pointwise or x.op.monoid is not None


def _not_a_factor(mul: Instruction, x: Instruction, a: Instruction, summed: int) -> str:
    """The reason why ``a`` in ``mul(x, a)`` cannot move across a dot that sums over axis ``summed``."""
    if x.constant or not a.constant or not is_factor(a):
        return f"mul #{mul.id}: neither operand is a constant repeated along some axis"
    if mul.only_user is None:
        return f"mul #{mul.id}: its value has other users"
    if set(varying_axes(a)) - {summed}:
        return f"the factor varies along an axis other than {summed}, the one summed over"
    return ""


@rule(
    op("dot", var("x"), var("y"))
    .reading(frozenset({"add"}))
    .when(lambda i: _sides(i, "add") is not None)
)
def find_dot_add(b: Rewriter) -> Instruction | Decline:
    """dot(add(x, a), c) → add(dot(x, c), dot(a, c)), for constants a and c"""
    side, c = _sides(b.root, "add") or b.root.inputs
    x, a = side.inputs if side.inputs[1].constant else side.inputs[::-1]
    if x.constant or not a.constant:
        return Decline(f"add #{side.id}: neither operand is constant")
    if side.only_user is None:
        return Decline(f"add #{side.id}: its value has other users")
    if reason := _too_large(c):
        return Decline(reason)
    moved = _in_order(b, x, side, c)
    free = c.shape.ndim - (2 if side is b.root.inputs[0] else 1)
    batch = [i for i in range(c.shape.ndim - 2) if not {i} & {*varying_axes(a), *varying_axes(c)}]
    rows = [] if free in varying_axes(a) else [free]
    part = _in_order(b, _first(b, a, [*batch, *rows]), side, _first(b, c, batch))
    return b("add", moved, spread(b, part, b.root.shape.lens))


def _first(b: Rewriter, value: Instruction, axes: Sequence[int]) -> Instruction:
    """A value that does not vary along ``axes``, sliced to length 1 there."""
    axes = tuple(a for a in axes if value.shape.lens[a] > 1)
    if not axes:
        return value
    return b("slice", value, axes=axes, starts=(0,) * len(axes), ends=(1,) * len(axes))


def finite(constant: Instruction) -> bool:
    """Whether a constant is finite everywhere; one of many elements is assumed to be."""
    value = behind_broadcasts(constant)
    if not value.shape.type.is_float or value.shape.elements > FEW:
        return True
    try:
        array = evaluate_constant(value)
    except EvaluationError:
        return False
    return bool(np.isfinite(np.asarray(array).astype(np.float64)).all())


@rule(
    op("convolution", op("add", moving("x"), constant("a")).once, constant("w")).where(
        used_once, "its value has other users"
    )
)
def find_conv_add(
    b: Rewriter, x: Instruction, a: Instruction, w: Instruction
) -> Instruction | Decline:
    """convolution(add(x, a), w) → add(convolution(a, w), convolution(x, w)), for constants a and w"""
    for one in (a, w):
        if not finite(one):
            return Decline(
                f"{one.name} #{one.id} has infinite elements, or NaN: two parts may be NaN"
            )
    return b("add", b(b.root.op, a, w), b(b.root.op, x, w))


@rule(op("slice", op("dot|quant_dot", var("x"), var("y"), name="dot").once, name="root"))
def find_dot_slice(
    b: Rewriter, root: Instruction, dot: Instruction, x: Instruction, y: Instruction
) -> Instruction | Decline:
    """slice(dot(x, y)) → dot(slice(x), slice(y))"""
    cut = slice_of(root)
    if cut is None:
        return Decline("a bound is computed while the program runs")
    ranges = list(zip(cut.axes, cut.starts, cut.ends, strict=True))
    rank = dot.shape.ndim
    left = _cut(b, x, [r for r in ranges if r[0] != rank - 1])
    return b(dot.op, left, _cut(b, y, [r for r in ranges if r[0] != rank - 2]))


def _cut(b: Rewriter, value: Instruction, ranges: Sequence[tuple[int, int, int]]) -> Instruction:
    """A slice of a value; the value itself where nothing is cut."""
    if not ranges:
        return value
    axes, starts, ends = zip(*ranges, strict=True)
    return b("slice", value, axes=axes, starts=starts, ends=ends)
