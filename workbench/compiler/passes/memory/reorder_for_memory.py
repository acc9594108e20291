"""Reordering of instructions so that less memory is alive at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from workbench.compiler.ir.builtin import Param, Return
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.memory.liveness import owner, reads
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change


@register
class ReorderForMemory(Pass):
    """Run next, of the instructions that can run, the one after which the fewest bytes are alive.

    A module keeps its order if that does not lower the most bytes that are alive at once. ``build.memory()``
    shows the bytes by instruction.
    """

    name = "reorder_for_memory"
    rests = True
    apart = "an order that the model's author chose is kept unless another is asked for"

    def apply(self, program: Program) -> None:
        """Reorder the instructions of each module."""
        for module in open_modules(program):
            found = [i for i in module if _moves(i)]
            if len(found) < 2 or any(i.shape.is_dynamic for i in found):
                continue
            order = _Order(module, found).best()
            if order != found and peak(module, order) < peak(module, found):
                rearrange(order[0], order)


@change
def rearrange(first: Instruction, order: Sequence[Instruction]) -> None:
    """instructions → the same, in an order in which fewer bytes are alive at once"""
    module, end = first.module, first.module.last
    kept = [end] if end is not None and isinstance(end.op, Return) else []
    module.arrange([*order, *kept])


def _moves(instruction: Instruction) -> bool:
    return instruction.literal is None and not isinstance(instruction.op, Param | Return)


def _owned(instruction: Instruction) -> bool:
    """Whether a value has memory of its own that a run can free."""
    return _moves(instruction) and owner(instruction) is instruction


def _memory(instruction: Instruction) -> list[Instruction]:
    """The values in whose memory an instruction reads, each once."""
    found = dict.fromkeys(owner(i) for i in reads(instruction) if i.module is instruction.module)
    return [o for o in found if _owned(o)]


def peak(module: Module, order: Sequence[Instruction]) -> int:
    """The most bytes that values of a module are alive with at once, in an order of its instructions."""
    kept = {owner(o) for o in module.outputs}
    last = {o: i for i in order for o in _memory(i) if o not in kept}
    ends: dict[Instruction, int] = {}
    for o, i in last.items():
        ends[i] = ends.get(i, 0) + o.shape.bytes
    alive = most = 0
    for i in order:
        alive += i.shape.bytes if _owned(i) else 0
        most = max(most, alive)
        alive -= ends.get(i, 0)
        alive -= i.shape.bytes if _owned(i) and i not in last and i not in kept else 0
    return most


class _Order:
    """A list schedule: the instructions that are ready, by the bytes that each adds."""

    def __init__(self, module: Module, instructions: Sequence[Instruction]) -> None:
        """Note for each instruction what it waits for, and for each value who reads its memory."""
        self.position = {i: k for k, i in enumerate(instructions)}
        self.kept = {owner(o) for o in module.outputs}
        self.memory = {i: _memory(i) for i in instructions}
        self.readers: dict[Instruction, set[Instruction]] = {}
        for i, read in self.memory.items():
            for o in read:
                self.readers.setdefault(o, set()).add(i)
        needs = {i: {n for n in reads(i) if n in self.position} for i in instructions}
        self.waits = {i: len(n) for i, n in needs.items()}
        self.followers: dict[Instruction, list[Instruction]] = {i: [] for i in instructions}
        for i, needed in needs.items():
            for n in needed:
                self.followers[n].append(i)
        self.instructions = list(instructions)
        self.ready: list[tuple[int, int]] = []

    def best(self) -> list[Instruction]:
        """The instructions in the new order."""
        for i, waits in self.waits.items():
            if not waits:
                self._offer(i)
        done: dict[Instruction, None] = {}
        while self.ready:
            i = self.instructions[heapq.heappop(self.ready)[1]]
            if i not in done:
                done[i] = None
                self._run(i, done)
        return list(done)

    def _run(self, instruction: Instruction, done: dict[Instruction, None]) -> None:
        for follower in self.followers[instruction]:
            self.waits[follower] -= 1
            if not self.waits[follower]:
                self._offer(follower)
        for o in self.memory[instruction]:
            left = self.readers[o]
            left.discard(instruction)
            if len(left) == 1:  # the last reader frees it, so it has become better
                (reader,) = left
                if not self.waits[reader] and reader not in done:
                    self._offer(reader)

    def _offer(self, instruction: Instruction) -> None:
        heapq.heappush(self.ready, (self._growth(instruction), self.position[instruction]))

    def _growth(self, instruction: Instruction) -> int:
        """The bytes that an instruction adds, less those that nothing else reads."""
        made = instruction.shape.bytes if _owned(instruction) else 0
        read = self.memory[instruction]
        freed = [o for o in read if self.readers[o] == {instruction} and o not in self.kept]
        return made - sum(o.shape.bytes for o in freed)
