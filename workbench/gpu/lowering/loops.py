"""Lowering of ``loop``: the kernels of its module once, and what iterations hand on in two memories.

An iteration reads carried values in one memory and leaves those for the next one in another; odd iterations
swap the two. One more kernel, ``carry``, copies what the module does not compute in place, stores the
iteration's rows of the stacked results and counts the iterations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.ir.instruction import Instruction, captured
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.buffers import Copy, Write
from workbench.compiler.ops.control import Loop, ScanSlice
from workbench.compiler.run.constants import evaluate_constant, is_large
from workbench.gpu.kernels.carry import Carried, carry
from workbench.gpu.kernels.kernel import Launch, Place, Root, scheduled
from workbench.gpu.lowering.places import parts_of
from workbench.gpu.lowering.plan import HostStep, KernelStep, LoopStep, Step, flat, padded

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering


@dataclass
class _Memory:
    """The two memories of the values that iterations hand on."""

    owner: Instruction
    swapped: dict[Root, Root] = field(default_factory=dict[Root, Root])
    parts: int = 0

    def root(self, shape: Shape) -> Root:
        """New memory for a value of a shape."""
        self.parts += 1
        size = padded(shape.element_space * shape.type.size)
        return Root("value", self.owner.id, self.parts - 1, size)

    def pair(self, one: Root, other: Root) -> None:
        """Let odd iterations use each instead of the other."""
        self.swapped |= {one: other, other: one}


def loops(lowering: Lowering, instruction: Instruction) -> str:
    """Lower a loop to its steps; if the host has to run it, the reason, and nothing is lowered."""
    why = _refusal(lowering, instruction)
    if why:
        return why
    count, places, values = len(lowering.steps), dict(lowering.places), dict(lowering.values)
    made = _Lowered(lowering, instruction)
    made.build()
    inner = [s for s in flat(made.body_steps) if isinstance(s, HostStep)]
    if not inner and made.is_placed:
        return ""
    del lowering.steps[count:]
    lowering.places, lowering.values = places, values
    if not inner:
        return "what its module returns stays on the host"
    named = ", ".join(dict.fromkeys(s.instruction.name for s in inner))
    return f"its module {instruction.modules[0].name} needs the host for {named}: {inner[0].why}"


def _refusal(lowering: Lowering, instruction: Instruction) -> str:
    """The reason why a loop cannot be lowered, as far as it shows before; empty if there is none."""
    (body,) = instruction.modules
    shapes = [i.shape for i in body.parameters.values()]
    if not all(_is_plain(s) for s in (*shapes, *(o.shape for o in body.outputs))):
        return f"values of its module {body.name} have lengths that only a run knows"
    if any(not s.standard for s in shapes):
        return f"parameters of its module {body.name} are not row-major"
    carried = list(body.parameters.values())[2:]
    for parameter, result in zip(carried, body.outputs[1:], strict=False):
        if parameter.shape.lens != result.shape.lens:
            return f"{parameter.parameter} changes its lengths from iteration to iteration"
    read = [*instruction.inputs, *captured(body)]
    if any((i.id, 0) not in lowering.places for i in read):
        return "it reads values that are on the host"
    return ""


def _is_plain(shape: Shape) -> bool:
    return all(s.is_tensor and not s.is_dynamic for s in parts_of(shape)) and shape.subs is None


class _Lowered:
    """One loop being lowered."""

    def __init__(self, lowering: Lowering, instruction: Instruction) -> None:
        self.lowering = lowering
        self.instruction = instruction
        self.body: Module = instruction.modules[0]
        self.given = list(self.body.parameters.values())
        self.results = self.body.outputs
        self.memory = _Memory(instruction)
        assert isinstance(instruction.op, Loop)
        self.op = instruction.op
        self.is_placed = True
        self.body_steps: tuple[Step, ...] = ()
        self.ahead: dict[Instruction, Carried] = {}
        """Slices at the number of the iteration, which the kernel at the end of the one before reads."""
        self.late: dict[Instruction, list[Step]] = {}
        """The steps that read such a slice in the iteration itself."""
        self.varying: set[Instruction] = {*self.given}
        """What may differ from iteration to iteration."""
        self.count = _known_count(instruction)
        self.runs_on = _runs_on(instruction, self.results[0], self.given[1])
        if self.runs_on is False:
            self.count = 0
        self.carried = len(instruction.inputs) - 2
        self.scans = self.results[self.carried + 1 :]
        self.settled = self.results[0] is self.given[1]

    @property
    def has_condition(self) -> bool:
        """Whether the condition of an iteration is known only when it is to run."""
        return self.runs_on is None and self.count != 0

    def build(self) -> None:
        """Append the steps, and set the places of the loop's results."""
        lower, i = self.lowering, self.instruction
        number = self._number()
        handed = self._handed()
        stacked = self._stacked()
        body = self.body_steps = self._body(handed, stacked, number)
        if not self.is_placed:
            return
        self._begin(number, handed, stacked)
        condition = lower.place(self.given[1]) if self.has_condition else None
        count = lower.place(i.inputs[0]) if self.count is None else self.count
        room = self.op.max_iterations if self.scans else None
        left = [lower.place(p) for p in self.given[2:]]
        step = LoopStep(
            i, body, dict(self.memory.swapped), count, condition, self.settled, room,
        )  # fmt: skip
        places, after = self._left(step, left)
        lower.steps.append(replace(step, after=tuple(after)))
        for part, place in enumerate([*places, *stacked]):
            lower.places[i.id, part] = place

    # Before the first iteration

    def _number(self) -> tuple[Place, Place] | None:
        """The places of the iteration's number and of the next one's, if anything reads it."""
        lower, parameter = self.lowering, self.given[0]
        shape = parameter.shape.as_standard()
        if not (parameter.users or self.scans):
            lower.places[parameter.id, 0] = lower.place(self.instruction.inputs[0])
            return None
        here, following = self.memory.root(shape), self.memory.root(shape)
        self.memory.pair(here, following)
        place = Place(here, shape)
        lower.places[parameter.id, 0] = place
        return place, Place(following, shape)

    def _handed(self) -> list[tuple[Instruction, Instruction, Place]]:
        """Each parameter that an iteration hands on, its first value, and its memory."""
        lower, inputs = self.lowering, self.instruction.inputs
        first = 2 if not self.has_condition or self.settled else 1
        if first == 2:
            lower.places[self.given[1].id, 0] = lower.place(inputs[1])
        found: list[tuple[Instruction, Instruction, Place]] = []
        for parameter, value in zip(self.given[first:], inputs[first:], strict=True):
            place = Place(self.memory.root(parameter.shape), parameter.shape)
            lower.places[parameter.id, 0] = place
            found.append((parameter, value, place))
        return found

    def _begin(
        self,
        number: tuple[Place, Place] | None,
        handed: Sequence[tuple[Instruction, Instruction, Place]],
        stacked: Sequence[Place],
    ) -> None:
        """Append a kernel for the first values and the number 0; rows that may stay unwritten become 0."""
        copies = [Carried(value, self._source(value), place) for _, value, place in handed]
        if number is not None:
            copies.append(Carried(None, None, number[0]))
        if self.has_condition or self.count != self.op.max_iterations:
            copies += [Carried(None, None, place) for place in stacked]
        self._copy(self.lowering.steps, [*copies, *self.ahead.values()])

    def _copy(self, steps: list[Step], copies: Sequence[Carried]) -> None:
        some = [c for c in copies if c.target.shape.elements]
        if some:
            steps.append(self._step(carry(self.lowering.dialect, some, None)))

    def _source(self, value: Instruction) -> Place | None:
        return None if self.lowering.is_folded(value) else self.lowering.place(value)

    def _stacked(self) -> list[Place]:
        """The places of the stacked results."""
        shapes = parts_of(self.instruction.shape)[self.carried :]
        return [Place(self.memory.root(shape), shape) for shape in shapes]

    def _step(self, launch: Launch) -> KernelStep:
        (named,) = scheduled([launch], carry)
        return KernelStep(self.instruction, named)

    # An iteration

    def _body(
        self,
        handed: Sequence[tuple[Instruction, Instruction, Place]],
        stacked: Sequence[Place],
        number: tuple[Place, Place] | None,
    ) -> tuple[Step, ...]:
        lower = self.lowering
        outer, lower.steps = lower.steps, []
        try:
            for one in self.body:
                if one.parameter is not None:
                    lower.values[one.id] = tuple(lower.outputs(one))
                else:
                    self._walk(one, outer)
            if any((o.id, 0) not in lower.places for o in self.results):
                self.is_placed = False
                return tuple(lower.steps)
            self._settle()
            copies = [*self._handed_on(handed), *self._rows(stacked), *self.ahead.values()]
            counter = number if number is not None and self._counts else None
            if copies or counter is not None:
                lower.steps.append(self._step(carry(lower.dialect, copies, number)))
            return tuple(lower.steps)
        finally:
            lower.steps = outer

    def _walk(self, one: Instruction, before: list[Step]) -> None:
        """Lower an instruction of the module; before the loop if it is the same in all iterations."""
        lower = self.lowering
        if not self._varies(one):
            inner, lower.steps = lower.steps, before
            try:
                lower.walk(one)
            finally:
                lower.steps = inner
            return
        self.varying.add(one)
        count = len(lower.steps)
        lower.walk(one)
        if self._is_ahead(one):
            self.late[one] = lower.steps[count:]
            self.ahead[one] = self._slice(one)
            del lower.steps[count:]

    def _is_ahead(self, one: Instruction) -> bool:
        """Whether an instruction reads the iteration's slice of a value that iterations do not change."""
        is_slice = isinstance(one.op, ScanSlice) and one.inputs[1] is self.given[0]
        return is_slice and one.inputs[0] not in self.varying and bool(one.shape.elements)

    def _slice(self, one: Instruction) -> Carried:
        op = one.op.normalized([i.shape for i in one.inputs])
        assert isinstance(op, ScanSlice)
        data = one.inputs[0]
        return Carried(data, self._source(data), self.lowering.place(one), sliced=op)

    def _settle(self) -> None:
        """Let slices that are results be read when an iteration begins, as its last kernel copies them."""
        returned = {s.root for o in self.results if (s := self._source(o)) is not None}
        for one, copied in list(self.ahead.items()):
            if copied.target.root in returned or copied.source is None:
                del self.ahead[one]
                self.lowering.steps[:0] = self.late[one]

    def _varies(self, one: Instruction) -> bool:
        read = [*one.inputs, *(i for m in one.modules for i in captured(m))]
        changes = isinstance(one.op, Write | Copy)
        return changes or any(i in self.varying for i in read)

    @property
    def _counts(self) -> bool:
        return bool(self.given[0].users or self.scans)

    def _handed_on(
        self, handed: Sequence[tuple[Instruction, Instruction, Place]]
    ) -> Iterator[Carried]:
        """Copies of the values for the next iteration that are not computed where it reads them."""
        own = {i.id for i in self.varying}
        taken: set[Root] = set()
        for parameter, _, place in handed:
            value = self._result(parameter)
            source = self._source(value)
            if source == place:  # it stays as it is
                continue
            if source is not None and source.root not in taken and _is_whole(source, place, own):
                taken.add(source.root)
                self.memory.pair(place.root, source.root)
                continue
            target = Place(self.memory.root(place.shape), place.shape)
            self.memory.pair(place.root, target.root)
            if place.shape.elements:
                yield Carried(value, source, target)

    def _result(self, parameter: Instruction) -> Instruction:
        """The value of a parameter in the next iteration."""
        return self.results[self.given.index(parameter) - 1]

    def _rows(self, stacked: Sequence[Place]) -> Iterator[Carried]:
        backward = self.op.scan_output_directions
        for k, (value, place) in enumerate(zip(self.scans, stacked, strict=True)):
            limit: int | Place | None = None
            if k < len(backward) and backward[k]:
                most = self.op.max_iterations
                limit = self.lowering.place(self.instruction.inputs[0])
                limit = limit if self.count is None else min(self.count, most)
            if place.shape.elements:
                yield Carried(value, self._source(value), place, True, limit)

    # After the last iteration

    def _left(self, step: LoopStep, left: Sequence[Place]) -> tuple[list[Place], list[Step]]:
        """The places of the carried results, and the copies to them if they may be in either memory."""
        shapes = parts_of(self.instruction.shape)[: self.carried]
        if step.iterations is not None:
            odd = step.iterations % 2
            roots = [self.memory.swapped.get(p.root, p.root) if odd else p.root for p in left]
            return [Place(r, s) for r, s in zip(roots, shapes, strict=True)], []
        places = [Place(self.memory.root(s), s) for s in shapes]
        after: list[Step] = []
        given = zip(self.given[2:], left, places, strict=True)
        self._copy(after, [Carried(*one) for one in given])
        return places, after


def _is_whole(source: Place, place: Place, own: Collection[int]) -> bool:
    """Whether a value fills memory of the body's own just as the parameter fills its memory."""
    root = source.root
    alike = source.shape == place.shape and not source.offset and root.bytes == place.root.bytes
    return alike and root.kind == "value" and root.id in own


def _known_count(instruction: Instruction) -> int | None:
    """The trip count, if it is known."""
    given = instruction.inputs[0]
    if not given.constant or is_large(given):
        return None
    return max(int(np.asarray(evaluate_constant(given)).reshape(-1)[0]), 0)


def _runs_on(instruction: Instruction, result: Instruction, parameter: Instruction) -> bool | None:
    """Whether the condition surely holds in all iterations, or surely not in the first; None if unknown."""
    first = instruction.inputs[1]
    if not first.constant:
        return None
    if not np.any(evaluate_constant(first)):
        return False
    stays = result is parameter
    later = stays or (result.constant and bool(np.any(evaluate_constant(result))))
    return True if later else None
