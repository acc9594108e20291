"""Convolutions and matrix products of dequantized values, rewritten as products of quantized values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.compiler.ir.dtypes import FP8, Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.convolve import Convolution
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.quant import Dequantizelinear
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.ops.view import Transpose
from workbench.compiler.passes.tidy.propagate_constant import value_of
from workbench.compiler.rewrite import Decline, Rewriter, behind_broadcasts, op, rule

_BETWEEN = (Broadcast, Multibroadcast, Contiguous, Transpose, Reshape, Convert)
_QUANTIZED = frozenset({DType.INT8, *FP8})
_SCALED = _QUANTIZED | {DType.UINT8, DType.FLOAT}


def all_zero(instruction: Instruction) -> bool:
    """Whether a constant is known to have elements that are all 0."""
    value = value_of(behind_broadcasts(instruction))
    return value is not None and value.shape.elements > 0 and not np.any(value.numpy())


@dataclass(frozen=True)
class Operand:
    """An input of a product: a dequantized value, and the steps that lay it out for the product.

    Attributes:
        source: The ``dequantizelinear``.
        between: The instructions between it and the product, in order of application.
    """

    source: Instruction
    between: tuple[Instruction, ...]

    @property
    def quantized(self) -> Instruction:
        """The quantized elements."""
        return self.source.inputs[0]

    def parameter(self, index: int) -> Instruction:
        """The scale (1) or the zero point (2), before it is broadcast."""
        return behind_broadcasts(self.source.inputs[index])

    def laid(self, b: Rewriter, value: Instruction) -> Instruction:
        """A value with the lens of the elements, laid out for the product without changing its type."""
        b.before = self.source
        for step in self.between:
            if not isinstance(step.op, Convert):
                value = b(step.op, value)
        b.before = b.root
        return value

    def lies_along(self, index: int, axis: int) -> bool:
        """Whether a scale or zero point, as the product reads it, varies along ``axis`` at most.

        Its elements are numbered, and the numbers laid out like the elements.
        """
        repeated, given = self.source.inputs[index], self.parameter(index)
        count = given.shape.elements
        if count == 1:
            return True
        steps: list[Instruction] = []
        while repeated is not given:
            steps.append(repeated)
            repeated = repeated.inputs[0]
        places = np.arange(count).reshape(given.shape.lens)
        for step in (*reversed(steps), *self.between):
            if not isinstance(step.op, Convert | Contiguous):
                places = step.op.compute(places)
        return _counts_along(places, axis, count)


def _counts_along(places: Array, axis: int, count: int) -> bool:
    """Whether an array is 0, 1, 2… along one axis and constant along the others."""
    if places.shape[axis] != count:
        return False
    line = np.arange(count).reshape([count if i == axis else 1 for i in range(places.ndim)])
    one = tuple(
        slice(None) if i == axis or s else slice(0, 1) for i, s in enumerate(places.strides)
    )
    return bool(np.all(places[one] == line))


def operand(value: Instruction, inputs: int) -> Operand | None:
    """The dequantized value behind an input of a product, if its instruction has ``inputs`` inputs."""
    between: list[Instruction] = []
    while isinstance(value.op, _BETWEEN) and len(value.inputs) == 1:
        between.append(value)
        value = value.inputs[0]
    if not isinstance(value.op, Dequantizelinear) or len(value.inputs) != inputs:
        return None
    return Operand(value, tuple(reversed(between)))


@rule(op("convolution|dot").when(lambda i: _operands(i, 3) is not None))
def find_quantizable(b: Rewriter) -> Instruction | Decline:
    """dot(dequantizelinear(a), dequantizelinear(b)) → dequantizelinear(quant_dot(a, b))"""
    pair = _operands(b.root, 3)
    assert pair is not None
    if reason := _not_quantizable(b.root, *pair):
        return Decline(reason)
    product = _Product(b, *pair)
    scale = b("mul", product.along_result(0, 1), product.along_result(1, 1))
    value = b("dequantizelinear", product.value, scale, product.zero_point())
    return _in_type_of_root(b, value)


def _operands(instruction: Instruction, inputs: int) -> tuple[Operand, Operand] | None:
    if len(instruction.inputs) != 2:
        return None
    first = operand(instruction.inputs[0], inputs)
    second = operand(instruction.inputs[1], inputs) if first is not None else None
    return (first, second) if first is not None and second is not None else None


def _not_quantizable(root: Instruction, first: Operand, second: Operand) -> str:
    """The reason why a product of dequantized values cannot be quantized; empty if it can."""
    for one in (first, second):
        type = one.quantized.shape.type
        if type not in _QUANTIZED:
            return f"{_named(one.quantized)} is {type.type_name}; only int8 and fp8 are multiplied"
        for index, what in ((1, "scale"), (2, "zero point")):
            if not one.parameter(index).is_constant:
                return f"the {what} {_named(one.parameter(index))} is not a constant"
    return _differing(root, first, second) or _misplaced(root, first, second)


def _differing(root: Instruction, first: Operand, second: Operand) -> str:
    """The mismatch between types of the operands, or of an operand and the result; empty if none."""
    a, b = first.quantized.shape.type, second.quantized.shape.type
    if a is not b:
        return f"the operands are {a.type_name} and {b.type_name}; expected one type"
    scales = [o.source.shape.type for o in (first, second)]
    if scales[0] is not scales[1]:
        return f"the scales are {scales[0].type_name} and {scales[1].type_name}; expected one type"
    found = root.shape.type
    if found is DType.DOUBLE and a.is_float:
        return f"products of {a.type_name} are summed in float, and the result is double_type"
    if scales[0] is not found and (scales[0], found) != (DType.FLOAT, DType.HALF):
        return (
            f"a value in {scales[0].type_name} is converted to {found.type_name} before the product"
        )
    return ""


def _misplaced(root: Instruction, first: Operand, second: Operand) -> str:
    """The reason why a scale or zero point does not factor out of the sum; empty if all do."""
    axes = (None, 0) if isinstance(root.op, Convolution) else (-2, -1)
    for one, axis in zip((first, second), axes, strict=True):
        for index, what in ((1, "scale"), (2, "zero point")):
            given = one.parameter(index)
            if axis is None and given.shape.elements != 1:
                return f"the {what} {_named(given)} of the input has several elements; expected one"
            if axis is not None and not one.lies_along(index, axis % root.shape.ndim):
                return f"the {what} {_named(given)} varies along an axis that the product sums over"
    return ""


def _named(instruction: Instruction) -> str:
    return f"{instruction.op.name} #{instruction.id}"


class _Product:
    """A product of quantized operands, with its scales and zero points."""

    def __init__(self, b: Rewriter, first: Operand, second: Operand) -> None:
        self.b = b
        self.operands = (first, second)
        self.inputs = [o.laid(b, o.quantized) for o in self.operands]
        self.value = self._multiply(*self.inputs)

    def _multiply(self, *inputs: Instruction) -> Instruction:
        op = self.b.root.op
        return self.b(f"quant_{op.name}", *inputs, **op.attributes())

    @property
    def _is_convolution(self) -> bool:
        return isinstance(self.b.root.op, Convolution)

    def along_result(self, which: int, index: int) -> Instruction:
        """A scale, broadcast to the lens of the product."""
        rank = self.value.shape.ndim
        axis = 1 if self._is_convolution else rank - 2 + which
        return _repeated(self.b, self.operands[which].parameter(index), self.value.shape.lens, axis)

    def _along_operand(self, which: int) -> Instruction:
        """A zero point, broadcast to the lens of its operand."""
        lens = self.inputs[which].shape.lens
        axis = 1 - which if self._is_convolution else len(lens) - 2 + which
        return _repeated(self.b, self.operands[which].parameter(2), lens, axis)

    def zero_point(self) -> Instruction:
        """The correction of a product for zero points: z·b + a·z - z·z."""
        total = self.b(
            "multibroadcast",
            self.b.scalar(0, self.value.shape.type),
            out_lens=self.value.shape.lens,
        )
        shifted = [not all_zero(o.parameter(2)) for o in self.operands]
        zeros = [self._along_operand(i) if s else None for i, s in enumerate(shifted)]
        if zeros[0] is not None:
            total = self.b("add", total, self._multiply(zeros[0], self.inputs[1]))
        if zeros[1] is not None:
            total = self.b("add", total, self._multiply(self.inputs[0], zeros[1]))
        if zeros[0] is not None and zeros[1] is not None:
            total = self.b("sub", total, self._multiply(zeros[0], zeros[1]))
        return total


def _repeated(b: Rewriter, value: Instruction, lens: Sequence[int], axis: int) -> Instruction:
    """A broadcast of one value to all elements, or of several along an axis."""
    shape = value.shape
    if shape.elements == 1:
        value = value if shape.ndim <= len(lens) else b.reshape(value, (1,))
        return b("multibroadcast", value, out_lens=tuple(lens))
    value = value if shape.ndim == 1 else b.reshape(value, (shape.elements,))
    return b("broadcast", value, axis=axis, out_lens=tuple(lens))


def _in_type_of_root(b: Rewriter, value: Instruction) -> Instruction:
    type = b.root.shape.type
    return value if value.shape.type is type else b("convert", value, target_type=type)


@rule(op("dot").when(lambda i: _operands(i, 2) is not None))
def find_mx_quantizable(b: Rewriter) -> Instruction | Decline:
    """dot(dequantizelinear(a, s), dequantizelinear(b, t)) → quant_dot(a, b, s, t), for scales of blocks"""
    pair = _operands(b.root, 2)
    assert pair is not None
    for one in pair:
        scale = one.parameter(1)
        if scale.shape.is_scalar or scale.shape.ndim == 1:
            return Decline(f"the scale {_named(scale)} has no blocks: it is one value or a vector")
    if reason := _not_scaled(b.root, *pair):
        return Decline(reason)
    elements = [o.laid(b, o.quantized) for o in pair]
    return _in_type_of_root(b, b("quant_dot", *elements, *[o.laid(b, _scale(o)) for o in pair]))


def _scale(of: Operand) -> Instruction:
    """The scales of blocks, in the lens of the elements."""
    given = of.parameter(1)
    return given if given.shape.lens == of.quantized.shape.lens else of.source.inputs[1]


def _not_scaled(root: Instruction, first: Operand, second: Operand) -> str:
    """The reason why a product with block scales cannot be one operation."""
    for one in (first, second):
        if one.quantized.shape.type not in _SCALED:
            type = one.quantized.shape.type.type_name
            return (
                f"{_named(one.quantized)} is {type}; only int8, uint8, float and fp8 are multiplied"
            )
        if one.source.shape.type is DType.DOUBLE:
            return f"the scale {_named(one.parameter(1))} is double_type; expected float at most"
    return _differing(root, first, second)
