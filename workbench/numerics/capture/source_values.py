"""Values of a build's source program, computed when a diagnosis asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.numerics.capture.store import ValueStore


class SourceValues:
    """Float64 values of the source's instructions by id, and which ones a compiled instruction stands for.

    Args:
        build: The build.
        inputs: An array for each parameter.
        budget: Bytes of values that are kept in memory; others are in a temporary folder.
    """

    def __init__(self, build: Build, inputs: Mapping[str, Any], budget: int) -> None:
        """Run nothing yet."""
        self._source = build.source
        self._relations = build.recording.relations
        self._inputs = inputs
        self._known = ValueStore(budget)

    def ids(self, id: int) -> tuple[int, ...]:
        """The source's instructions that an instruction of any step is said to equal."""
        main = self._source.main
        found = self._relations.originals(id)
        return tuple(i for i in found if self._source.instruction(i).module is main)

    def nodes_since(self, id: int, right: Collection[int]) -> list[str]:
        """The model's nodes of a source instruction and of those it reads, back to right values."""
        found = {id: self._source.instruction(id)}
        stack = list(found.values())
        while stack:
            for read in stack.pop().inputs:
                if read.id not in found and read.id not in right and not read.is_constant:
                    found[read.id] = read
                    stack.append(read)
        return [name for i in found.values() for name in i.sources]

    def values(self, ids: Iterable[int]) -> dict[int, Value]:
        """The values of computed instructions; the first call runs the source."""
        wanted = tuple(ids)
        if wanted and not self._known:
            self._run()
        return {id: self._known[id] for id in wanted if id in self._known}

    def _run(self) -> None:
        """Keep every value: a diagnosis follows, which reads many of them."""

        def keep(instruction: Instruction, value: Value, _: Sequence[Value]) -> None:
            self._known[instruction.id] = value

        PlannedInterpreter(self._source, float64=True).run(self._inputs, hook=keep)
