"""Softmax and means rewritten as sums, maxima and elementwise work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.convert import BitCast, Convert
from workbench.compiler.ops.elementary import Exp
from workbench.compiler.ops.movement import Concat, Pad
from workbench.compiler.ops.pointwise import Sub
from workbench.compiler.ops.quant import Dequantizelinear, Quantizelinear
from workbench.compiler.ops.reduce import ReduceMax, ReduceSum
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import common, spread
from workbench.compiler.rewrite import (
    Decline,
    Rewriter,
    behind_broadcasts,
    drive,
    op,
    rule,
    var,
)


def _is_float(instruction: Instruction) -> bool:
    return instruction.shape.type.is_float


@rule(op("logsoftmax", var("x")).when(_is_float))
def find_logsoftmax(b: Rewriter, x: Instruction) -> Instruction:
    """logsoftmax(x) → sub(d, log(sum(exp(d)))) with d = x - max(x), in float for a narrower type"""
    axes, lens, kind = (b.root.op.attributes()["axis"],), x.shape.lens, x.shape.type
    wide = b("convert", x, target_type=DType.FLOAT) if _is_narrow(kind) else x
    below = b("sub", wide, spread(b, b("reduce_max", wide, axes=axes), lens))
    total = b("log", b("reduce_sum", b("exp", below), axes=axes))
    result = b("sub", below, spread(b, total, lens))
    return result if wide is x else b("convert", result, target_type=kind)


@rule(op("softmax", var("x")).when(_is_float))
def find_softmax(b: Rewriter, x: Instruction) -> Instruction:
    """softmax(x) → div(exp(x - max(x)), sum(exp(x - max(x))))"""
    axes, lens = (b.root.op.attributes()["axis"],), x.shape.lens
    powers = b("exp", b("sub", x, spread(b, b("reduce_max", x, axes=axes), lens)))
    return b("div", powers, spread(b, b("reduce_sum", powers, axes=axes), lens))


# Narrow types


def _softmax_operand(division: Instruction) -> Instruction | None:
    """The x of exp(x - max(x)) / sum(exp(x - max(x)))."""
    powers, total = division.inputs[0], behind_broadcasts(division.inputs[1])
    if (
        not isinstance(powers.op, Exp)
        or not isinstance(total.op, ReduceSum)
        or total.inputs != (powers,)
    ):
        return None
    difference = powers.inputs[0]
    if not isinstance(difference.op, Sub):
        return None
    x, largest = difference.inputs[0], behind_broadcasts(difference.inputs[1])
    return x if isinstance(largest.op, ReduceMax) and largest.inputs == (x,) else None


def _is_narrow(type: DType) -> bool:
    return type.is_float and type.size < DType.FLOAT.size


def _is_narrow_softmax(division: Instruction) -> bool:
    return _is_narrow(division.shape.type) and _softmax_operand(division) is not None


def _can_widen(instruction: Instruction) -> bool:
    """Whether an operation on floats computes the same on wider floats, without rounding of its own."""
    op, kinds = instruction.op, [i.shape.type for i in instruction.inputs]
    moves = op.rearranges is not None or isinstance(op, Concat | Pad)
    known = moves or op.monoid is not None or op.pointwise
    rounds = isinstance(op, BitCast | Convert | Quantizelinear | Dequantizelinear)
    floats = {k for k in (*kinds, instruction.shape.type) if k.is_float}
    return known and not rounds and not instruction.modules and floats == {instruction.shape.type}


def _dot_behind(x: Instruction) -> Instruction | None:
    """The matrix product that a value is computed from, through operations that only scale or mask it."""
    current: Instruction | None = x
    while current is not None and not isinstance(current.op, Dot):
        if not _can_widen(current) or current.module is not x.module:
            return None
        computed = current.inputs
        if len(computed) > 1:
            computed = [i for i in computed if not i.constant and i.shape.type is not DType.BOOL]
        current = computed[0] if computed else None
    return current


def _between(start: Instruction, end: Instruction) -> list[Instruction]:
    """The instructions on paths from ``start`` to ``end``, with ``end`` but not ``start``, in order."""
    reaches = {start: True}
    stack = [end]
    while stack:
        current = stack[-1]
        inner = [i for i in current.inputs if i.module is start.module and i.order >= start.order]
        waiting = [i for i in inner if i not in reaches]
        if waiting:
            stack += waiting
        else:
            reaches[stack.pop()] = any(reaches[i] for i in inner)
    found = [i for i, reached in reaches.items() if reached and i is not start]
    return sorted(found, key=lambda i: i.order)


@rule(op("div", var("powers"), var("total")).when(_is_narrow_softmax))
def find_narrow_softmax(b: Rewriter) -> Instruction | Decline:
    """softmax(f(dot(a, b))) → convert(softmax(f(convert(dot(a, b))))), in float for a narrower type"""
    x = _softmax_operand(b.root)
    assert x is not None
    dot = _dot_behind(x)
    region = _between(x if dot is None else dot, b.root)
    if rigid := [i for i in region if not _can_widen(i)]:
        dot, region = None, _between(x, b.root)
        if rigid := [i for i in region if not _can_widen(i)]:
            return Decline(
                f"{rigid[0].name} #{rigid[0].id} in the softmax cannot be computed in float"
            )
    return _widened(b, region)


def _widened(b: Rewriter, region: Sequence[Instruction]) -> Instruction:
    """Compute a region in float; convert its values with users outside back right after them."""
    wide: dict[Instruction, Instruction] = {}
    narrow: dict[Instruction, Instruction] = {}
    inside = set(region)
    for one in region:
        b.before = one
        inputs = [_in_float(b, i, wide) for i in one.inputs]
        wide[one] = b(one.op, *inputs)
        if one is b.root or not inside.issuperset(one.users):
            narrow[one] = b("convert", wide[one], target_type=one.shape.type)
    for one, value in narrow.items():
        if one is not b.root:
            _hand_over(one, value, inside)
    return narrow[b.root]


def _in_float(b: Rewriter, value: Instruction, wide: dict[Instruction, Instruction]) -> Instruction:
    if value not in wide and _is_narrow(value.shape.type):
        wide[value] = b("convert", value, target_type=DType.FLOAT)
    return wide.get(value, value)


def _hand_over(old: Instruction, new: Instruction, keep: set[Instruction]) -> None:
    """Replace ``old`` by ``new`` in all users but those in ``keep``, which become dead code."""
    old.module.program.tell_replaced(old, new)
    for user in old.users:
        if user not in keep and user is not new:
            inputs = [new if i is old else i for i in user.inputs]
            user.module.set_inputs(user, inputs)


# Means


@rule(op("reduce_mean", var("x")))
def find_reduce_mean(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """reduce_mean(x) → reduce_sum(x / n), in a wider type where it is too narrow for the terms"""
    kind, axes = x.shape.type, b.root.op.attributes()["axes"]
    if not b.root.shape.elements or not x.shape.elements:
        return Decline("it has no elements")
    count = x.shape.elements // b.root.shape.elements
    if kind.is_float:
        work = DType.FLOAT if _is_too_narrow(kind, count) else kind
    else:
        work = DType.INT32 if kind.size < 4 else kind
        if kind is DType.BOOL or not _fits(kind, work, count):
            return Decline(f"a sum of {count} elements may not fit into {work.type_name}")
    wide = x if work is kind else b("convert", x, target_type=work)
    n = b.literal(Argument(Shape(work, (1,)), np.array([count]).astype(work.numpy)))
    if kind.is_float:
        mean = b("reduce_sum", common(b, "div", wide, n), axes=axes)
    else:
        mean = common(b, "div", b("reduce_sum", wide, axes=axes), n)
    return mean if work is kind else b("convert", mean, target_type=kind)


def _is_too_narrow(kind: DType, count: int) -> bool:
    return kind.size == 1 or (kind.size == 2 and count >= kind.format.largest / 4)


def _fits(kind: DType, work: DType, count: int) -> bool:
    """Whether sums in ``work`` equal the 64-bit sums of a mean: they do not overflow."""
    low, high = kind.format.limits
    return work.size == 8 or count * max(-low, high) <= work.format.limits[1]


@register
class RewriteReduce(RewritePass):
    """Rewrite softmax and means as sums, maxima and elementwise work.

    A softmax of a type narrower than float is computed in float, together with the scaling and masking of
    the matrix product before it. So is a mean whose type is too narrow for its terms. A variance keeps its
    two passes over the data: mean(x²) - mean(x)² cancels where the mean is large. ``simplify_reshapes`` and
    ``eliminate_common_subexpression`` remove the reshapes and duplicates that this pass leaves.
    """

    name = "rewrite_reduce"
    rules = (
        find_logsoftmax,
        find_softmax,
        find_narrow_softmax,
        find_reduce_mean,
    )

    def apply(self, program: Program) -> None:
        """Decompose every softmax before widening its parts; rewrite means last."""
        split = (find_logsoftmax, find_softmax)
        for rules in (split, (find_narrow_softmax,), (find_reduce_mean,)):
            drive(program, [one for one in self.active if one in rules])
