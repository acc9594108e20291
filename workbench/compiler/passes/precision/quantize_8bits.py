"""Fake quantization of captured values to int8 or fp8, by their calibrated ranges."""

from __future__ import annotations

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.builtin import Capture
from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.precision.capture_arguments import QUANTIZABLE
from workbench.compiler.passes.precision.eliminate_data_type import type_text
from workbench.compiler.rewrite import change, scalar_argument

_TARGETS = (DType.INT8, DType.UINT8, *FP8)


@register
class Quantize8bits(Pass):
    """Replace each capture by ``quantizelinear`` and ``dequantizelinear``: rounding to 8 bits.

    Attributes:
        precision: Name of the type to round to.
        quant_params: The multiplier and the zero point of each captured argument, by its number.
    """

    name = "quantize_8bits"
    rests = True
    apart = "lower precision is the user's choice. Run by `wb.quantize`."
    precision: str = "int8"
    quant_params: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        """Keep pairs of numbers as tuples; raise OperationError unless the type has 8 bits."""
        pairs = tuple((float(scale), float(shift)) for scale, shift in self.quant_params)
        object.__setattr__(self, "quant_params", pairs)
        object.__setattr__(self, "precision", type_text(self.precision))
        if DType.of(self.precision) not in _TARGETS:
            known = ", ".join(t.type_name for t in _TARGETS)
            raise OperationError(
                f"quantize_8bits: precision {self.precision!r}; expected one of {known}"
            )

    def apply(self, program: Program) -> None:
        """Replace every capture of a float.

        Raises:
            OperationError: There are no parameters for a captured argument.
        """
        precision = DType.of(self.precision)
        for module in open_modules(program):
            for instruction in module:
                op = instruction.op
                if isinstance(op, Capture) and instruction.shape.type in QUANTIZABLE:
                    quantize(instruction, precision, *self._parameters(op.ins_index))

    def _parameters(self, index: int) -> tuple[float, float]:
        if not 0 <= index < len(self.quant_params):
            raise OperationError(
                f"quantize_8bits: capture[ins_index={index}], but quant_params has "
                f"{len(self.quant_params)} pairs; give one for each captured argument"
            )
        return self.quant_params[index]


@change
def quantize(instruction: Instruction, precision: DType, multiplier: float, shift: float) -> None:
    """capture(x) → dequantizelinear(quantizelinear(x, s, z), s, z), rounded"""
    module, (x, *_) = instruction.module, instruction.inputs
    zero = module.add_literal(scalar_argument(shift, precision))
    step = step_of(multiplier, x.shape.type)
    scale = module.add_literal(scalar_argument(step, x.shape.type))
    repeated = [_repeated(instruction, v, x) for v in (scale, zero)]
    codes = module.insert(instruction, "quantizelinear", x, *repeated)
    value = module.insert(instruction, "dequantizelinear", codes, *repeated)
    module.replace(instruction, value)


def step_of(multiplier: float, type: DType) -> float:
    """The step of quantization: the inverse of the multiplier, within the bounds of the value's type."""
    with np.errstate(all="ignore"):
        step = np.float32(1) / np.float32(multiplier)
        least, largest = np.float32(type.format.epsilon), np.float32(type.format.largest)
    return float(max(least, min(largest, step)))


def _repeated(before: Instruction, value: Instruction, like: Instruction) -> Instruction:
    insert = before.module.insert
    if like.shape.dims is not None:
        return insert(before, "multibroadcast", value, like)
    return insert(before, "multibroadcast", value, out_lens=like.shape.lens)
