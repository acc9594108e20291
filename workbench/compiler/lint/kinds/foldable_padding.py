"""Padding that the operation behind it could do itself."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.lint.finding import Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.ops.movement import Pad
from workbench.compiler.passes.decompose.eliminate_pad import EliminatePad


@kind("foldable-padding")
def foldable_padding(subject: Subject) -> Iterator[Finding]:
    """A pad writes a larger copy of a value for a convolution or pooling, which can pad by itself.

    The pass `eliminate_pad` folds zeros around the spatial axes into the window's `padding`.
    """
    for one in subject.all:
        user = one.only_user
        if not isinstance(one.op, Pad) or user is None or not user.op.sliding:
            continue
        reason = subject.declined_at(user) or subject.not_run(EliminatePad.name)
        remedy = subject.mend(
            EliminatePad.name,
            "pad with zeros, the spatial axes only, in the model, and take them away from no side",
        )
        left = "a pass made this pad after eliminate_pad had run"
        yield subject.finding("foldable-padding", one, remedy, reason or left, others=[user])
