"""Fake quantization to int8 or fp8: arguments are captured, and rounded by what was learnt of their range."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import ml_dtypes
import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.errors import OperationError
from workbench.compiler.ir import Instruction
from workbench.compiler.operation import Operation
from workbench.compiler.ops.builtin import Capture
from workbench.compiler.ops.contract import FP8
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.recurrent import LastState
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.data_types import names_of, type_text
from workbench.compiler.program import Program
from workbench.compiler.rewrite import change, scalar_argument

QUANTIZABLE = (DType.FLOAT, DType.DOUBLE, DType.HALF)
"""Types of the arguments that are captured."""
_TARGETS = (DType.INT8, DType.UINT8, *FP8)


@register
class CaptureArguments(Pass):
    """Put a numbered ``capture`` before every float argument of some operations, for calibration.

    Attributes:
        ins_names: Names of the operations whose arguments are captured.
    """

    name: ClassVar[str] = "capture_arguments"
    once: ClassVar[str] = "what is captured is captured again, under another number"
    ins_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep names as a tuple."""
        object.__setattr__(self, "ins_names", names_of(self.ins_names))

    def apply(self, program: Program) -> None:
        """Number arguments in the order of the instructions, called modules before their callers."""
        index = 0
        for module in open_modules(program):
            for instruction in list(module):
                if self._is_meant(instruction.op):
                    count = sum(map(_is_captured, instruction.inputs))
                    if count:
                        capture(instruction, index)
                    index += count

    def _is_meant(self, op: Operation) -> bool:
        """Whether arguments are captured; a state of a network is read off the network itself."""
        return op.name in self.ins_names and not isinstance(op, Convert | LastState)


def _is_captured(value: Instruction) -> bool:
    shape = value.shape
    return shape.type in QUANTIZABLE and (shape.dims is not None or shape.elements > 0)


@change
def capture(instruction: Instruction, index: int) -> None:
    """f(x) → f(capture(x))"""
    module, inputs = instruction.module, list(instruction.inputs)
    for i, value in enumerate(inputs):
        if _is_captured(value):
            inputs[i] = module.insert(instruction, Capture(ins_index=index), value)
            index += 1
    module.set_inputs(instruction, inputs)


@register
class Quantize8bits(Pass):
    """Round what was captured to 8 bits: ``quantizelinear`` and ``dequantizelinear`` in place of a capture.

    Attributes:
        precision: Name of the type to round to.
        quant_params: For each captured argument by number, what its values are multiplied by, and the
            zero point.
    """

    name: ClassVar[str] = "quantize_8bits"
    rests: ClassVar[bool] = True
    precision: str = "int8"
    quant_params: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        """Keep pairs of numbers as tuples; an OperationError where the type has no 8 bits."""
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
    info = cast("Any", ml_dtypes.finfo(type.numpy))
    with np.errstate(all="ignore"):
        step = np.float32(1) / np.float32(multiplier)
        least, largest = np.float32(info.eps), np.float32(info.max)
    return float(max(least, min(largest, step)))


def _repeated(before: Instruction, value: Instruction, like: Instruction) -> Instruction:
    insert = before.module.insert
    if like.shape.dims is not None:
        return insert(before, "multibroadcast", value, like)
    return insert(before, "multibroadcast", value, out_lens=like.shape.lens)
