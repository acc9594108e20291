"""One instruction that is being written: its operands by name, and the nodes that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.tensors import CODES
from workbench.compiler.onnx.write.protos import takes
from workbench.compiler.onnx.write.registry import Named

if TYPE_CHECKING:
    from workbench.compiler.onnx.write.block import Block


class Call:
    """An instruction, or the operation inside one, with the names of its operands."""

    def __init__(
        self, block: Block, instruction: Instruction, op: Operation, operands: Sequence[Instruction]
    ) -> None:
        """The operation applied to these operands, whose nodes go to this block."""
        self.block = block
        self.instruction = instruction
        self.op: Any = op
        self.operands = operands
        self.values: list[Named] = [block.value(i) for i in operands]
        self.shapes = [i.shape for i in operands]
        """The shapes of the operands."""

    @property
    def inputs(self) -> list[str]:
        """The names of the operands, of which none is a tuple."""
        return [v if isinstance(v, str) else self._no_tuple() for v in self.values]

    @property
    def repeated(self) -> list[str]:
        """The names of the operands, without broadcasts that an elementwise operator does itself."""
        if not self.op.pointwise or self.op.name == "prelu":  # PRelu repeats only the slope
            return self.inputs
        chosen = narrowed(self.block, self.operands, [range(len(self.operands))], self.shape)
        return self.inputs if chosen is None else chosen

    def _no_tuple(self) -> str:
        raise self.refuse("an operand is a tuple, which ONNX does not have")

    def widen(self, type: DType) -> None:
        """Convert the operands of a type to float."""
        for at, shape in enumerate(self.shapes):
            if shape.type is type:
                self.values[at] = self.cast(self.inputs[at], type, DType.FLOAT)
                self.shapes[at] = shape.with_type(DType.FLOAT)

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.instruction.shape

    @property
    def type(self) -> DType:
        """The element type of the first operand."""
        return self.shapes[0].type

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules that the instruction calls."""
        return self.instruction.modules

    def refuse(self, reason: str) -> ModelError:
        """The error that this instruction cannot be written, to be raised."""
        return refusal(self.instruction, reason)

    # Nodes

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; gives its name. Attributes that are None are left out."""
        return self.several(op_type, 1, *inputs, **attributes)[0]

    def several(
        self, op_type: str, outputs: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node with several outputs; gives their names."""
        given = {k: v for k, v in attributes.items() if v is not None}
        return self.block.node(op_type, domain, list(inputs), outputs, given)

    def constant(self, value: Any, type: DType = DType.INT64) -> str:
        """The name of a constant: numbers, or an array as it is."""
        if isinstance(value, np.ndarray):
            return self.block.constant(cast("Array", value))
        return self.block.constant(np.array(value, type.numpy))

    def cast(self, value: str, found: DType, wanted: DType) -> str:
        """A value of a type in another one: itself, or a Cast of it."""
        if found is wanted:
            return value
        if wanted not in CODES:
            raise self.refuse(f"ONNX has no element type {wanted.type_name}")
        return self.add("Cast", value, to=CODES[wanted])

    def lengths(self, value: str, shape: Shape, start: int = 0, end: int | None = None) -> str:
        """The lengths of axes of a value as int64: a constant if they are known."""
        if shape.dims is None:
            return self.constant(list(shape.array_lens[start:end]))
        return self.add("Shape", value, start=start, end=end)

    def indices(self, at: int) -> str:
        """The operand of this index, which holds indices, as int32 or int64."""
        found = self.shapes[at].type
        is_index = found in {DType.INT32, DType.INT64}
        return self.inputs[at] if is_index else self.cast(self.inputs[at], found, DType.INT64)

    def whole(self, at: int) -> str:
        """The operand of this index, which holds lengths or axes, as int64."""
        return self.cast(self.inputs[at], self.shapes[at].type, DType.INT64)

    # Types

    def taken(self, op_type: str, first: DType, *choices: DType) -> DType:
        """The first of some types that an operator takes."""
        for type in (first, *choices):
            if takes(op_type, 0, type):
                return type
        raise self.refuse(f"ONNX's {op_type} does not take {first.type_name}")

    def within(self, op_type: str, *choices: DType, **attributes: Any) -> str:
        """One node of all operands, in their type or, if the operator does not take it, another."""
        own = self.type
        type = self.taken(op_type, own, *choices)
        inputs = [self.cast(x, own, type) for x in self.repeated]
        return self.cast(self.add(op_type, *inputs, **attributes), type, own)


def narrowed(
    block: Block, operands: Sequence[Instruction], used: Sequence[Iterable[int]], shape: Shape
) -> list[str] | None:
    """The names of operands before they were broadcast, if results still have the lens of a shape.

    Args:
        block: The block in which the operands have names.
        operands: The operands of elementwise work.
        used: For each result, the operands that it depends on.
        shape: The shape of a result.

    Returns:
        The names; None if a result would be smaller, or lens are not known.
    """
    values = [block.value(i) for i in operands]
    if (
        block.elementwise
        or shape.dims is not None
        or any(i.shape.dims is not None for i in operands)
    ):
        return None
    found = [
        block.narrow.get(i, (v, i.shape.array_lens))
        for i, v in zip(operands, values, strict=True)
        if isinstance(v, str)
    ]
    for indices in used:
        if np.broadcast_shapes(*(found[i][1] for i in indices)) != shape.array_lens:
            return None
    return [name for name, _ in found]


def refusal(instruction: Instruction, reason: str) -> ModelError:
    """The error that an instruction cannot be written."""
    sources = ", ".join(repr(s) for s in instruction.sources)
    of = f" of {sources}" if sources else ""
    place = f"@{instruction.id} {instruction.op} -> {instruction.shape}{of}"
    return ModelError(
        f"this program cannot be written as ONNX: {place}: {reason}; write the program before the "
        "pass that made this instruction, or save it in the workbench's own form with workbench.save"
    )
