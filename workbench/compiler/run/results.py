"""Results of instructions: checked against their shapes, and converted for callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Family, Value
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.compare import Where
from workbench.compiler.run.failures import described, listed, place

Hook = Callable[[Instruction, Value, Sequence[Value]], None]
"""Called after an instruction of the main module with the instruction, its value and its inputs' values."""


def in_lens(value: Any, shape: Shape) -> Value:
    """A value as an array with its shape's lens: NumPy turns rank 0 into numbers."""
    if isinstance(value, tuple):
        return cast("Value", value)
    array: Array = np.asanyarray(value)
    if shape.dims is not None or array.shape == shape.lens or array.size != shape.elements:
        return array
    return array.reshape(shape.array_lens)


def check_lens(instruction: Instruction, value: Value, inputs: Sequence[Value]) -> None:
    """Check that a value's lens is within its shape, and that elementwise operands have equal lens.

    Raises:
        EvaluationError: It is not; the message names the instruction and the model's node.
    """
    shape = instruction.shape
    if not isinstance(value, np.ndarray) or not shape.is_tensor:
        return
    fits = value.shape == shape.lens
    if shape.dims is not None:
        fits = len(value.shape) == len(shape.dims) and all(
            d.min <= n <= d.max for d, n in zip(shape.dims, value.shape, strict=True)
        )
    pairs = list(zip(inputs, instruction.inputs, strict=True))
    lens = {_lens(x) for x, i in pairs if i.shape.dims is not None or i.shape.elements != 1}
    chosen = isinstance(instruction.op, Where) and _is_single(pairs[0][1].shape)
    if fits and (len(lens) < 2 or chosen or instruction.op.family is not Family.POINTWISE):
        return
    raise EvaluationError(
        f"{place(instruction)}: a value of {described(value)}; expected {shape}; "
        f"inputs were {listed(inputs)}"
    )


def _is_single(shape: Shape) -> bool:
    return shape.dims is None and shape.elements == 1


def _lens(value: Value) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else None


def as_result(value: Value, shape: Shape) -> Any:
    """A value in the form returned to callers: a sequence as a list, an optional as its value or None."""
    if not isinstance(value, tuple):
        return np.asarray(value)
    if not shape.kind:
        return value
    element = shape.subs[0] if shape.subs else Shape()
    values = [as_result(v, element) for v in value]
    if shape.kind == "sequence":
        return values
    return values[0] if values else None
