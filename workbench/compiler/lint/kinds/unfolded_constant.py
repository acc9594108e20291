"""Constants that every run computes again."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.lint.finding import Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.passes.tidy.propagate_constant import PropagateConstant


@kind("unfolded-constant")
def unfolded_constants(subject: Subject) -> Iterator[Finding]:
    """A value that depends on constants only is computed in every run.

    The pass `propagate_constant` computes it once, unless it was left out, or the result takes much more
    memory than what it is made of. Views of constants cost nothing and are not findings.
    """
    for one in subject.open:
        if one.literal is not None or not _is_work(one):
            continue
        if one.users and all(u.is_constant and _is_work(u) for u in one.users):
            continue
        behind = list(_behind(one))
        name = PropagateConstant.name
        otherwise = "compute it before exporting the model, or give it as an input"
        yield subject.finding(
            "unfolded-constant",
            one,
            subject.mend(name, otherwise),
            subject.why_left(one, name, "it is large, or its operation is one that is not folded"),
            cost=subject.cost(*behind),
            others=behind,
        )


def _is_work(one: Instruction) -> bool:
    return one.is_constant and bool(one.inputs) and one.op.alias is None


def _behind(one: Instruction) -> Iterator[Instruction]:
    """An instruction and all that it is computed from, but for literals and views."""
    seen, stack = {one}, [one]
    while stack:
        current = stack.pop()
        if current.literal is None and current.op.alias is None:
            yield current
        new = [i for i in current.inputs if i not in seen]
        seen.update(new)
        stack += new
