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
        made = subject.made_by(one)
        otherwise = (
            "give the window the same padding on both sides in the model, or leave out that pass"
            if made
            else "pad with zeros in the model, along the spatial axes only"
        )
        reason = made or subject.why_left(user, EliminatePad.name, "no rule matched it")
        remedy = otherwise if made else subject.mend(EliminatePad.name, otherwise)
        yield subject.finding("foldable-padding", one, remedy, reason, others=[user])
