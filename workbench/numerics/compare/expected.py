"""The values that the instructions of a compiled program should have, by a reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any, TypeAlias
from typing import Literal as OneOf

import numpy as np

from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.ops.recurrent import Recurrent
from workbench.compiler.run.steps import uses
from workbench.numerics.capture.evaluator import Evaluator, as_typed
from workbench.numerics.compare.alignment import Joined
from workbench.numerics.metrics.rounding import rounding_bound

Role: TypeAlias = OneOf["pinned", "view", "misfit"]


class Expected:
    """Expected values of a program's main module by instruction id, in float64.

    An instruction that computes a value of the reference is expected to have that value. Any other, such as
    a weight that a pass folded or a padding that it inserted, is expected to have what its operation gives
    in float64 on the expected values of its inputs; or, if it merges several of the reference's, their values
    side by side. So every instruction has an expected value, and none has the rounding errors of the target.

    Args:
        program: The program, usually a compiled one.
        inputs: The inputs of the run.
        pinned: The key in ``values`` of each instruction that computes a value of the reference.
        values: The reference's values by key; values of other instructions are added under ``("own", id)``.
        pin_views: Expect the reference's values of views, too, not what they show of the expected values.
        joined: The keys of the values that make up those of other instructions, by id.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Any],
        pinned: Mapping[int, Any],
        values: MutableMapping[Any, Value],
        pin_views: bool = False,
        joined: Mapping[int, Joined] | None = None,
    ) -> None:
        """Keep the reference's values that fit the instructions."""
        self.program = program
        self.exact = Evaluator(program, inputs, float64=True)
        self.typed = Evaluator(program, inputs, float64=False)
        self._inputs = inputs
        self._values = values
        self._main = {i.id: i for i in program.main}
        self._keys = {i: k for i, k in pinned.items() if _can_be_kept(self._main[i])}
        self._pin_views = pin_views
        self._joined = joined or {}
        self._roles: dict[int, Role | None] = {}
        self._own: set[int] = set()
        """The ids of the values that were computed here."""
        self._reads: dict[int, list[Instruction]] = {}
        self._since: dict[int, list[Instruction]] = {}
        self._bounds: dict[int, float] = {}

    def _role(self, id: int) -> Role | None:
        """The use of the reference's value of an instruction; None if it has none.

        Asked for only when it matters, so that a reference that still runs is not waited for.
        """
        if id not in self._roles:
            self._roles[id] = self._role_of(id) if id in self._keys else None
        return self._roles[id]

    def _role_of(self, id: int) -> Role | None:
        instruction, key = self._main[id], self._keys[id]
        if key not in self._values:
            return None
        if not fits(self._values[key], instruction.shape):
            return "misfit"
        return "pinned" if self._pin_views or is_computed(instruction) else "view"

    def _with_role(self, role: Role) -> dict[int, Any]:
        return {i: k for i, k in self._keys.items() if self._role(i) == role}

    @cached_property
    def pinned(self) -> dict[int, Any]:
        """The keys of the instructions that the reference has a value for."""
        return self._with_role("pinned")

    @cached_property
    def misfits(self) -> dict[int, Any]:
        """The keys of the instructions whose value in the reference has other lens."""
        return self._with_role("misfit")

    def is_misfit(self, instruction: Instruction) -> bool:
        """Whether the reference's value of an instruction has other lens."""
        return self._role(instruction.id) == "misfit"

    def views(self) -> Iterator[tuple[Instruction, Value]]:
        """Views of the reference's values, each with the value that the reference has there."""
        for id, key in self._with_role("view").items():
            if not isinstance(self._main[id].op, Param):
                yield self._main[id], self._values[key]

    def wrong_results(self) -> bool:
        """Whether a result is a view that shows something else than the reference's value."""
        shown = {o.id for o in self.program.outputs}
        pairs = ((self[view], wanted) for view, wanted in self.views() if view.id in shown)
        return any(not np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    def _is_own(self, instruction: Instruction) -> bool:
        """Whether a value that the reference does not have is worth to be kept: it is no view."""
        return is_computed(instruction) and _can_be_kept(instruction)

    def __getitem__(self, instruction: Instruction) -> Value:
        """The expected value of an instruction."""
        known: dict[int, Value] = {}
        stack = [instruction]
        while stack:
            current = stack[-1]
            waiting = []
            if (value := self._kept(current)) is None:
                waiting = [i for i in self.reads(current) if i.id not in known]
                value = None if waiting else self._computed(current, known)
            if value is None:
                stack += waiting
            else:
                known[stack.pop().id] = value
        return known[instruction.id]

    def _kept(self, instruction: Instruction) -> Value | None:
        """The value without a computation; None for views and others that are not stored."""
        id = instruction.id
        if id in self._own:
            return self._values["own", id]
        if self._role(id) == "pinned":
            return self._values[self._keys[id]]
        if isinstance(instruction.op, Param):
            return self.exact.widened(self._inputs[instruction.parameter or ""])
        if id in self._joined:
            parts = self._joined[id]
            value = np.concatenate([self._values[key] for key in parts.keys], parts.axis)
            return self._added(instruction, value)
        return None

    def _computed(self, instruction: Instruction, known: Mapping[int, Value]) -> Value:
        """The value of an instruction in float64, kept for the next that asks for it."""
        value = self.exact.value(instruction, known)
        return self._added(instruction, value) if self._is_own(instruction) else value

    def _added(self, instruction: Instruction, value: Value) -> Value:
        self._values["own", instruction.id] = value
        self._own.add(instruction.id)
        return value

    def at(self, id: int) -> Instruction:
        """The instruction of the main module with an id."""
        return self._main[id]

    def recomputed(self, instruction: Instruction) -> Value:
        """The value of the instruction's operation in float64 on the expected values of its inputs."""
        maker = self.maker(instruction)
        return _part(instruction, maker, self.exact.value(maker, self.operands(maker)))

    def as_typed(self, instruction: Instruction) -> Value:
        """The same in the program's types, on inputs that are rounded to their types.

        Raises:
            EvaluationError: It failed.
        """
        maker = self.maker(instruction)
        return _part(instruction, maker, self.typed.value(maker, self.rounded(maker)))

    @staticmethod
    def maker(instruction: Instruction) -> Instruction:
        """The instruction that computes a value: for a part of a tuple, the one that makes the tuple."""
        is_part = isinstance(instruction.op, GetTupleElem) and is_computed(instruction.inputs[0])
        return instruction.inputs[0] if is_part else instruction

    def operands(self, instruction: Instruction) -> dict[int, Value]:
        """The expected values that an instruction reads, by id."""
        return {i.id: self[i] for i in self.reads(instruction)}

    def rounded(self, instruction: Instruction) -> dict[int, Value]:
        """The expected values that an instruction reads, rounded to the types that it reads them in."""
        return {i.id: as_typed(self[i], i.shape) for i in self.reads(instruction)}

    def is_out_of_range(self, instruction: Instruction) -> bool:
        """Whether an instruction reads a computed value that is beyond the range of its type."""
        reads = self.reads(self.maker(instruction))
        read = [i for i in reads if i.inputs and i.shape.type.is_float]
        return any(_largest(self[i]) > i.shape.type.format.limits[1] for i in read)

    def reads(self, instruction: Instruction) -> list[Instruction]:
        """The instructions of the main module whose values an instruction reads, each once."""
        if (found := self._reads.get(instruction.id)) is None:
            found = [self._main[id] for id in dict.fromkeys(uses(instruction)) if id in self._main]
            self._reads[instruction.id] = found
        return found

    def bound(self, instruction: Instruction) -> float:
        """The local error that rounding accounts for, since the last values of the reference."""
        if (known := self._bounds.get(instruction.id)) is None:
            known = max(map(rounding_bound, self.since(instruction)))
            self._bounds[instruction.id] = known
        return known

    def since(self, instruction: Instruction) -> list[Instruction]:
        """The instructions that ran since the last values of the reference, up to this one, in order."""
        if (ran := self._since.get(instruction.id)) is None:
            found = self._back_to_pinned(instruction)
            ran = sorted((i for i in found if not isinstance(i.op, Param)), key=lambda i: i.order)
            self._since[instruction.id] = ran
        return ran

    def _back_to_pinned(self, instruction: Instruction) -> Iterable[Instruction]:
        """An instruction and those that it depends on without a value of the reference in between."""
        found = {instruction.id: instruction}
        stack, pinned = [instruction], self.pinned
        while stack:
            current = stack.pop()
            maker = self.maker(current)
            for read in self.reads(current):
                if read.id not in found and (read.id not in pinned or read is maker):
                    found[read.id] = read
                    stack.append(read)
        return found.values()


def _part(instruction: Instruction, maker: Instruction, value: Value) -> Value:
    """The part of a maker's value that an instruction takes."""
    if instruction is maker:
        return value
    assert isinstance(instruction.op, GetTupleElem)
    return value[instruction.op.index]


def is_computed(instruction: Instruction) -> bool:
    """Whether an instruction computes a value of its own: it is no view, no constant as such, no input."""
    op = instruction.op
    return op.alias is None and not isinstance(op, Param | Return | Literal | Allocate)


def _can_be_kept(instruction: Instruction) -> bool:
    """Whether a copy of the value is as good: the last states of a network are read from the value itself."""
    return not isinstance(instruction.op, Recurrent)


def fits(value: Value, shape: Shape) -> bool:
    """Whether a value has the lens of a shape; lens that are ranges fit any of equal rank."""
    if isinstance(value, tuple):
        subs = shape.subs or ()
        return len(value) == len(subs) and all(map(fits, value, subs))
    if shape.subs is not None:
        return False
    return value.ndim == shape.ndim if shape.is_dynamic else value.shape == shape.array_lens


def _largest(value: Value) -> float:
    """The largest finite magnitude of a value."""
    if isinstance(value, tuple):
        return max(map(_largest, value), default=0.0)
    finite = np.isfinite(value)
    return float(np.max(np.abs(value), where=finite, initial=0.0))


def lens_of(value: Value) -> tuple[Any, ...]:
    """The lens of an array, or those of the arrays of a tuple."""
    return tuple(map(lens_of, value)) if isinstance(value, tuple) else value.shape
