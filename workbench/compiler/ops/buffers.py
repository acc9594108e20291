"""Operations that write their result into a given buffer, and the sources of buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.builtin import Identity
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Evaluate,
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.shape_rules import PLAIN, ShapeRules
from workbench.compiler.ops.elementary import Exp

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


class Written(Operation):
    """Base of operations that write their result into their last input."""

    family = Family.KERNEL
    alias = -1
    context_free = False

    def _expect_fits(self, result: Shape, buffer: Shape) -> Shape:
        expect_static(self, [result, buffer])
        if (result.type, result.lens) != (buffer.type, buffer.lens):
            raise ShapeError(f"{self.name}: a result {result} does not fit the buffer {buffer}")
        return result

    def _written(self, value: Array, buffer: Array) -> Array:
        """The buffer with the value in it."""
        if value.dtype != buffer.dtype:
            raise EvaluationError(
                f"{self.name}: a value of {value.dtype} for a buffer of {buffer.dtype}; expected equal "
                "types. float64 mode needs a program without buffers"
            )
        if not buffer.flags.writeable:
            raise EvaluationError(
                f"{self.name}: the buffer is read-only, as it is a constant or a read-only input; "
                "expected writable memory"
            )
        buffer[...] = value.reshape(buffer.shape)
        return buffer


@operation
class Write(Written):
    """The result of ``op`` on all inputs but the last, written into the last, a buffer."""

    name = "write"
    not_differentiable = "it writes into a buffer; differentiate the program before it is compiled"
    op: Operation = Identity()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the result of ``op``; the buffer has the same type and lens, but any strides."""
        return self.shape_by(PLAIN, inputs, modules)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape of the result of ``op`` by these rules."""
        if len(inputs) < 2:
            raise ShapeError(f"write: expected an operand and a buffer, found {len(inputs)} inputs")
        try:
            result = self.op.shape_by(rules, inputs[:-1], modules)
        except ShapeError as error:
            raise ShapeError(f"write: {error}") from error
        return self._expect_fits(result, inputs[-1])

    def compute(self, *inputs: Any) -> Any:
        """The buffer, written."""
        return self._written(np.asarray(self.op.compute(*inputs[:-1])), inputs[-1])

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """The buffer, written."""
        return self._written(np.asarray(self.op.compute_as(shape, *inputs[:-1])), inputs[-1])

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The buffer, written."""
        value = self.op.compute_modules(evaluate, modules, *inputs[:-1])
        return self._written(np.asarray(value), inputs[-1])

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """The same, with the attributes of ``op`` resolved."""
        return Write(self.op.normalized(inputs[:-1]))

    def widened(self) -> Operation:
        """The same, with ``op`` for float64."""
        return Write(self.op.widened())

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """The operations of ``op``."""
        return self.op.flops(inputs[:-1], output)

    def bytes(self, inputs: Sequence[Shape], output: Shape) -> int:
        """The bytes of ``op``; the buffer is written once."""
        return self.op.bytes(inputs[:-1], output)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """An exponential, and a plain copy of a transposed operand."""
        yield cls(Exp()), [grid(2, 3), grid(2, 3)]
        yield cls(), [grid(3, 2, type=np.float16).T, grid(2, 3, type=np.float16)]


@operation
class Copy(Written):
    """The first input, copied into the second, a buffer."""

    name = "copy"
    not_differentiable = "it writes into a buffer; differentiate the program before it is compiled"

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The buffer's shape."""
        expect_count(self, inputs, 2)
        self._expect_fits(inputs[0], inputs[1])
        return inputs[1]

    def compute(self, *inputs: Any) -> Any:
        """The buffer, written."""
        return self._written(inputs[0], inputs[1])

    def bytes(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Each element is read once and written once."""
        return inputs[0].bytes + output.bytes

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Into a buffer with another layout, and with the same."""
        yield cls(), [grid(2, 3), grid(3, 2).T]
        yield cls(), [grid(4, type=np.int8), grid(4, type=np.int8)]


@operation
class Preallocate(Operation):
    """A buffer of zeros that is allocated before a run; ``id`` says what it is for."""

    name = "preallocate"
    flat = True
    family = Family.MOVEMENT
    context_free = False
    shape: Shape = Shape.absent()
    id: str = ""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The given shape."""
        expect_count(self, inputs, 0)
        expect_static(self, [self.shape])
        return self.shape

    def compute(self, *inputs: Any) -> Any:
        """``numpy.zeros``."""
        return np.zeros(self.shape.lens, self.shape.type.numpy)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Scratch memory."""
        yield cls(Shape("int8", (64,)), "main:scratch"), []
