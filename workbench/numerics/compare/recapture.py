"""Single values of a comparison, captured from its two sides once more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.report.result import kernel_sources
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.capture.values import Places
from workbench.numerics.compare.alignment import from_source
from workbench.numerics.compare.expected import Expected
from workbench.numerics.compare.inside import Part, parts_of
from workbench.numerics.compare.sides import Counterpart, Same, Side, first_counterpart, keys_of


@dataclass(frozen=True)
class Recapture:
    """The two sides of a comparison, which run again when a value is asked for; no value is kept.

    Attributes:
        subject: The build.
        inputs: An array for each parameter.
        side: The reference.
        budget: Bytes of reference values that a run keeps in memory.
    """

    subject: Build
    inputs: Mapping[str, Any]
    side: Side
    budget: int

    @cached_property
    def places(self) -> Places:
        """The instructions of the build by all their names."""
        return Places(self.subject)

    def find(self, which: Any, measured: Collection[int] = ()) -> Instruction:
        """The instruction of the build that a name or an id means.

        Args:
            which: Something with an ``id``, or an id: of an instruction of any step; a printed name; or the
                name of a tensor or node of the model. A node inside a fused kernel means the kernel.
            measured: Ids that are preferred if several instructions compute the value.

        Raises:
            GraphError: There is nothing of this name, or the compiled program does not compute it.
            InputError: It is none of these.
        """
        found = self._named(which) if isinstance(which, str) else self._by_id(which)
        return next((i for i in reversed(found) if i.id in measured), found[-1])

    def _by_id(self, which: Any) -> list[Instruction]:
        return self.places.find(getattr(which, "id", which))

    def _named(self, name: str) -> list[Instruction]:
        main = self.subject.program.main
        printed = [i for i in main if self.places.names.get(i.id) == name]
        if printed:
            return printed
        try:
            return self.places.find(name)
        except GraphError:
            kernels = [i for i in main if i.modules and name in kernel_sources(i)]
            if not kernels:
                raise
            return kernels

    def value(self, instruction: Instruction) -> Value:
        """The build's value of an instruction, in a normal run.

        Raises:
            GraphError: The target keeps no value of it.
        """
        return self.subject.values(self.inputs, instruction, budget=self.budget)[instruction.id]

    def reference(self, instruction: Instruction) -> Value:
        """The reference's value of an instruction; else what float64 gives on values that it has."""
        with ValueStore(self.budget) as values:
            theirs = self.side.capture(self.inputs, values, False)
            ids = from_source(self.subject).get(instruction.id, ())
            found = first_counterpart(ids, theirs)
            if found is not None:
                return values[found.key]
            if self.side.is_same_source:
                return self._expected(instruction, theirs, values)
        own = Same(self.subject, None, float64=True)
        with ValueStore(self.budget) as values:
            return self._expected(instruction, own.capture(self.inputs, values, False), values)

    def parts(self, instructions: Iterable[Instruction]) -> dict[int, list[Part]]:
        """The instructions inside fused ones, each on its operands there, by the fused one's id.

        The kernels' inputs are the expected ones, rounded to their types.
        """
        own = Same(self.subject, None, float64=True)
        with ValueStore(self.budget) as values:
            e = self._all_expected(own.capture(self.inputs, values, False), values)
            return {i.id: parts_of(i, e.rounded(i), e.typed, e.exact) for i in instructions}

    def _expected(
        self, instruction: Instruction, kept: Mapping[int, Counterpart], values: ValueStore
    ) -> Value:
        return self._all_expected(kept, values)[instruction]

    def _all_expected(self, kept: Mapping[int, Counterpart], values: ValueStore) -> Expected:
        pinned = keys_of(from_source(self.subject), kept)
        return Expected(self.subject.program, self.inputs, pinned, values)
