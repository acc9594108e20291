"""Simplification of reshapes, transposes, broadcasts, slices and concatenations."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Family, Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.movement import Concat, Contiguous, Pad
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import AsShape, Step
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.shapes.rules.across_reshapes import (
    find_mul_add_shape_op_dot,
    find_reshape_cont,
    find_reshape_dot,
    find_unary_shape_transforms,
)
from workbench.compiler.passes.shapes.rules.canonical_chains import (
    find_nested_shape_transforms,
    find_slice_shape_transforms,
)
from workbench.compiler.passes.shapes.rules.concats import (
    find_concat_multibroadcasts,
    find_concat_reshape,
    find_concat_slice,
    find_concat_transpose,
    find_nested_concat,
)
from workbench.compiler.passes.shapes.rules.gathers import find_gather, find_gather_scalar
from workbench.compiler.passes.shapes.rules.slices import (
    find_nested_slice,
    find_slice_transpose,
    find_transpose_slice,
)
from workbench.compiler.passes.shapes.rules.work_in_common_space import find_op_shape_transform_op
from workbench.compiler.passes.shapes.transform.chains import TRANSFORMING
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, Rule, op, rule, var

_NOPS = (*TRANSFORMING, Contiguous, AsShape, Concat, Convert, Pad, Slice, Step)


def _may_change_nothing(op: type[Operation]) -> bool:
    return issubclass(op, _NOPS) or (op.monoid is not None and op.monoid.keeps_one)


def _changes_nothing(instruction: Instruction) -> bool:
    source = instruction.inputs[0].shape
    if source.lens != instruction.shape.lens:
        return False  # most of them
    if instruction.op.monoid is not None:
        same = (source.type, source.lens) == (instruction.shape.type, instruction.shape.lens)
        changed = source.broadcasted and source.strides != instruction.shape.strides
        if changed and any(u.op.family is Family.VIEW for u in instruction.users):
            return False  # unsqueeze would treat it, or a slice of it, as a scalar
        return same and len(instruction.inputs) == 1
    if isinstance(instruction.op, Pad) and any(instruction.op.pads):
        return False  # it crops at one end and adds as much at the other
    return source == instruction.shape


@rule(Pattern(binding="x", kind=_may_change_nothing, structure=_changes_nothing))
def find_nop_reshapes(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """f(x) → x where f keeps the shape, strides included; for a reduction, type and lens"""
    return x.inputs[0]


@rule(op("flatten", var("x"), name="root"))
def find_flatten(b: Rewriter, root: Instruction, x: Instruction) -> Instruction | Decline:
    """flatten(x) → reshape(x)"""
    if 0 in root.shape.lens:
        return Decline("a length is 0, which in a reshape means the input's own length")
    return b.reshape(x, root.shape.lens)


@register
class SimplifyReshapes(RewritePass):
    """Rewrite chains of reshapes, transposes and broadcasts to canonical form; cancel slices and concats.

    Args:
        without: Names of rules to leave out.
        depth: With 0, apply only the rules on gathers; with any other number, all, until none applies.
        enable_op_shape_transform_op: Whether work moves across the chain that separates it from other work.
        enable_gather_rewrite: Whether gathers by constant indices become slices and transposes.
    """

    name = "simplify_reshapes"
    depth: int = 4
    enable_op_shape_transform_op: bool = False
    enable_gather_rewrite: bool = False
    rules = (
        find_gather_scalar,
        find_gather,
        find_nop_reshapes,
        find_flatten,
        find_reshape_cont,
        find_slice_shape_transforms,
        find_nested_shape_transforms,
        find_concat_slice,
        find_concat_transpose,
        find_concat_reshape,
        find_concat_multibroadcasts,
        find_nested_slice,
        find_nested_concat,
        find_transpose_slice,
        find_slice_transpose,
        find_unary_shape_transforms,
        find_reshape_dot,
        find_mul_add_shape_op_dot,
        find_op_shape_transform_op,
    )

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options switch on, and those that no option controls."""
        switched = {
            find_gather: self.enable_gather_rewrite,
            find_op_shape_transform_op: self.enable_op_shape_transform_op,
        }
        gathers_only = not self.depth
        found = [r for r in self.rules if switched.get(r, True)]
        return tuple(r for r in found if r in _GATHERS or not gathers_only)

    def apply(self, program: Program) -> None:
        """Apply the rules on gathers, then the others."""
        for one in _GATHERS:
            self.drive(program, (one,))
        self.drive(program, [r for r in self.rules if r not in _GATHERS])


_GATHERS = (find_gather_scalar, find_gather)
