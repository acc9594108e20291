"""One instruction that is being written: its operands, and the lines that are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import working_type
from workbench.compiler.stablehlo.write.lines import Lines, Tensor
from workbench.compiler.stablehlo.write.registry import Written

if TYPE_CHECKING:
    from workbench.compiler.stablehlo.write.block import Block


class Call:
    """An instruction, or the operation inside one, with the values of its operands."""

    def __init__(
        self, block: Block, instruction: Instruction, op: Operation, operands: Sequence[Instruction]
    ) -> None:
        """The operation applied to these operands, whose lines go to this block."""
        self.block = block
        self.to: Lines = block.lines
        self.instruction = instruction
        self.operands = operands
        self.values: list[Written] = [block.value(i) for i in operands]
        self.op: Any = op

    @property
    def inputs(self) -> list[Tensor]:
        """The operands, of which none is a tuple."""
        return [v if isinstance(v, Tensor) else self._no_tuple() for v in self.values]

    def _no_tuple(self) -> Tensor:
        raise self.refuse("an operand is a tuple")

    @property
    def x(self) -> Tensor:
        """The first operand."""
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.instruction.shape

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules that the instruction calls."""
        return self.instruction.modules

    @property
    def lens(self) -> tuple[int, ...]:
        """The lens of the result; of elementwise work, those of the operands."""
        return self.shape.array_lens

    @property
    def work(self) -> DType:
        """The type in which the arithmetic of the operation is done."""
        return DType.of(working_type(self.x.type.numpy, self.op.exact))

    def widened(self) -> list[Tensor]:
        """The operands in the type of the arithmetic."""
        return [self.to.convert(v, self.work) for v in self.inputs]

    def narrowed(self, value: Tensor) -> Tensor:
        """A value of the arithmetic in the type of the first operand."""
        return self.to.convert(value, self.x.type)

    def refuse(self, reason: str) -> ModelError:
        """The error that this instruction cannot be written, to be raised."""
        return refusal(self.instruction, reason)


def refusal(instruction: Instruction, reason: str) -> ModelError:
    """The error that an instruction cannot be written: its text, its source node and the reason."""
    source = f" (of {instruction.sources[-1]!r})" if instruction.sources else ""
    return ModelError(f"{instruction.op}{source} cannot be written as StableHLO: {reason}")
