"""Results that are views, and are copied to be returned."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.lint.finding import Cost, Finding, kind
from workbench.compiler.lint.subject import Subject


@kind("copied-output")
def copied_outputs(subject: Subject) -> Iterator[Finding]:
    """A result is a transposed, broadcast or sliced view, so returning it means one more copy.

    A copy at the end, or a reader of the result that gets strided memory, goes if the model returns what the
    view is of.
    """
    for value in dict.fromkeys(subject.program.main.outputs):
        if not value.shape.is_tensor or value.shape.is_dynamic or value.is_constant:
            continue
        is_copy = subject.is_copy(value) and all(isinstance(u.op, Return) for u in value.users)
        if not is_copy and not _is_view(value):
            continue
        source = value.inputs[0]
        cost = subject.cost(value) if is_copy else Cost(2 * value.shape.bytes, 0, 1)
        is_done = "is copied at the end" if is_copy else f"has strides {list(value.shape.strides)}"
        yield subject.finding(
            "copied-output",
            value,
            f"return {source.name} #{source.id} instead, and do {value.name} in the caller",
            f"the result {is_done}; {value.name} of {source.name} #{source.id} is all that is between",
            cost=cost,
            others=[source],
        )


def _is_view(value: Instruction) -> bool:
    aliased = value.op.alias is not None and bool(value.inputs)
    return aliased and not value.shape.standard and value.shape.elements > 1
