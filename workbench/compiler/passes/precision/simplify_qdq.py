"""Fake quantization replaced by quantized operations, or removed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.movement import Concat, Contiguous, Pad
from workbench.compiler.ops.packing import PackFp4, UnpackFp4, UnpackInt4
from workbench.compiler.ops.quant import Dequantizelinear, Quantizelinear
from workbench.compiler.ops.reshape import Reshape, ReshapeLazy
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Transpose, Unsqueeze
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.precision.quantized_products import (
    all_zero,
    find_mx_quantizable,
    find_quantizable,
)
from workbench.compiler.passes.precision.shifted_products import find_shifted_product
from workbench.compiler.passes.tidy.propagate_constant import value_of
from workbench.compiler.rewrite import Decline, Rewriter, Rule, behind_broadcasts, op, rule, var

_DEQUANTIZED = op("dequantizelinear")


# Scales and zero points of 0


@rule(_DEQUANTIZED.when(lambda i: i.inputs[1].is_constant and all_zero(i.inputs[1])))
def find_zero_scale(b: Rewriter) -> Instruction | Decline:
    """dequantizelinear(x, 0) → 0"""
    if b.root.inputs[0].shape.type.is_float:
        return Decline("elements that are NaN or infinite do not become 0")
    return b("multibroadcast", b.scalar(0, b.root.shape.type), out_lens=b.root.shape.lens)


@rule(op("dequantizelinear", var("x"), var("scale"), var("zero").when(lambda i: i.is_constant)))
def find_zero_point(
    b: Rewriter, x: Instruction, scale: Instruction, zero: Instruction
) -> Instruction | Decline:
    """dequantizelinear(x, s, 0) → dequantizelinear(x, s)"""
    if not all_zero(zero):
        return Decline(f"the zero point #{zero.id} is not 0 everywhere")
    return b(b.root.op, x, scale)


# 4-bit integers

_SHAPES = (Unsqueeze, Broadcast, Multibroadcast, Contiguous, Transpose, Reshape, Convert)


def _quantizes_to_four_bits(instruction: Instruction) -> bool:
    return isinstance(instruction.op, Quantizelinear) and any(map(_is_unpacked, instruction.inputs))


def _is_unpacked(value: Instruction) -> bool:
    while isinstance(value.op, _SHAPES) and value.inputs:
        value = value.inputs[0]
    return isinstance(value.op, UnpackInt4)


@rule(_DEQUANTIZED.when(lambda i: _quantizes_to_four_bits(i.inputs[0])))
def find_int4_pair(b: Rewriter) -> Instruction | Decline:
    """dequantizelinear(q) → dequantizelinear(unpack_int4(pack_int4(q))), for q of 4 bits"""
    codes, *rest = b.root.inputs
    shape = codes.shape
    if shape.type not in (DType.INT8, DType.UINT8):
        return Decline(
            f"quantizelinear #{codes.id} is {shape.type.type_name}; expected int8 or uint8"
        )
    if not shape.lens or shape.lens[-1] % 2:
        return Decline(f"the last axis of quantizelinear #{codes.id}, {shape}, has odd length")
    return b(b.root.op, b("unpack_int4", b("pack_int4", codes)), *rest)


# Pairs that quantize and dequantize

_BETWEEN = (PackFp4, UnpackFp4, Broadcast, Slice, Reshape, ReshapeLazy, Pad)


def _quantized(instruction: Instruction) -> Instruction | None:
    """The ``quantizelinear`` that a ``dequantizelinear`` undoes, or None."""
    value = instruction.inputs[0]
    while isinstance(value.op, _BETWEEN) and len(value.inputs) == 1:
        value = value.inputs[0]
    return value if isinstance(value.op, Quantizelinear) else None


_BYTES = frozenset({DType.INT8, DType.UINT8})
_SCALES = frozenset({DType.HALF, DType.FLOAT, DType.DOUBLE})
"""Types of scales that hold a product with a byte to less than half a step."""

_PAIR = _DEQUANTIZED.when(lambda i: _quantized(i) is not None)


@rule(_PAIR, except_at=Edge)
def find_qdq_pair(b: Rewriter) -> Instruction | Decline:
    """dequantizelinear(quantizelinear(x, s, z), s, z) → x, up to a step of s, and within the type's range"""
    return _without_pair(b)


@rule(_PAIR)
def find_exact_qdq_pair(b: Rewriter) -> Instruction | Decline:
    """dequantizelinear(quantizelinear(x, s, z), s, z) → x, for x = dequantizelinear(i, s, z)"""
    if reason := _off_grid(_quantized(b.root)):
        return Decline(reason)
    return _without_pair(b)


def _off_grid(quantized: Instruction | None) -> str:
    """The reason why quantizing a value may change it; empty where it was quantized in the same way before.

    Of 8 bits, no rounding of a product by a finite scale takes a value to another step.
    """
    assert quantized is not None
    x, scale, *zero = quantized.inputs
    if not isinstance(x.op, Dequantizelinear) or x.inputs[0].shape.type not in _BYTES:
        return f"{x.op.name} #{x.id} may be between two steps, or out of range: a pair rounds and clips it"
    codes, *same = x.inputs
    if codes.shape.type is not quantized.shape.type or scale.shape.type not in _SCALES:
        return f"{x.op.name} #{x.id} was not quantized to {quantized.shape.type.type_name} before"
    number = _only_value(behind_broadcasts(scale))
    if number is None or not np.isfinite(number) or not _same_value(scale, same[0]):
        return f"the scales #{scale.id} and #{same[0].id} are not known to be one finite number"
    zeros = [_only_value(behind_broadcasts(z[0])) if z else 0 for z in (zero, same[1:])]
    if zeros[0] is None or zeros[0] != zeros[1]:
        return f"the zero points of #{quantized.id} and #{x.id} are not known to be equal"
    return ""


@rule(_PAIR, except_at=Edge)
def find_lone_qdq_pair(b: Rewriter) -> Instruction | Decline:
    """dequantizelinear(quantizelinear(x, s, z), s, z) → x, in range, unless another rule would restore it"""
    if _is_reused(b.root):
        return Decline(
            "its quantizelinear has another user: find_reused_quantization would restore it"
        )
    return _without_pair(b)


def _without_pair(b: Rewriter) -> Instruction | Decline:
    quantized = _quantized(b.root)
    assert quantized is not None
    x = quantized.inputs[0]
    if not b.root.users:
        return Decline("it is the result of its module")
    if (x.shape.type, x.shape.lens) != (b.root.shape.type, b.root.shape.lens):
        return Decline(f"the value that was quantized is {x.shape}")
    if reason := _other_parameters(quantized, b.root):
        return Decline(reason)
    if not _keeps_places(quantized, b.root.inputs[0]):
        return Decline("the instructions between the two move elements")
    return x


def _other_parameters(one: Instruction, other: Instruction) -> str:
    """The difference between the scales and zero points of a pair; empty if they are equal."""
    if len(one.inputs) != len(other.inputs):
        return "only one of the two has a zero point"
    for what, a, b in zip(
        ("scales", "zero points"), one.inputs[1:], other.inputs[1:], strict=False
    ):
        if not _same_value(a, b):
            return f"the {what} #{a.id} and #{b.id} are not known to be equal"
    return ""


def _same_value(a: Instruction, b: Instruction) -> bool:
    """Whether two values are identical: the same instruction, equal constants, or equal expressions."""
    if a is b:
        return True
    numbers = [_only_value(behind_broadcasts(i)) for i in (a, b)]
    if numbers[0] is not None and numbers[0] == numbers[1]:
        return True
    if a.literal is not None and b.literal is not None:
        return a.literal.same_as(b.literal)
    return (
        (a.op, len(a.inputs)) == (b.op, len(b.inputs))
        and bool(a.inputs)
        and not a.modules
        and a.op.context_free
        and all(map(_same_value, a.inputs, b.inputs))
    )


def _only_value(instruction: Instruction) -> float | None:
    """The value of all elements of a constant, or None if they differ."""
    value: Argument | None = value_of(instruction)
    if value is None or not value.shape.elements:
        return None
    array = value.numpy()
    first = array.flat[0]
    return float(first) if bool(np.all(array == first)) else None


def _keeps_places(start: Instruction, end: Instruction) -> bool:
    """Whether the instructions between two values keep every element in place.

    Elements are numbered from 1 and the numbers moved the same way; a pad adds 0.
    """
    steps: list[Instruction] = []
    while end is not start:
        steps.append(end)
        end = end.inputs[0]
    numbers = np.arange(1, start.shape.elements + 1) if steps else np.empty(0)
    places = numbers.reshape(start.shape.lens) if steps else numbers
    while steps:
        op = steps.pop().op
        if isinstance(op, PackFp4):
            if not steps or steps.pop().op != UnpackFp4(op.attributes()["axis"]):
                return False
        elif isinstance(op, UnpackFp4):
            return False
        else:
            places = (replace(op, value=0.0) if isinstance(op, Pad) else op).compute(places)
    return bool(np.array_equal(places.reshape(-1), numbers))


# Reuse of quantized values


def _is_shared(quantized: Instruction) -> bool:
    """Whether a quantized value has one user, and its source one user besides ``quantizelinear``."""
    return quantized.only_user is not None and len(quantized.inputs[0].users) == 2


@rule(op("quantizelinear").when(_is_shared), except_at=Edge)
def find_reused_quantization(b: Rewriter) -> Instruction | Decline:
    """f(x) beside quantizelinear(x) → f(dequantizelinear(quantizelinear(x))), within the type's range"""
    quantized, (x, *parameters) = b.root, b.root.inputs
    other = next(u for u in x.users if u is not quantized)
    if not _reads_floats(other):
        return Decline(
            f"the other user of the value, {other.op.name} #{other.id}, is not pointwise"
        )
    if other.module is not b.module or other.order < quantized.order:
        return Decline(f"{other.op.name} #{other.id} comes before the value is quantized")
    b.before = quantized.following
    again = b("dequantizelinear", quantized, *parameters)
    b.module.set_inputs(other, [again if i is x else i for i in other.inputs])
    return quantized


def _reads_floats(user: Instruction) -> bool:
    return user.op.pointwise and not isinstance(user.op, Quantizelinear)


def _is_reused(dequantized: Instruction) -> bool:
    """Whether ``find_reused_quantization`` would restore the pair at the same place."""
    quantized, user = dequantized.inputs[0], dequantized.only_user
    return (
        isinstance(quantized.op, Quantizelinear)
        and dequantized is quantized.following
        and quantized.inputs[1:] == dequantized.inputs[1:]
        and len(quantized.users) == 2
        and quantized.inputs[0].only_user is quantized
        and user is not None
        and user.module is quantized.module
        and _reads_floats(user)
    )


@rule(op("quantizelinear").when(lambda i: isinstance(i.inputs[0].op, Concat)))
def find_concat_quantization(b: Rewriter) -> Instruction | Decline:
    """quantizelinear(concat(x, y), s, z) → concat(quantizelinear(x), quantizelinear(y))"""
    joined, *parameters = b.root.inputs
    if joined.only_user is None:
        return Decline(f"concat #{joined.id}: its value has other users")
    if len(parameters) != 2:
        return Decline("it has no zero point")
    if not any(i.op.pointwise for i in joined.inputs):
        return Decline(f"concat #{joined.id}: no input is pointwise")
    axis = int(joined.op.attributes()["axis"]) % joined.shape.ndim
    parts: list[Instruction] = []
    start = 0
    for part in joined.inputs:
        end = start + part.shape.lens[axis]
        own = [b("slice", p, axes=(axis,), starts=(start,), ends=(end,)) for p in parameters]
        parts.append(b(b.root.op, part, *own))
        start = end
    return b(joined.op, *parts)


@register
class SimplifyQdq(RewritePass):
    """Rewrite products of fake-quantized values as products of integers or fp8; remove redundant pairs.

    Other pairs stay: they round to a step of the scale and clip to the range of the type, which is how
    quantized models hold their activations.

    Attributes:
        remove_qdq_only: Only remove pairs, so that everything is computed in float, whatever they clip.
        use_mx_quant: Also multiply values with block scales, as devices with MX types do.
        drop_fake_quantization: As MIGraphX does, remove all remaining pairs, whatever they round or clip,
            and let other users of a quantized value read the quantized one.
        multiply_bytes: Also multiply 8-bit integers without their zero points, and correct the sums, as pays
            where products of bytes are fast.
    """

    name = "simplify_qdq"
    rules = (
        find_zero_scale,
        find_qdq_pair,
        find_int4_pair,
        find_quantizable,
        find_mx_quantizable,
        find_shifted_product,
        find_exact_qdq_pair,
        find_lone_qdq_pair,
        find_reused_quantization,
        find_concat_quantization,
        find_zero_point,
    )
    remove_qdq_only: bool = False
    use_mx_quant: bool = False
    drop_fake_quantization: bool = False
    multiply_bytes: bool = False

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options select."""
        if self.remove_qdq_only:
            return (find_zero_scale, find_qdq_pair)
        left_out = {find_qdq_pair}
        left_out |= set() if self.use_mx_quant else {find_mx_quantizable}
        left_out |= set() if self.multiply_bytes else {find_shifted_product}
        dropping = {find_lone_qdq_pair, find_reused_quantization}
        left_out |= {find_exact_qdq_pair} if self.drop_fake_quantization else dropping
        return tuple(r for r in self.rules if r not in left_out)

    def apply(self, program: Program) -> None:
        """Apply the rules one by one, each until it no longer matches."""
        for one in self.active:
            self.drive(program, (one,))
