"""Layouts that are changed and changed back."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.lint.finding import Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.view import Transpose
from workbench.compiler.passes.shapes.simplify_reshapes import SimplifyReshapes

_FARTHEST = 16


@kind("layout-round-trip")
def layout_round_trips(subject: Subject) -> Iterator[Finding]:
    """A value is transposed or reshaped, used in elementwise work, and brought back to its first form.

    Elementwise work does not depend on the order of axes, so both changes could go, and with them the copies
    and the strided reads.
    """
    for one in subject.open:
        if _is_change(one) and (first := _begun_at(one)) is not None:
            remedy = subject.mend(
                SimplifyReshapes.name,
                "remove both changes from the model and compute the work between in the first layout",
            )
            left = f"{first.name} #{first.id} and {one.name} #{one.id} undo each other"
            yield subject.finding(
                "layout-round-trip",
                one,
                remedy,
                subject.why_left(one, SimplifyReshapes.name, left),
                cost=subject.cost(first, one),
                others=[first],
            )


def _is_change(one: Instruction) -> bool:
    fits = one.op.rearranges is Rearrangement.RELAID and not one.is_constant
    return fits and not one.shape.is_dynamic and one.shape.elements > 1


def _begun_at(last: Instruction) -> Instruction | None:
    """The change that another one undoes, behind elementwise work; None if there is none."""
    stack, seen = [last.inputs[0]], {last.inputs[0]}
    while stack and len(seen) <= _FARTHEST:
        current = stack.pop()
        if current.is_constant:
            continue
        if _is_change(current) and _undoes(current, last):
            return current
        if current.op.pointwise or isinstance(current.op, PointwiseModule):
            new = [i for i in current.inputs if i not in seen]
            seen.update(new)
            stack += new
    return None


def _undoes(first: Instruction, last: Instruction) -> bool:
    before, after = first.inputs[0].shape, last.inputs[0].shape
    if before.is_dynamic or before.lens != last.shape.lens or first.shape.lens != after.lens:
        return False
    if isinstance(first.op, Transpose) and isinstance(last.op, Transpose):
        there, back = first.op.permutation, last.op.permutation
        return tuple(there[k] for k in back) == tuple(range(len(there))) != tuple(there)
    return type(first.op) is type(last.op) and before.lens != first.shape.lens
