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
"""Bytes that every kernel argument's offset is a multiple of."""


@dataclass(frozen=True)
class KernelStep:
    """One kernel, for an instruction of the main module."""

    instruction: Instruction
    launch: Launch


@dataclass(frozen=True)
class HostStep:
    """An instruction that no kernel computes: its inputs come to the host, its results go back."""

    instruction: Instruction
    reads: tuple[tuple[Instruction, tuple[Place, ...]], ...]
    """What it reads, captures of its modules included; without places if the host has it."""
    writes: tuple[Place, ...]
    """Where its results go; none if the host keeps them, as it does with lengths that only a run tells."""
    why: str = ""
    """Why no kernel computes it."""


@dataclass(frozen=True)
class BranchStep:
    """An ``if``: the host reads the condition and does the steps of one of two modules."""

    instruction: Instruction
    condition: Place
    branches: tuple[tuple[Step, ...], tuple[Step, ...]]
    """Steps where the condition is not zero, and where it is."""


Step: TypeAlias = "KernelStep | HostStep | BranchStep"


@dataclass(frozen=True)
class Plan:
    """Steps in order, and where their memory lies."""

    program: Program
    dialect: Dialect
    steps: tuple[Step, ...]
    literals: Mapping[Root, Array]
    """Constants in memory, flat, as they are uploaded."""
    parameters: Mapping[str, Place]
    outputs: tuple[tuple[Place, ...], ...]
    """Of each output of the program, the places of its parts; none if the host has it."""
    values: Mapping[int, tuple[Place, ...]]
    """Of each instruction that was lowered, by id: where its results lie; nowhere if the host has them."""
    offsets: Mapping[Root, int]
    """Bytes from the start of the arena, for values and scratch memory that share it."""
    arena: int
    """Bytes of the arena."""
    own: tuple[Root, ...] = field(default=())
    """Results that have memory of their own, apart from the arena."""

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
        """Whether every run launches the same: the host neither computes nor decides."""
        return not any(isinstance(s, HostStep | BranchStep) for s in self.steps)


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each branch followed by the steps of both of its modules."""
    for step in steps:
        yield step
        if isinstance(step, BranchStep):
            for branch in step.branches:
                yield from flat(branch)


def padded(bytes: int) -> int:
    """Bytes that memory takes: a multiple of the alignment, so that wide accesses stay inside."""
    return max(-(-bytes // ALIGNMENT), 1) * ALIGNMENT
