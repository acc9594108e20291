"""Conversions to another type and back."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.lint.finding import Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.ops.convert import Convert
from workbench.compiler.passes.tidy.eliminate_convert import EliminateConvert, keeps_values


@kind("cast-round-trip")
def cast_round_trips(subject: Subject) -> Iterator[Finding]:
    """A value is converted to another type and back, with nothing computed between.

    To a wider type and back changes nothing. To a narrower one and back rounds, which a compiler must keep:
    only the model's author knows whether it is meant.
    """
    for one in subject.all:
        if not isinstance(one.op, Convert) or (first := _first(one)) is None:
            continue
        there, narrow = first.inputs[0].shape.type, first.shape.type
        name = EliminateConvert.name
        if keeps_values(there, narrow):
            remedy = subject.mend(name, "remove both Casts from the model")
            left = "the two conversions are not adjacent"
            reason = subject.why_left(one, name, left)
        else:
            remedy = (
                "remove both Casts from the model if the rounding is not meant; if precision= made them, "
                "name the node in keep="
            )
            rounding = f"through {narrow.name.lower()} a {there.name.lower()} is rounded, so the pair stays"
            reason = subject.declined_at(one) or rounding
        owner = subject.owner(one)
        inside = owner is not one
        cost = subject.cost() if inside else subject.cost(first, one)
        others = [first, owner] if inside else [first]
        yield subject.finding("cast-round-trip", one, remedy, reason, cost=cost, others=others)


def _first(last: Instruction) -> Instruction | None:
    """The conversion that another one takes back, behind views; None if there is none."""
    value = last.inputs[0]
    while value.op.rearranges is Rearrangement.RELAID and len(value.inputs) == 1:
        value = value.inputs[0]
    if not isinstance(value.op, Convert) or value.inputs[0].shape.type is not last.shape.type:
        return None
    return value if value.shape.type is not last.shape.type else None
