"""The layout in which a program's results are handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.compat.migraphx.arguments import argument, of_value
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.results import Hook

_KEPT = {"layout", "contiguous", "@param", "@outline"}
"""Operations whose results keep their strides on ``ref``."""


def result_shapes(program: Program) -> list[Shape]:
    """The shapes of a program's results: row-major if it is compiled for ``ref``."""
    return [_row_major(o) if _is_for_ref(program) else o.shape for o in program.outputs]


def as_arguments(
    program: Program, values: list[Any], views: Mapping[int, Shape] | None = None
) -> list[argument]:
    """Values of a program's outputs as arguments on the host; ``views`` are better shapes for some, by id."""
    pairs = zip(program.outputs, result_shapes(program), values, strict=True)
    return [of_value((views or {}).get(o.id, shape), v) for o, shape, v in pairs]


class Views:
    """The shapes of results on ``ref`` that are views with lengths that only a run tells, by id.

    A run returns copies of them, so its hook has to look.
    """

    def __init__(self, program: Program) -> None:
        self.shapes: dict[int, Shape] = {}
        found = program.outputs if _is_for_ref(program) else ()
        self._wanted = {o.id for o in found if o.shape.dims is not None and o.op.alias is not None}

    @property
    def hook(self) -> Hook | None:
        """The hook for a run; None if no result needs it."""
        return self._hear if self._wanted else None

    def _hear(self, instruction: Instruction, value: Value, _: Sequence[Value]) -> None:
        if instruction.id not in self._wanted or not isinstance(value, np.ndarray):
            return
        strides = [s // value.itemsize for s in value.strides]
        if value.size and all(s >= 0 for s in strides):
            shape = Shape(instruction.shape.type, value.shape, strides)
            self.shapes[instruction.id] = shape


def _is_for_ref(program: Program) -> bool:
    return "ref" in program.targets


def _row_major(output: Instruction) -> Shape:
    shape = output.shape
    if shape.subs is not None or shape.dims is not None or output.op.name in _KEPT:
        return shape
    return shape if shape.standard else Shape(shape.type, shape.lens)
