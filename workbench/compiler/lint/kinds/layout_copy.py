"""Copies and transposes that only change a layout."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.lint.finding import Cost, Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.passes.fuse.kernels.pairs import is_kernel
from workbench.compiler.passes.shapes.eliminate_contiguous import EliminateContiguous
from workbench.compiler.passes.shapes.simplify_reshapes import SimplifyReshapes

_OTHERWISE = (
    "store the value in the layout that its reader wants: transpose the weights beforehand, or export the "
    "model with this Transpose or Reshape moved to its inputs"
)


@kind("layout-copy")
def layout_copies(subject: Subject) -> Iterator[Finding]:
    """A layout is changed by a copy, or a kernel reads along an axis that is not contiguous.

    A copy reads and writes the whole value and computes nothing. A transpose is a view, which costs no copy,
    but a kernel that reads through it has neighbours far apart in memory.
    """
    for one in subject.open:
        if one.is_constant or not one.inputs or not one.shape.is_tensor:
            continue
        if subject.is_copy(one) and not all(isinstance(u.op, Return) for u in one.users):
            name = (
                EliminateContiguous if isinstance(one.op, Contiguous) else SimplifyReshapes
            ).name
            left = f"no rule moves it into the kernels around it, {_around(one)}"
            yield subject.finding(
                "layout-copy",
                one,
                subject.mend(name, _OTHERWISE),
                subject.why_left(one, name, left),
            )
        elif _is_strided(one):
            readers = [u for u in one.users if is_kernel(u)]
            cost = Cost(bytes=one.shape.bytes)
            reads = f"{_listed(readers)} reads it with a stride of {one.shape.strides[-1]} elements"
            yield subject.finding(
                "layout-copy",
                one,
                subject.mend(SimplifyReshapes.name, _OTHERWISE),
                subject.why_left(one, SimplifyReshapes.name, reads),
                cost=cost,
                others=readers,
            )


def _is_strided(one: Instruction) -> bool:
    """Whether it is a transposed view that elementwise work or a reduction reads along a slow axis."""
    shape = one.shape
    if one.op.alias is None or shape.is_dynamic or not shape.transposed or shape.broadcasted:
        return False
    return shape.lens[-1] > 1 and shape.strides[-1] > 1 and any(map(is_kernel, one.users))


def _around(one: Instruction) -> str:
    return _listed([*one.inputs[:1], *one.users])


def _listed(instructions: list[Instruction]) -> str:
    return ", ".join(f"{i.name} #{i.id}" for i in instructions[:4])
