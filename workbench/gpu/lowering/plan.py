"""Plans: the steps of a run on a device: kernels, branches, loops, copies and host steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.collectives import Collective
from workbench.gpu.dialect import Dialect
from workbench.gpu.kernels.kernel import Launch, Place, Root

ALIGNMENT = 256
"""The alignment of kernel arguments' offsets, in bytes."""
MOST_LAUNCHES = 1 << 15
"""The most launches that are captured as a graph; a graph takes about a kilobyte for each."""


@dataclass(frozen=True)
class KernelStep:
    """One kernel, for an instruction of the main module."""

    instruction: Instruction
    launch: Launch


@dataclass(frozen=True)
class HostStep:
    """An instruction that the host computes: its inputs are copied to the host, its results back."""

    instruction: Instruction
    reads: tuple[tuple[Instruction, tuple[Place, ...]], ...]
    """The values that it reads, captures of its modules included; without places for those on the host."""
    writes: tuple[Place, ...]
    """The places of its results; empty if they stay on the host, as they do if their lengths are dynamic."""
    why: str = ""
    """Why no kernel computes it."""


@dataclass(frozen=True)
class CollectiveStep:
    """A collective: the replica's communicator exchanges a value with the other replicas."""

    instruction: Instruction
    source: Place
    """The replica's value, in row-major order."""
    target: Place
    """Its result."""


@dataclass(frozen=True)
class BranchStep:
    """An ``if``: the host reads the condition and runs the steps of one of two modules."""

    instruction: Instruction
    condition: Place
    branches: tuple[tuple[Step, ...], tuple[Step, ...]]
    """The steps for a condition that is not zero, and for one that is."""


@dataclass(frozen=True)
class LoopStep:
    """A ``loop``: the steps of its module, launched again for each iteration.

    What an iteration reads of the one before it and what it leaves to the next are two sets of memory;
    odd iterations swap them.
    """

    instruction: Instruction
    body: tuple[Step, ...]
    swapped: Mapping[Root, Root]
    """For odd iterations, the memory that they use instead, both ways."""
    count: int | Place
    """The most iterations; if it is not known, where the host reads it."""
    condition: Place | None
    """Where even iterations find whether they run at all; None if all do."""
    settled: bool
    """Whether the condition is the same for all iterations, so that the host reads it once."""
    room: int | None
    """Rows of the stacked results; None if there are none."""
    after: tuple[Step, ...] = ()
    """Copies of what is left to the results, where it lies in either memory."""

    @property
    def iterations(self) -> int | None:
        """The number of iterations; None if only a run knows it, or if the results have no room."""
        if not isinstance(self.count, int) or self.condition is not None:
            return None
        return self.count if self.room is None or self.count <= self.room else None


Step: TypeAlias = "KernelStep | HostStep | CollectiveStep | BranchStep | LoopStep"


@dataclass(frozen=True)
class Plan:
    """Steps in order, with the layout of their memory."""

    program: Program
    dialect: Dialect
    steps: tuple[Step, ...]
    literals: Mapping[Root, Array]
    """Constants in flat memory, to be uploaded."""
    parameters: Mapping[str, Place]
    """The places of parameters; those that are not tensors stay on the host."""
    outputs: tuple[tuple[Place, ...], ...]
    """For each output of the program, the places of its parts; empty if it is on the host."""
    values: Mapping[int, tuple[Place, ...]]
    """For each lowered instruction, by id, the places of its results; empty if they are on the host."""
    offsets: Mapping[Root, int]
    """Offsets of values and scratch memory in the arena, in bytes."""
    arena: int
    """The size of the arena in bytes."""
    own: tuple[Root, ...] = field(default=())
    """Results with their own memory, outside the arena."""

    @property
    def kernels(self) -> list[KernelStep]:
        """The steps that are kernels, those of branches and loops included, once each."""
        return [s for s in flat(self.steps) if isinstance(s, KernelStep)]

    @property
    def host(self) -> list[Instruction]:
        """Instructions that the host computes."""
        return [s.instruction for s in flat(self.steps) if isinstance(s, HostStep)]

    @cached_property
    def collectives(self) -> list[Instruction]:
        """The collectives among several replicas, those of modules that the host runs included."""
        found = [i for m in self.program.modules.values() for i in m]
        return [i for i in found if isinstance(i.op, Collective) and i.op.size > 1]

    @property
    def timed(self) -> list[tuple[Step, int]]:
        """The steps that a profile times, and how often a run takes each."""
        return [one for s in self.steps for one in apart(s)]

    @cached_property
    def launches(self) -> int | None:
        """The number of kernels that a run launches; None if the host or another replica takes part in it."""
        counts = [launches_of(s) for s in self.steps]
        return None if None in counts else sum(filter(None, counts))

    @property
    def is_fixed(self) -> bool:
        """Whether every run makes the same launches, and not too many for a graph."""
        return self.launches is not None and self.launches <= MOST_LAUNCHES


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each branch followed by the steps of both of its modules, a loop by those of its body."""
    for step in steps:
        yield step
        for inner in inner_steps(step):
            yield from flat(inner)


def inner_steps(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The steps of each module that a branch or a loop runs, and those after a loop."""
    if isinstance(step, BranchStep):
        return step.branches
    return (step.body, step.after) if isinstance(step, LoopStep) else ()


def with_runs(steps: Iterable[Step], runs: int | None = 1) -> Iterator[tuple[Step, int | None]]:
    """The steps as ``flat`` gives them, each with how often a run takes it; None if only the run knows."""
    for step in steps:
        yield step, runs
        if isinstance(step, BranchStep):
            for branch in step.branches:
                yield from with_runs(branch, None)
        elif isinstance(step, LoopStep):
            count = step.iterations
            yield from with_runs(step.body, None if None in (runs, count) else _times(runs, count))
            yield from with_runs(step.after, runs)


def _times(one: int | None, other: int | None) -> int:
    return (one or 0) * (other or 0)


def apart(step: Step, runs: int = 1) -> Iterator[tuple[Step, int]]:
    """The steps that are timed by themselves, and how often a run takes each.

    These are a loop's kernels, if its launches are known and few enough; else each step as a whole.
    """
    count = launches_of(step)
    if not isinstance(step, LoopStep) or count is None or count > MOST_LAUNCHES:
        yield step, runs
        return
    for inner in step.body:
        yield from apart(inner, runs * (step.iterations or 0))
    for inner in step.after:
        yield from apart(inner, runs)


def launches_of(step: Step) -> int | None:
    """The number of kernels that a step launches; None if the host or another replica takes part in it."""
    if isinstance(step, KernelStep):
        return 1
    if not isinstance(step, LoopStep) or step.iterations is None:
        return None
    inner = [launches_of(s) for s in step.body]
    return None if None in inner else step.iterations * sum(filter(None, inner)) + len(step.after)


def padded(bytes: int) -> int:
    """A size rounded up to the alignment, so that vector accesses stay inside."""
    return max(-(-bytes // ALIGNMENT), 1) * ALIGNMENT
