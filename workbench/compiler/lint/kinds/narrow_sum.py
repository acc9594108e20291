"""Long sums whose result is half precision or narrower."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.lint.finding import Cost, Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.ops.reduce import Reduction

_LOST = 1.0
"""A sum is long if its terms times the type's epsilon reach this: adding one more term may change nothing."""


@kind("narrow-sum")
def narrow_sums(subject: Subject) -> Iterator[Finding]:
    """A sum of many terms has a result, or partial results, in half precision or narrower.

    With n terms of one sign, a running sum in a type of p bits no longer grows once n reaches 2^p: from 1,024
    terms in half and 128 in bfloat16. A sum in half also overflows beyond 65,504. Nothing is saved by a
    remedy but the numbers.
    """
    for one in subject.all:
        terms, type = _terms(one), one.shape.type if one.shape.is_tensor else None
        if type is None or not type.is_float or type.size >= 4:
            continue
        if terms * type.format.epsilon < _LOST:
            continue
        accumulated = one.op.monoid or one.op.scan_monoid
        assert accumulated is not None
        partial = accumulated.accumulator(type)
        most = type.format.largest
        reason = (
            f"{terms:,} terms are added in {partial.name.lower()} and rounded to {type.name.lower()}, which "
            f"has a precision of {type.format.epsilon:.2g} and overflows where the terms average more than "
            f"{most / terms:.3g}"
        )
        owner = subject.owner(one)
        nodes = one.sources or subject.sources([owner])
        kept = repr(nodes[0]) if nodes else repr(f"op:{one.name}")
        remedy = (
            f"keep it in float: compile with keep=[{kept}] beside precision=, or put a Cast to float before "
            "this sum in the model"
        )
        others = [owner] if owner is not one else []
        yield subject.finding("narrow-sum", one, remedy, reason, cost=Cost(), others=others)


def _terms(one: Instruction) -> int:
    """The number of terms of a sum; 0 if it is none, or nobody knows how many."""
    op = one.op
    monoid = op.monoid or op.scan_monoid
    if monoid is None or not monoid.is_sum or not one.inputs:
        return 0
    x = one.inputs[0].shape
    if x.is_dynamic or not x.is_tensor:
        return 0
    if isinstance(op, Reduction):
        return prod(x.lens[a] for a in op.axes)
    axis: object = op.attributes().get("axis")
    return x.lens[axis] if isinstance(axis, int) and x.ndim else 0
