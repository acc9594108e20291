"""Work spread over concurrent streams: its order, marks for streams and events, and conflicts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from workbench.compiler.ir.builtin import Return, Undefined
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.program import Program
from workbench.compiler.memory.liveness import reads
from workbench.compiler.ops.buffers import Preallocate, Write
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.ops.streams import SetStream
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import BACKEND
from workbench.compiler.passes.memory.streams import Streams
from workbench.compiler.rewrite import Decline, change

_LIGHT = 2
"""The largest weight of a branch that stays on the stream of its user."""

_Entry: TypeAlias = tuple[int, int, Instruction]


@dataclass(frozen=True)
class ScheduleModel:
    """The concurrency of a target, and the duration of its operations.

    Args:
        streams: The number of streams.
        weights: The weight of operations, by name.
        default: The weight of all other operations that compute something.
    """

    streams: int = 4
    weights: tuple[tuple[str, int], ...] = (
        ("convolution", 8),
        ("quant_convolution", 8),
        ("dot", 4),
        ("quant_dot", 4),
        ("pooling", 4),
    )
    default: int = 2

    def weight(self, instruction: Instruction) -> int:
        """The weight of an instruction: 0 for views, constants, parameters and allocations."""
        op = instruction.op
        if isinstance(op, Return):
            return 1
        free = isinstance(op, Allocate | Preallocate | Undefined)
        if free or op.family in {Family.VIEW, Family.PARAMETER}:
            return 0
        if instruction.is_constant or op.name.startswith("@"):
            return 0
        name = op.op.name if isinstance(op, Write) else op.name
        return dict(self.weights).get(name, self.default)


@register
class Schedule(Pass):
    """Order the work, spread it over streams, and mark waits and values that must not share memory.

    Args:
        model: The number of streams, and the weights of operations.
        enable: Whether to schedule at all.
    """

    name = "schedule"
    rests = True
    apart = BACKEND
    model: ScheduleModel = ScheduleModel()
    enable: bool = True

    def apply(self, program: Program) -> None:
        """Schedule each module."""
        for module in open_modules(program) if self.enable else ():
            last = module.last
            if last is None:
                continue
            if any(isinstance(i.op, SetStream) for i in module):
                _leave(last)
            else:
                self._schedule(module, last)

    def _schedule(self, module: Module, last: Instruction) -> None:
        weights = {i: self.model.weight(i) for i in module}
        needs = {i: needed(i) for i in module}
        totals = _totals(needs, weights)
        ordered = _ordered(module, last, needs, weights, totals)
        if ordered != list(module):
            reorder(last, ordered)
        found = _assigned(last, needs, weights, totals, self.model.streams)
        streams = Streams(ordered, needs, found)
        if len(set(found.values())) > 1:
            conflicts = streams.conflicts()
            for instruction in ordered:
                if instruction in found:
                    mark(instruction, streams)
            for instruction, others in conflicts.items():
                keep_apart(instruction, others)


def needed(instruction: Instruction) -> list[Instruction]:
    """The operands of an instruction in its own module."""
    return [i for i in reads(instruction) if i.module is instruction.module]


def _totals(
    needs: dict[Instruction, list[Instruction]], weights: dict[Instruction, int]
) -> dict[Instruction, int]:
    """The weight of each instruction and of all its producers; a value that is read twice counts twice."""
    totals: dict[Instruction, int] = {}
    for instruction, read in needs.items():
        totals[instruction] = weights[instruction] + sum(totals[i] for i in read)
    return totals


# The order of the list


def _ordered(
    module: Module,
    last: Instruction,
    needs: dict[Instruction, list[Instruction]],
    weights: dict[Instruction, int],
    totals: dict[Instruction, int],
) -> list[Instruction]:
    """Instructions in an order that puts heavy work early, built from the last one backwards."""
    step = totals[last] // (len(module) + 1) + 1
    waiting = dict.fromkeys(module, 0)
    for read in needs.values():
        for i in dict.fromkeys(read):
            waiting[i] += 1

    def entry(instruction: Instruction) -> _Entry:
        late = 1 + max(0, totals[last] - totals[instruction]) // step
        return late * weights[instruction], -instruction.id, instruction

    loose = [i for i, count in waiting.items() if not count and i is not last]
    front = [i for i in loose if i.parameter is not None]
    found = [last]
    queue = [entry(i) for i in loose if i.parameter is None]
    heapq.heapify(queue)
    _release(last, needs, waiting, entry, queue)
    while queue:
        found.append(heapq.heappop(queue)[-1])
        _release(found[-1], needs, waiting, entry, queue)
    return [*front, *reversed(found)]


def _release(
    done: Instruction,
    needs: dict[Instruction, list[Instruction]],
    waiting: dict[Instruction, int],
    entry: Callable[[Instruction], _Entry],
    queue: list[_Entry],
) -> None:
    """Queue the operands of ``done`` whose users all have their place."""
    for i in dict.fromkeys(needs[done]):
        waiting[i] -= 1
        if not waiting[i]:
            heapq.heappush(queue, entry(i))


@change
def reorder(last: Instruction, ordered: Sequence[Instruction]) -> None:
    """a list of instructions → the same in an order in which heavy work comes early"""
    module = last.module
    current = next(iter(module), None)
    for instruction in ordered:
        if instruction is current:
            current = instruction.following
        else:
            module.move(instruction, current)


# Streams


def _assigned(
    last: Instruction,
    needs: dict[Instruction, list[Instruction]],
    weights: dict[Instruction, int],
    totals: dict[Instruction, int],
    count: int,
) -> dict[Instruction, int]:
    """The stream of each instruction that has a weight."""
    critical, sides = _partitions(last, needs, totals)
    found = {i: 0 for i in critical if weights[i]}
    loads = [0] * max(1, count - 1)
    for parts in reversed(sides):
        weighed = [(sum(weights[i] for i in part), len(part), part) for part in parts]
        for weight, _, part in sorted(weighed, key=lambda w: w[:2], reverse=True):
            stream = loads.index(min(loads))
            loads[stream] += weight
            found |= {i: min(stream + 1, count - 1) for i in part if weights[i]}
    return found


def _partitions(
    last: Instruction,
    needs: dict[Instruction, list[Instruction]],
    totals: dict[Instruction, int],
) -> tuple[list[Instruction], list[list[list[Instruction]]]]:
    """The critical path with its light branches; and, for each branching, the other branches."""
    critical: list[Instruction] = []
    sides: list[list[list[Instruction]]] = []
    seen: set[Instruction] = set()
    stack = [(last, critical)]
    while stack:
        instruction, part = stack.pop()
        if instruction in seen:
            continue
        seen.add(instruction)
        part.append(instruction)
        heaviest, *others = _by_total(needs, totals, instruction) or [instruction]
        branches: list[list[Instruction]] = []
        following = [(heaviest, part)]
        for other in others:
            own = part
            if totals[other] > _LIGHT:
                own = list[Instruction]()
                branches.append(own)
            following.append((other, own))
        sides.append(branches)
        stack += reversed(following)
    return critical, [s for s in sides if s]


def _by_total(
    needs: dict[Instruction, list[Instruction]], totals: dict[Instruction, int], of: Instruction
) -> list[Instruction]:
    """The operands of an instruction, the heaviest first."""
    read = dict.fromkeys(needs[of])
    return sorted(read, key=lambda i: (-totals[i], -len(i.inputs), i.id))


# Marks


@change
def _leave(last: Instruction) -> Decline:
    """a list of instructions → the same with streams"""
    return Decline(f"module {last.module.name!r} is already scheduled")


@change
def mark(instruction: Instruction, streams: Streams) -> None:
    """f(x) → set_stream, record_event and wait_event, and then f(x)"""
    module, stream = instruction.module, streams.found[instruction]
    if stream != streams.marked:
        module.insert(instruction, "set_stream", stream=stream)
        streams.marked = stream
    recorded = dict(streams.events)
    for awaited in streams.waits(instruction):
        event = streams.events[awaited]
        if awaited not in recorded:
            module.insert(awaited.following, "record_event", event=event)
        module.insert(instruction, "wait_event", event=event)


@change
def keep_apart(instruction: Instruction, others: Sequence[Instruction]) -> None:
    """f(x) → f(x), then identity(f(x), work that may run at the same time)"""
    instruction.module.insert(instruction.following, "identity", instruction, *others)
