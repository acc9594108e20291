"""Values that are known at import: chains of literals, evaluated when a handler asks for one."""

from __future__ import annotations

import warnings
from typing import TypeAlias, cast

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.tensors import MAX_CONSTANT_BYTES, MAX_CONSTANTS_BYTES

Known: TypeAlias = "Array | tuple[Known, ...]"


class Constants:
    """Evaluates constant instructions, each once, and only when its value is needed."""

    def __init__(self) -> None:
        """Start without any values."""
        self._is_constant: dict[Instruction, bool] = {}
        self._values: dict[Instruction, Known] = {}
        self._made = 0
        self._owners: set[int] = set()

    def is_constant(self, instruction: Instruction) -> bool:
        """Whether the value depends only on literals."""
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
        """The elements of a constant; None if the instruction is not constant.

        Raises:
            ModelError: The constant, or one that it depends on, is too large to evaluate.
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
                self.count(self._values[current], str(current.op))
                stack.pop()
        found = self._values[instruction]
        return found if isinstance(found, np.ndarray) else None

    def count(self, value: Known, what: str) -> None:
        """Count the memory of a constant that the import made; views and the file's data are not counted.

        Raises:
            ModelError: The constants take too much memory in all.
        """
        if isinstance(value, tuple):
            for part in value:
                self.count(part, what)
            return
        owner = _owner(value)
        if owner.base is None and id(owner) not in self._owners:
            self._made += owner.nbytes
        self._owners.add(id(owner))
        if self._made > MAX_CONSTANTS_BYTES:
            raise ModelError(
                f"{what}: the constants of the model take {self._made:,} bytes; "
                f"expected at most {MAX_CONSTANTS_BYTES:,} in all"
            )

    def _evaluated(self, instruction: Instruction) -> Known:
        if instruction.literal is not None:
            known = instruction.literal.numpy()
            self._owners.add(id(_owner(known)))
            return known
        shape = instruction.shape
        if not shape.is_dynamic and shape.is_tensor:
            check_size(shape, str(instruction.op))
        op = instruction.op.normalized([i.shape for i in instruction.inputs])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op.compute(*[self._values[i] for i in instruction.inputs])
        return _shaped(result, shape)


def _shaped(result: Known, shape: Shape) -> Known:
    if isinstance(result, tuple) or not shape.is_tensor or shape.is_dynamic:
        return result
    return np.asarray(result).astype(shape.type.numpy, copy=False).reshape(shape.array_lens)


def _owner(array: Array) -> Array:
    """The array that owns an array's memory; one with a base belongs to the file."""
    while isinstance(array.base, np.ndarray):
        array = cast("Array", array.base)
    return array


def check_size(shape: Shape, what: str, limit: int = MAX_CONSTANT_BYTES) -> None:
    """Refuse a constant that is too large to make at import.

    Raises:
        ModelError: The constant is too large.
    """
    size = shape.elements * shape.type.size
    if size > limit:
        raise ModelError(
            f"{what}: a constant of {list(shape.lens)} would take {size:,} bytes; "
            f"expected at most {limit:,}"
        )
