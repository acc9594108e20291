"""Weights of products and convolutions packed into four bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation, names_where
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector, select, selectors_of
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.precision.truncate_float import stand_in
from workbench.compiler.passes.tidy.propagate_constant import value_of
from workbench.compiler.rewrite import Decline, change, scalar_argument


def is_packable(op: Operation | type[Operation]) -> bool:
    """Whether it is a product or convolution that is computed in the type of its operands."""
    return op.contraction is not None and not op.contraction.general


OPERATIONS = names_where(is_packable)
"""Names of the operations whose weights are packed."""

_STEPS = 15


@register
class QuantizeInt4(Pass):
    """Round the constant operands of products and convolutions to 16 values, two packed in a byte.

    Attributes:
        keep: Selectors of the instructions whose operands stay as they are.
    """

    name = "quantize_int4"
    rests = True
    apart = "lower precision is the user's choice. Run by `wb.quantize`."
    keep: tuple[Selector, ...] = ()

    def __post_init__(self) -> None:
        """Keep selectors as a tuple."""
        object.__setattr__(self, "keep", selectors_of(self.keep))

    def apply(self, program: Program) -> None:
        """Pack the weights of every product and convolution.

        Raises:
            OperationError: A selector chooses nothing.
        """
        kept = select(program, self.keep)
        for module in open_modules(program):
            for instruction in list(module):
                if instruction.id not in kept and is_packable(instruction.op):
                    pack_weights(instruction)


@dataclass(frozen=True)
class Weight:
    """A constant operand, and its rounding to 0..15: ``round(value / scale) + zero``."""

    operand: int
    value: Array
    scale: float
    zero: int


@change
def pack_weights(instruction: Instruction) -> Decline | None:
    """f(x, w) → f(x, dequantizelinear(unpack_int4(pack_int4(quantizelinear(w))))), rounded"""
    found = weights_of(instruction)
    if isinstance(found, str):
        return Decline(found)
    module, inputs = instruction.module, list(instruction.inputs)
    for weight in found:
        inputs[weight.operand] = _packed(instruction, weight)
    stand_in(instruction, module.insert(instruction, instruction.op, *inputs))
    return None


def weights_of(instruction: Instruction) -> list[Weight] | str:
    """The operands of a product that fit into four bits, or the reasons why none does."""
    found = [_weight(instruction, i) for i in range(len(instruction.inputs))]
    weights = [w for w in found if isinstance(w, Weight)]
    return weights or "; ".join(f"input {i} {reason}" for i, reason in enumerate(found))


def _weight(instruction: Instruction, operand: int) -> Weight | str:
    given = instruction.inputs[operand]
    shape = given.shape
    if not given.is_constant:
        return "is not a constant"
    if shape.dims is not None or shape.type not in (DType.FLOAT, DType.HALF) or not shape.elements:
        return f"is {shape}; expected float or half, and some elements"
    if shape.broadcasted or shape.lens[-1] % 2:
        return f"is {shape}; expected no broadcast, and a last axis of even length"
    value = value_of(given)
    if value is None:
        return "is too large to be evaluated at compile time"
    return _rounded(operand, value.numpy())


def _rounded(operand: int, value: Array) -> Weight | str:
    """The rounding to 16 values that span 0, the least and the largest element."""
    values: Any = value.astype(np.float32)
    if not np.isfinite(values).all():
        return "has elements that are NaN or infinite"
    low, high = np.float32(min(values.min(), 0)), np.float32(max(values.max(), 0))
    with np.errstate(over="ignore"):
        scale = np.float32((high - low) / np.float32(_STEPS))
    if not np.isfinite(scale):
        return f"has a range, {low:g} to {high:g}, that float cannot represent"
    zero = 0 if scale == 0 else int(np.floor(np.float64(-low / scale) + 0.5))
    return Weight(operand, value, float(scale), zero)


def _packed(instruction: Instruction, weight: Weight) -> Instruction:
    insert, given = instruction.module.insert, instruction.inputs[weight.operand]
    codes = insert(instruction, "quantizelinear", given, *_parameters(instruction, weight))
    packed = insert(instruction, "pack_int4", codes, axis=-1)
    codes = insert(instruction, "unpack_int4", packed, axis=-1)
    return insert(instruction, "dequantizelinear", codes, *_parameters(instruction, weight))


def _parameters(instruction: Instruction, weight: Weight) -> list[Instruction]:
    """Scale and zero point, broadcast to the lens of the weight."""
    module, lens = instruction.module, instruction.inputs[weight.operand].shape.lens
    made: list[Instruction] = []
    for value, type in ((weight.scale, instruction.shape.type), (weight.zero, DType.UINT8)):
        literal = module.add_literal(scalar_argument(value, type))
        made.append(module.insert(instruction, "multibroadcast", literal, out_lens=lens))
    return made
