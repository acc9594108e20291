"""Expected values that are forgotten once nothing more reads them, beside a reference that still runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from workbench.compiler.ir.builtin import Param
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.control import GetTupleElem
from workbench.numerics.compare.alignment import Joined
from workbench.numerics.compare.expected import Expected, Role, is_computed


class Streamed(Expected):
    """The expected values of a program whose instructions are asked for once each, in the order of the run.

    A value is deleted when the last instruction that reads it has been asked for, so the memory of the next
    value is one that is at hand. What the results show is kept.

    Args:
        program: The compiled program.
        inputs: The inputs of the run.
        pinned: The key in ``values`` of each instruction that computes a value of the reference.
        values: The reference's values by key; without those of views that are no results.
        shapes: The reference's shapes by key. They are static.
        joined: The keys of the values that make up those of other instructions, by id.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Any],
        pinned: Mapping[int, Any],
        values: MutableMapping[Any, Value],
        shapes: Mapping[Any, Shape],
        joined: Mapping[int, Joined],
    ) -> None:
        """Find out when each value is read last."""
        super().__init__(program, inputs, pinned, values, joined=joined)
        self._shapes = shapes
        self._results = {o.id for o in program.outputs}
        self._ends = self._last_reads()

    def _role_of(self, id: int) -> Role:
        """As in the base, but by shapes: a value may have been deleted, or may not have arrived."""
        instruction = self._main[id]
        if not have_same_lens(self._shapes[self._keys[id]], instruction.shape):
            return "misfit"
        return "pinned" if is_computed(instruction) else "view"

    def views(self) -> Iterator[tuple[Instruction, Value]]:
        """The views among the results, each with the value that the reference has there."""
        for id, key in self._with_role("view").items():
            if id in self._results and not isinstance(self._main[id].op, Param):
                yield self._main[id], self._values[key]

    def __getitem__(self, instruction: Instruction) -> Value:
        """The expected value of an instruction."""
        value = super().__getitem__(instruction)
        for key in self._ends.pop(instruction.id, ()):
            self._forget(key)
        return value

    def _forget(self, key: Any) -> None:
        """Delete a value. That of an instruction which the target does not run by itself was not kept."""
        if key in self._shapes or key[1] in self._own:
            del self._values[key]

    def _last_reads(self) -> dict[int, list[Any]]:
        """The keys of the values that each instruction is the last to read, by its id."""
        last: dict[Any, int] = {}
        for i in self.program.main:
            taken = [u for u in i.users if isinstance(u.op, GetTupleElem)]
            for asked in (i, *taken):
                if is_computed(asked):
                    last.update(dict.fromkeys(self._stored(asked), asked.id))
        for output in self.program.outputs:
            for key in (*self._stored(output), self._keys.get(output.id)):
                last.pop(key, None)
        found: dict[int, list[Any]] = {}
        for key, id in last.items():
            found.setdefault(id, []).append(key)
        return found

    def _stored(self, instruction: Instruction) -> Iterator[Any]:
        """The keys of the values that computing an expected value reads or adds."""
        stack, seen = [instruction], {instruction.id}
        while stack:
            current = stack.pop()
            if self._role(current.id) == "pinned":
                yield self._keys[current.id]
                continue
            if self._is_own(current):
                yield "own", current.id
            if current.id in self._joined:
                yield from self._joined[current.id].keys
                continue
            new = [i for i in self.reads(current) if i.id not in seen]
            seen.update(i.id for i in new)
            stack += new


def have_same_lens(a: Shape, b: Shape) -> bool:
    """Whether values of two static shapes have the same lens."""
    if a.subs is None or b.subs is None:
        return a.subs is b.subs and a.array_lens == b.array_lens
    return len(a.subs) == len(b.subs) and all(map(have_same_lens, a.subs, b.subs))
