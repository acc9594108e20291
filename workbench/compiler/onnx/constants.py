"""Values that are known at import: chains of literals, evaluated when a handler asks for one."""

from __future__ import annotations

import warnings
from typing import TypeAlias

import numpy as np

from workbench.compiler.dtypes import Array
from workbench.compiler.errors import ModelError
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.tensors import MAX_CONSTANT_BYTES
from workbench.compiler.shape import Shape

Known: TypeAlias = "Array | tuple[Known, ...]"


class Constants:
    """Evaluates constant instructions; each one once, and only when its value is asked for."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._is_constant: dict[Instruction, bool] = {}
        self._values: dict[Instruction, Known] = {}

    def is_constant(self, instruction: Instruction) -> bool:
        """Whether the value follows from literals alone."""
        stack = [instruction]
        while stack:
            current = stack[-1]
            if current in self._is_constant:
                stack.pop()
            elif current.literal is not None:
                self._is_constant[current] = True
            elif not current.inputs or not current.op.context_free or current.modules:
                self._is_constant[current] = False
            elif waiting := [i for i in current.inputs if i not in self._is_constant]:
                stack.extend(waiting)
            else:
                self._is_constant[current] = all(self._is_constant[i] for i in current.inputs)
        return self._is_constant[instruction]

    def value(self, instruction: Instruction) -> Array | None:
        """The elements of a constant, or None if it is none.

        Raises:
            ModelError: It, or something that it is made of, is too large to evaluate.
        """
        if instruction.literal is not None:
            return instruction.literal.numpy()
        if not self.is_constant(instruction):
            return None
        stack = [instruction]
        while stack:
            current = stack[-1]
            if current in self._values:
                stack.pop()
            elif waiting := [i for i in current.inputs if i not in self._values]:
                stack.extend(waiting)
            else:
                self._values[current] = self._evaluated(current)
                stack.pop()
        found = self._values[instruction]
        return found if isinstance(found, np.ndarray) else None

    def _evaluated(self, instruction: Instruction) -> Known:
        if instruction.literal is not None:
            return instruction.literal.numpy()
        shape = instruction.shape
        if not shape.is_dynamic and not shape.is_tuple:
            check_size(shape, str(instruction.op))
        op = instruction.op.normalized([i.shape for i in instruction.inputs])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op.compute(*[self._values[i] for i in instruction.inputs])
        return _shaped(result, shape)


def _shaped(result: Known, shape: Shape) -> Known:
    if isinstance(result, tuple) or shape.is_tuple or shape.is_dynamic:
        return result
    lens = shape.lens or (0,)
    return np.asarray(result).astype(shape.type.numpy, copy=False).reshape(lens)


def check_size(shape: Shape, what: str) -> None:
    """Refuse a constant that is too large to make at import.

    Raises:
        ModelError: It is.
    """
    size = shape.elements * shape.type.size
    if size > MAX_CONSTANT_BYTES:
        raise ModelError(
            f"{what}: a constant of {list(shape.lens)} would take {size:,} bytes; "
            f"expected at most {MAX_CONSTANT_BYTES:,}"
        )
