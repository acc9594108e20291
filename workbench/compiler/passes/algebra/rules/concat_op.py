"""The rule that merges equal operations whose results are concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.movement import Layout
from workbench.compiler.ops.packing import UnpackInt4
from workbench.compiler.ops.quant import Quantizelinear
from workbench.compiler.passes.shapes.rules.concats import axis_of
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, rule

_SPREADS = (Broadcast, Multibroadcast, UnpackInt4)


def _joins(instruction: Instruction) -> bool:
    op = instruction.op
    spreads = isinstance(op, _SPREADS)
    return op.pointwise or isinstance(op, Layout) or (spreads and len(instruction.inputs) == 1)


def _joins_once(concat: Instruction) -> bool:
    return any(_joins(i) and i.only_user is not None for i in concat.inputs)


def _kind(instruction: Instruction) -> tuple[Any, ...]:
    return instruction.op, len(instruction.inputs), len(instruction.users)


@rule(Pattern(frozenset({"concat"}), binding="root", structure=_joins_once))
def find_concat_op(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(f(x, y), f(z, w)…) → f(concat(x, z…), concat(y, w…))"""
    args: list[Instruction] = []
    reason, axis = "", axis_of(root)
    for _, same in groupby(root.inputs, _kind):
        run = list(same)
        plan = _joined(run, axis)
        if isinstance(plan, str):
            reason = reason or plan
            args += run
        else:
            op, inner = plan
            operands = zip(*(i.inputs for i in run), strict=True)
            args.append(b(op, *[b("concat", *o, axis=inner) for o in operands]))
    if len(args) == len(root.inputs):
        return Decline(reason or "no two neighbours are the same operation")
    return args[0] if len(args) == 1 else b(root.op, *args)


def _joined(run: Sequence[Instruction], axis: int) -> tuple[Operation, int] | str:
    """The operation on the concatenated operands of a run, and their concat axis; or the reason why not."""
    first = run[0]
    if len(run) < 2:
        return ""
    shown = f"{first.name} #{first.id}"
    if not _joins(first) or isinstance(first.op, Quantizelinear):
        return f"{shown} and its neighbour are the same operation, but not elementwise"
    if first.only_user is None:
        return f"{shown} has other users"
    if len({*run}) < len(run) and any(i.inputs for one in run for i in one.inputs):
        return f"{shown} is joined twice, and so would its operands be"  # and again, at every level
    moving = max(sum(not i.constant for i in one.inputs) for one in run)
    if not first.inputs or moving > 2:
        return f"{shown} or its neighbour has {moving} inputs that are not constant"
    plan = _spread(run, axis)
    if isinstance(plan, str):
        return plan
    for operands in zip(*(i.inputs for i in run), strict=True):
        if reason := _not_joined(operands, plan[1]):
            return reason
    return plan


def _spread(run: Sequence[Instruction], axis: int) -> tuple[Operation, int] | str:
    """The operation with the output lens of the whole run, and the concat axis of its operands."""
    op = run[0].op
    if not isinstance(op, Broadcast | Multibroadcast):
        return op, axis
    lens = list(run[0].shape.lens)
    lens[axis] *= len(run)
    if isinstance(op, Broadcast):
        if op.axis != axis:
            return f"{op.name} #{run[0].id} lays its input along axis {op.axis}, not {axis}"
        return replace(op, out_lens=tuple(lens)), 0
    rank = run[0].inputs[0].shape.ndim
    inner = axis - run[0].shape.ndim + rank
    for one in run:
        source = one.inputs[0].shape
        if source.ndim != rank:
            return f"operands #{run[0].inputs[0].id} and #{one.inputs[0].id} have different ranks"
        repeats = inner < 0 or not one.shape.strides[axis]
        if repeats or source.lens[inner] != one.shape.lens[axis]:
            return f"{op.name} #{one.id} repeats elements along axis {axis}"
    return replace(op, out_lens=tuple(lens)), inner


def _not_joined(operands: Sequence[Instruction], axis: int) -> str:
    """The reason why operands cannot or should not be concatenated; empty if they can be."""
    first = operands[0].shape
    for operand in operands:
        shape = operand.shape
        if shape.ndim != first.ndim or not 0 <= axis < shape.ndim:
            return f"operands #{operands[0].id} and #{operand.id} have different ranks"
        if shape.type is not first.type or any(
            m != n for i, (m, n) in enumerate(zip(shape.lens, first.lens, strict=True)) if i != axis
        ):
            return (
                f"operands #{operands[0].id} and #{operand.id} differ in type, "
                f"or in an axis other than {axis}"
            )
    scalars = all(o.shape.is_scalar for o in operands)
    repeated = next((o for o in operands if o.constant and not o.shape.strides[axis]), None)
    if repeated is not None and not scalars:
        return (
            f"constant #{repeated.id} is broadcast along axis {axis}: concat would store every copy"
        )
    return ""
