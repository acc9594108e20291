"""Work that is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.lint.finding import Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.passes.tidy.eliminate_common_subexpression import (
    EliminateCommonSubexpression,
)


@kind("duplicate")
def duplicates(subject: Subject) -> Iterator[Finding]:
    """Two instructions apply the same operation to the same operands.

    The pass `eliminate_common_subexpression` keeps the first. Kernels with equal bodies count, too.
    """
    for module in subject.modules:
        seen: dict[Any, Instruction] = {}
        for one in module:
            if not one.inputs or one.name.startswith("@") or not one.op.context_free:
                continue
            first = seen.setdefault(_key(one), one)
            if first is one or not one.is_used or one.op.alias is not None:
                continue
            name = EliminateCommonSubexpression.name
            remedy = subject.mend(name, f"use {first.name} #{first.id} for both in the model")
            left = f"{first.name} #{first.id} computes the same, since {name} ran"
            made = subject.made_by(one)
            reason = subject.not_run(name) or (f"{left}; {made}" if made else left)
            yield subject.finding("duplicate", one, remedy, reason, others=[first])


def _key(one: Instruction) -> Any:
    """Equal for instructions that compute the same from the same operands."""
    return one.op, one.shape, tuple(one.inputs), tuple(map(_body, one.modules))


def _body(module: Module) -> Any:
    place = {i: k for k, i in enumerate(module)}
    return tuple(
        (
            i.op,
            i.shape,
            i.literal and i.literal.numpy().tobytes(),
            tuple(place.get(x, x) for x in i.inputs),
            tuple(map(_body, i.modules)),
        )
        for i in module
    )
