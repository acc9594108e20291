"""The layout in which a program's results are handed out."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from workbench.compat.migraphx.arguments import argument, of_value
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

_KEPT = {"layout", "contiguous", "@param", "@outline"}
"""Operations whose results keep their strides on ``ref``."""


def result_shapes(program: Program) -> list[Shape]:
    """The shapes of a program's results: row-major if it is compiled for ``ref``."""
    return [_row_major(o) if _is_for_ref(program) else o.shape for o in program.outputs]


def as_arguments(program: Program, values: list[Any]) -> list[argument]:
    """Values of a program's outputs as arguments on the host."""
    pairs = zip(program.outputs, result_shapes(program), values, strict=True)
    if not _is_for_ref(program):
        return [of_value(shape, v) for _, shape, v in pairs]
    return [of_value(_of_view(o, shape, v), v) for o, shape, v in pairs]


def _is_for_ref(program: Program) -> bool:
    return "ref" in program.targets


def _row_major(output: Instruction) -> Shape:
    shape = output.shape
    if shape.subs is not None or shape.dims is not None or output.op.name in _KEPT:
        return shape
    return shape if shape.standard else Shape(shape.type, shape.lens)


def _of_view(output: Instruction, shape: Shape, value: Any) -> Shape:
    """The shape of a value: that of a view whose lengths only a run tells has the view's strides."""
    if shape.dims is None or output.op.alias is None or not isinstance(value, np.ndarray):
        return shape
    array = cast("Array", value)
    strides = [s // array.itemsize for s in array.strides]
    if not array.size or any(s < 0 for s in strides):
        return shape
    return Shape(shape.type, array.shape, strides)
