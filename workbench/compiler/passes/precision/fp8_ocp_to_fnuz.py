"""Products of OCP's 8-bit floats, for devices that support only the fnuz types."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.convert import BitCast
from workbench.compiler.ops.convolve import Convolution
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.precision.quantized_products import Operand, operand
from workbench.compiler.rewrite import change, scalar_argument


@register
class Fp8OcpToFnuz(Pass):
    """Rewrite products of dequantized ``fp8e4m3fn`` in ``fp8e4m3fnuz``, for devices without the former.

    The bits stay and mean half the value, so scales are doubled. Codes that mean something else in the
    other type, -0 and NaN, are replaced.
    """

    name = "fp8_ocp_to_fnuz"
    rests = True
    apart = (
        "every target computes in both families of 8-bit floats. For devices with only the "
        "fnuz types, by `compile(passes=...)`."
    )

    def apply(self, program: Program) -> None:
        """Cast both operands of every product and convolution; each dequantized value is cast once."""
        for module in open_modules(program):
            for instruction in list(module):
                if isinstance(instruction.op, Dot | Convolution):
                    for one in _operands(instruction):
                        if program.find(one.source.id) is one.source:
                            cast_to_fnuz(one.source)


_TYPES = (DType.FP8E4M3FN, DType.FP8E4M3FNUZ)


def _operands(instruction: Instruction) -> list[Operand]:
    """The operands that are dequantized from ``fp8e4m3fn``, if both are from fp8."""
    pair = [operand(i, 3) for i in instruction.inputs]
    found = [o for o in pair if o is not None and _is_fp8(o)]
    if len(pair) != 2 or len(found) < 2:
        return []
    return [o for o in found if o.quantized.shape.type is DType.FP8E4M3FN]


def _is_fp8(one: Operand) -> bool:
    known = all(one.parameter(i).is_constant for i in (1, 2))
    return known and one.quantized.shape.type in _TYPES and one.quantized.shape.dims is None


@change
def cast_to_fnuz(dequantized: Instruction) -> None:
    """dequantizelinear(x, s, z) → dequantizelinear(bit_cast(x), 2 · s, bit_cast(z))"""
    module, one = dequantized.module, Operand(dequantized, ())
    codes = {bits: module.add_literal(_code(bits)) for bits in (0x80, 0x7F, 0xFF, 0x00)}
    value = _recoded(dequantized, one.quantized, codes)
    zero = _recoded(dequantized, one.parameter(2), codes)
    scale = one.parameter(1)
    two = module.add_literal(scalar_argument(2, scale.shape.type))
    two = _repeated(dequantized, two, scale)
    doubled = module.insert(dequantized, "mul", scale, two)
    scale, zero = (_laid(one, i, v) for i, v in ((1, doubled), (2, zero)))
    module.replace(dequantized, module.insert(dequantized, dequantized.op, value, scale, zero))


def _code(bits: int) -> Argument:
    code = np.array(bits, np.uint8).view(DType.FP8E4M3FNUZ.numpy)
    return Argument(Shape(DType.FP8E4M3FNUZ), code)


def _repeated(before: Instruction, value: Instruction, like: Instruction) -> Instruction:
    return before.module.insert(before, "multibroadcast", value, out_lens=like.shape.lens)


def _recoded(before: Instruction, x: Instruction, codes: dict[int, Instruction]) -> Instruction:
    """The bits of x as fnuz: -0 becomes 0, and both NaNs become the only NaN."""
    insert = before.module.insert
    value = insert(before, BitCast(target_type=DType.FP8E4M3FNUZ), x)
    nan, first, second, zero = (_repeated(before, c, x) for c in codes.values())
    value = insert(before, "where", insert(before, "equal", value, nan), zero, value)
    is_nan = [insert(before, "equal", value, c) for c in (first, second)]
    return insert(before, "where", insert(before, "logical_or", *is_nan), nan, value)


def _laid(one: Operand, index: int, value: Instruction) -> Instruction:
    """A new scale or zero point, broadcast like the old one."""
    repeated, steps = one.source.inputs[index], list[Instruction]()
    while repeated is not one.parameter(index):
        steps.append(repeated)
        repeated = repeated.inputs[0]
    for step in reversed(steps):
        value = one.source.module.insert(one.source, step.op, value)
    return value
