"""Causes of errors: which instructions are to blame, and whether rule, kernel, type or model is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.compiler.record.edits import Edit
    from workbench.numerics.compare.inside import Part


class Cause(StrEnum):
    """The kind of fault that an error comes from."""

    MODEL = "model"
    """The two models differ here: another weight, attribute or operation."""
    REWRITE = "rewrite"
    """The compiled instructions mean something else than the source: a pass is wrong, or it approximates."""
    KERNEL = "kernel"
    """The target computes something else than the instruction means."""
    PRECISION = "precision"
    """The instruction is computed as it is typed, and its type has too few bits or too small a range."""


@dataclass(frozen=True)
class Culprit:
    """An instruction whose own error is too large, with the cause."""

    id: int
    """The instruction of the compiled program."""
    name: str
    """Its printed name."""
    kernel: str
    """Its operation, or the parts of the fused one."""
    cause: Cause
    error: float
    """Its local relative RMS; infinite if values are not finite where they should be."""
    bound: float
    """The relative RMS that is accepted."""
    sources: tuple[str, ...]
    """Names of the model's nodes concerned."""
    reason: str
    """A sentence about the cause."""
    edit: Edit | None = None
    """The recorded edit that is wrong, if it is known."""
    part: Part | None = None
    """The instruction inside the fused one, if it is known."""
    parts: tuple[Part, ...] = ()
    """All instructions inside the fused one, if they were evaluated."""
    is_doubtful: bool = False
    """Whether float64 differs from the reference, too: constants were rounded, or a rewrite is wrong."""

    @property
    def severity(self) -> float:
        """The error as a multiple of its bound."""
        if self.error == 0.0:
            return 0.0
        return inf if self.bound == 0.0 else self.error / self.bound

    @property
    def is_harmless(self) -> bool:
        """Whether only a type is too narrow; that matters if a result is wrong because of it."""
        return self.cause is Cause.PRECISION

    def __str__(self) -> str:
        """One sentence: the instruction, its nodes, the cause."""
        nodes = f" from {', '.join(self.sources[:4])}" if self.sources else ""
        more = ", …" if len(self.sources) > 4 else ""
        return f"{self.name} {self.kernel}{nodes}{more}: {self.reason}"


def ranked(culprits: Iterable[Culprit]) -> list[Culprit]:
    """Culprits, the most likely first: by severity, and equal ones in the order of the run.

    Where two models differ, values that a type cannot hold may be a consequence, so such culprits come last.
    """
    found = list(culprits)
    differ = any(c.cause is Cause.MODEL for c in found)
    return sorted(found, key=lambda c: (differ and c.is_harmless, -min(c.severity, 1e300)))
