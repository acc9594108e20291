"""Results of instructions: checked against their shapes, and converted for callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Family, Value
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.buffers import Written
from workbench.compiler.ops.compare import Where
from workbench.compiler.run.failures import described, listed, place

Hook = Callable[[Instruction, Value, Sequence[Value]], "Value | None"]
"""Called after an instruction of the main module with the instruction, its value and its inputs' values.

The run continues with the value that it returns instead, if it returns one.
"""


def told(hook: Hook, instruction: Instruction, value: Value, inputs: Sequence[Value]) -> Value:
    """The value that a run continues with after a hook was called."""
    replaced = hook(instruction, value, inputs)
    return value if replaced is None else replaced


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


def as_results(
    values: Sequence[Value], outputs: Iterable[Instruction], inputs: Iterable[Value]
) -> list[Any]:
    """Values as a caller gets them, each in memory of its own, so that a caller may write to it.

    A result that the program writes into a buffer stays in that buffer, which the caller may have given.

    Args:
        values: The results of a run.
        outputs: The instructions that computed them.
        inputs: The values of the parameters, whose memory is the caller's already.
    """
    memory = _Memory(inputs)
    return [
        as_result(value if _is_written(output) else memory.own(value), output.shape)
        for value, output in zip(values, outputs, strict=True)
    ]


def _is_written(output: Instruction) -> bool:
    """Whether a value, or the value it is a view of, was written into a buffer."""
    while output.op.alias is not None and output.inputs:
        if isinstance(output.op, Written):
            return True
        output = output.inputs[output.op.alias]
    return False


class _Memory:
    """The memory that a caller has: that of inputs, and of the results until now."""

    def __init__(self, inputs: Iterable[Value]) -> None:
        self._inputs = {id(_owner(x)) for value in inputs for x in _arrays(value)}
        self._results: dict[int, list[Array]] = {}

    def own(self, value: Value) -> Value:
        """The value, or a copy where the caller has its memory, or all runs do: literals are read-only."""
        if isinstance(value, tuple):
            return tuple(map(self.own, value))
        owner = id(_owner(value))
        others = self._results.setdefault(owner, [])
        shared = owner in self._inputs or any(np.may_share_memory(value, x) for x in others)
        if shared or not value.flags.writeable:
            return value.copy(order="K")
        others.append(value)
        return value


def _owner(array: Array) -> Array:
    """The array that an array is a view of, however often."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _arrays(value: Value) -> Iterator[Array]:
    if isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)
    else:
        yield value


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
