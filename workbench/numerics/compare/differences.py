"""Differences of two models: each source instruction on the values that the other model has there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.numerics.compare.culprit import Cause
from workbench.numerics.compare.expected import Expected, is_computed
from workbench.numerics.compare.measure import arrays_of, distance
from workbench.numerics.compare.sides import Counterpart, Values
from workbench.numerics.metrics.metrics import Metrics
from workbench.numerics.metrics.rounding import is_narrow, precision_bound, rounding_bound

_EQUAL = 1e-7
"""The relative RMS up to which two computations in float64 count as equal."""
_SLACK = 8
"""The multiple of the bound of rounding that the values of a dump may be off by."""


@dataclass(frozen=True)
class Difference:
    """A place where two models differ."""

    id: int
    """The instruction of the subject's source."""
    cause: Cause
    error: float
    bound: float
    sources: tuple[str, ...]
    """Names of the subject's nodes."""
    reason: str


class Differences:
    """The differences of a source program from a reference whose values are known.

    Args:
        source: The subject's source program.
        inputs: The subject's inputs.
        theirs: The counterparts of its instructions, by id.
        values: The reference's values by the counterparts' keys; others are added.
    """

    def __init__(
        self,
        source: Program,
        inputs: Mapping[str, Any],
        theirs: Mapping[int, Counterpart],
        values: Values,
    ) -> None:
        """Expect the reference's values where it has them."""
        self.source = source
        self._theirs = theirs
        self._values = values
        pinned = {id: c.key for id, c in theirs.items()}
        self._expected = Expected(source, inputs, pinned, values, pin_views=True)

    def found(self) -> list[Difference]:
        """All differences, in the order of the program."""
        found = [self._at(i) for i in self.source.main if i.id in self._theirs]
        return [d for d in found if d is not None]

    def _at(self, instruction: Instruction) -> Difference | None:
        if instruction.literal is not None:
            return self._constant(instruction, instruction.literal.numpy())
        if instruction.id not in self._expected.pinned:
            return self._shape(instruction)
        if not is_computed(instruction) and instruction.op.alias is None:
            return None
        try:
            again = self._recomputed(instruction)
        except EvaluationError as error:
            return self._difference(instruction, inf, 0.0, f"it cannot be computed: {error}")
        wanted = self._expected[instruction]
        return self._judged(instruction, distance(again, wanted))

    def _recomputed(self, instruction: Instruction) -> Value:
        """The value on the reference's inputs: of a tuple's part, on its tuple if that is known."""
        e = self._expected
        if e.maker(instruction).id in e.pinned:
            return e.exact.value(instruction, e.operands(instruction))
        return e.recomputed(instruction)

    def _judged(self, instruction: Instruction, apart: Metrics) -> Difference | None:
        ran = self._expected.since(instruction)
        narrow = max(map(precision_bound, ran), default=0.0)
        bound = max(_EQUAL, self._their_bound(instruction))
        cause = Cause.MODEL
        if narrow > bound and any(is_narrow(i) for i in ran):
            bound, cause = narrow, Cause.PRECISION
        if not apart.exceeds(bound):
            return None
        error = apart.error
        reason = f"on the reference's inputs it is off by {error:.3g}: the two models differ here"
        if cause is Cause.PRECISION:
            reason = f"rounding to its types costs {error:.3g} on the reference's inputs"
        return self._difference(instruction, error, bound, reason, cause)

    def _constant(self, literal: Instruction, mine: Array) -> Difference | None:
        (wanted,) = arrays_of(self._values[self._theirs[literal.id].key])
        if mine.shape != wanted.shape:
            reason = (
                f"a constant of lens {list(mine.shape)}; the reference's has {list(wanted.shape)}"
            )
            return self._difference(literal, inf, 0.0, reason)
        apart = distance(mine, wanted)
        bound = max(_EQUAL, _SLACK * rounding_bound(literal) if is_narrow(literal) else 0.0)
        if not apart.exceeds(bound):
            return None
        error = apart.error
        reason = f"a constant that differs from the reference's by {error:.3g}"
        return self._difference(literal, error, bound, reason)

    def _shape(self, instruction: Instruction) -> Difference | None:
        """A counterpart of another shape, if it was found by name."""
        other = self._theirs[instruction.id]
        if instruction.id not in self._expected.misfits or not other.is_same_operation:
            return None
        found = _described(self._values[other.key])
        reason = f"a value of {instruction.shape}; the reference's is {found}"
        return self._difference(instruction, inf, 0.0, reason)

    def _difference(
        self,
        instruction: Instruction,
        error: float,
        bound: float,
        reason: str,
        cause: Cause = Cause.MODEL,
    ) -> Difference:
        named = dict.fromkeys(instruction.sources)
        if instruction.literal is None:
            ran = self._expected.since(instruction)
            named |= dict.fromkeys(s for i in reversed(ran) for s in i.sources)
        else:
            named |= dict.fromkeys(s for u in instruction.users for s in u.sources)
        return Difference(instruction.id, cause, error, bound, tuple(named), reason)

    def _their_bound(self, instruction: Instruction) -> float:
        """The error that the reference's own rounding accounts for; 0 if it ran in float64."""
        value = self._values[self._theirs[instruction.id].key]
        if any(x.dtype.itemsize < 8 and x.dtype.kind not in "iub" for x in arrays_of(value)):
            return _SLACK * rounding_bound(instruction)
        return 0.0


def _described(value: Value) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{value.dtype} of lens {list(value.shape)}"
