"""Which operations have kernels of their own kind; all others are computed element by element."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.kernels.kernel import Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

Schedule: TypeAlias = "Callable[[Lowering, Instruction], list[Launch] | None]"
"""The kernels of an instruction; None where it is not of the kind that the schedule is for."""

_SCHEDULES: dict[str, Schedule] = {}
_ROOMS: tuple[str, ...] = (
    "contraction", "convolution", "groups", "random", "reduce", "scan", "scatter", "topk",
)  # fmt: skip
"""The modules of this package that declare schedules."""


def schedule(*names: str) -> Callable[[Schedule], Schedule]:
    """Declare the kernels of these operations."""

    def declare(function: Schedule) -> Schedule:
        for name in names:
            _SCHEDULES[name] = function
        return function

    return declare


@cache
def schedules() -> Mapping[str, Schedule]:
    """What is declared, by the operation's name."""
    for room in _ROOMS:
        importlib.import_module(f"workbench.gpu.kernels.{room}")
    return _SCHEDULES


def schedule_of(instruction: Instruction) -> Schedule | None:
    """How the kernels of an instruction are made, where not element by element."""
    return schedules().get(instruction.name)
