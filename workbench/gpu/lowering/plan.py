"""Plans: the steps of a run on a device: kernels, copies and host steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.gpu.dialect import Dialect
from workbench.gpu.kernels.kernel import Launch, Place, Root

ALIGNMENT = 256
"""The alignment of kernel arguments' offsets, in bytes."""


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
class BranchStep:
    """An ``if``: the host reads the condition and runs the steps of one of two modules."""

    instruction: Instruction
    condition: Place
    branches: tuple[tuple[Step, ...], tuple[Step, ...]]
    """The steps for a condition that is not zero, and for one that is."""


Step: TypeAlias = "KernelStep | HostStep | BranchStep"


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
        """The steps that are kernels, those of branches included."""
        return [s for s in flat(self.steps) if isinstance(s, KernelStep)]

    @property
    def host(self) -> list[Instruction]:
        """Instructions that the host computes."""
        return [s.instruction for s in flat(self.steps) if isinstance(s, HostStep)]

    @property
    def is_fixed(self) -> bool:
        """Whether every run makes the same launches: there are no host steps and branches."""
        return not any(isinstance(s, HostStep | BranchStep) for s in self.steps)


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each branch followed by the steps of both of its modules."""
    for step in steps:
        yield step
        if isinstance(step, BranchStep):
            for branch in step.branches:
                yield from flat(branch)


def padded(bytes: int) -> int:
    """A size rounded up to the alignment, so that vector accesses stay inside."""
    return max(-(-bytes // ALIGNMENT), 1) * ALIGNMENT
