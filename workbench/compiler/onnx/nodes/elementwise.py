"""Operators that map to one operation, and elementwise ones that ONNX broadcasts."""

from __future__ import annotations

from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import attribute_names, find
from workbench.compiler.onnx.broadcast import broadcasted_alike
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log", "Neg": "neg", "Not": "not",
    "Reciprocal": "recip", "Relu": "relu", "Round": "nearbyint", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
    "Identity": "identity", "Elu": "elu", "LeakyRelu": "leaky_relu", "LRN": "lrn",
}  # fmt: skip
SEVERAL = {"Gather": "gather", "GatherND": "gathernd"}

BINARY = {
    "Add": "add", "Div": "div", "Mul": "mul", "Sub": "sub", "PRelu": "prelu",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip
FOLDED = {"Sum": "add", "Max": "max", "Min": "min"}
COMPARED = {"Equal": "equal", "Greater": "greater", "Less": "less"}
NEGATED = {"GreaterOrEqual": "less", "LessOrEqual": "greater"}

_POW_ORDER = [
    DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32, DType.INT64,
    DType.UINT64, DType.BF16, DType.HALF, DType.FLOAT, DType.DOUBLE,
]  # fmt: skip


def _attributes(node: NodeContext, op: str) -> dict[str, Any]:
    """The node's attributes that the operation has under the same name."""
    found: dict[str, Any] = {}
    defaults = find(op)()
    for name in attribute_names(type(defaults)):
        if node.has(name):
            is_float = isinstance(getattr(defaults, name), float)
            found[name] = node.number(name) if is_float else node.integer(name)
    return found


@onnx_op(*UNARY)
def unary(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One operation, with the attributes of the same names."""
    node.expect(inputs, 1)
    op = UNARY[node.op_type]
    return node.add(op, inputs[0], **_attributes(node, op))


@onnx_op(*SEVERAL)
def several(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One operation on data and indices."""
    node.expect(inputs, 2)
    op = SEVERAL[node.op_type]
    return node.add(op, *inputs, **_attributes(node, op))


@onnx_op(*BINARY)
def binary(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One operation on two broadcast inputs; before opset 7, on an explicit axis."""
    node.expect(inputs, 2)
    return node.common(BINARY[node.op_type], inputs[0], _placed(node, *inputs))


def _placed(node: NodeContext, a: Instruction, b: Instruction) -> Instruction:
    """The second input, placed along the axes of the first that the node names, as before opset 7."""
    axis = _explicit_axis(node, a, b)
    if axis is None:
        return b
    if a.shape.is_dynamic or b.shape.is_dynamic:
        raise node.fail("attribute 'axis' needs inputs with fixed dimensions")
    axis = node.axis(axis, a.shape.ndim)
    if 1 not in node.lens(b):
        return node.broadcast(b, axis, node.lens(a))
    after = a.shape.ndim - axis - b.shape.ndim  # its lens may differ from the first input's
    return node.unsqueeze(b, *range(b.shape.ndim, b.shape.ndim + after)) if after > 0 else b


def _explicit_axis(node: NodeContext, a: Instruction, b: Instruction) -> int | None:
    """The axis of the first input where the second is placed, if the node says so."""
    if node.flag("broadcast") and node.has("axis"):
        return node.integer("axis")
    if node.op_type != "PRelu" or node.version >= 7 or a.shape.is_dynamic or a.shape.ndim < 3:
        return None
    return 1 if b.shape.ndim == 1 and node.lens(b) == node.lens(a)[1:2] else None


@onnx_op(*FOLDED)
def folded(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One operation on all inputs, from the left."""
    node.expect(inputs, 1, len(inputs))
    result = inputs[0]
    for given in inputs[1:]:
        result = node.common(FOLDED[node.op_type], result, given)
    return result


@onnx_op("Mean")
def mean(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The mean of the inputs; floats but bfloat16 are divided before they are added."""
    node.expect(inputs, 1, len(inputs))
    if len(inputs) == 1:
        return inputs[0]
    count = node.scalar(inputs[0].shape.type, len(inputs))
    if inputs[0].shape.type in {DType.HALF, DType.FLOAT, DType.DOUBLE}:
        result = node.common("div", inputs[0], count)
        for given in inputs[1:]:
            result = node.common("add", result, node.common("div", given, count))
        return result
    result = inputs[0]
    for given in inputs[1:]:
        result = node.common("add", result, given)
    return node.common("div", result, count)


@onnx_op(*COMPARED)
def compared(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A comparison, as bool."""
    node.expect(inputs, 2)
    found = node.common(COMPARED[node.op_type], inputs[0], _placed(node, *inputs))
    return node.convert(found, DType.BOOL)


@onnx_op(*NEGATED)
def negated(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The negation of another comparison; any comparison with NaN is false."""
    node.expect(inputs, 2)
    floats = any(i.shape.type.is_float for i in inputs)
    if floats and not node.strict:
        beyond = {"less": "greater", "greater": "less"}[NEGATED[node.op_type]]
        above = node.convert(node.common(beyond, *inputs), DType.BOOL)
        same = node.convert(node.common("equal", *inputs), DType.BOOL)
        return node.add("logical_or", above, same)
    found = node.common(NEGATED[node.op_type], *inputs)
    return node.add("not", node.convert(found, DType.BOOL))


@onnx_op("Mod")
def mod(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The remainder with the sign of the divisor, or of the dividend with ``fmod``."""
    node.expect(inputs, 2)
    if not node.has("fmod") and any(i.shape.type.is_float for i in inputs):
        raise node.fail("floats without the attribute 'fmod'; expected fmod=1 for floats")
    return node.common("fmod" if node.flag("fmod") else "mod", *inputs)


@onnx_op("Pow")
def power(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A power in the higher of the two types, then in the type of the base."""
    node.expect(inputs, 2)
    base, exponent = inputs[0], _placed(node, *inputs)
    for given in inputs:
        if given.shape.type not in _POW_ORDER:
            raise node.fail(f"element type {given.shape.type.type_name}; expected a number")
    type = max(base.shape.type, exponent.shape.type, key=_POW_ORDER.index)
    result = node.common("pow", node.convert(base, type), node.convert(exponent, type))
    return node.convert(result, base.shape.type)


@onnx_op("Where")
def where(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A choice between two values."""
    node.expect(inputs, 3)
    return node.add("where", *broadcasted_alike(node.module, inputs))


@onnx_op("BiasAdd")
def bias_add(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Input plus bias plus skip."""
    node.expect(inputs, 3)
    x, bias, skip = inputs
    return node.common("add", node.common("add", x, bias), skip)


@onnx_op("Clip")
def clip(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A value clipped to bounds; the limits of its type by default."""
    node.expect(inputs, 1, 3)
    x = inputs[0]
    type = x.shape.type
    if not x.shape.is_tensor:
        raise node.fail(f"input {x.shape}; expected a tensor")
    low, high = type.format.limits
    if node.has("min") or node.has("max"):
        bounds = [
            node.scalar(type, node.number("min", low)), node.scalar(type, node.number("max", high)),
        ]  # fmt: skip
    else:
        given = [_bound(node, inputs, i) for i in (1, 2)]
        bounds = [
            node.scalar(type, limit) if found is None else found
            for found, limit in zip(given, (low, high), strict=True)
        ]
    return node.common("clip", x, *bounds)


def _bound(node: NodeContext, inputs: list[Instruction], index: int) -> Instruction | None:
    found = node.optional(inputs, index)
    return None if found is None or node.is_empty(found) else found


@onnx_op("IsInf")
def is_inf(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Whether a value is infinite, of either or of one sign."""
    node.expect(inputs, 1)
    x = inputs[0]
    negative, positive = node.flag("detect_negative", True), node.flag("detect_positive", True)
    if not negative and not positive:
        return node.multibroadcast(node.scalar(DType.BOOL, False), node.lens(x))
    found = node.add("isinf", x)
    if negative and positive:
        return found
    zero = node.multibroadcast(node.scalar(x.shape.type, 0), node.lens(x))
    sign = node.common("less" if negative else "greater", x, zero)
    return node.add("logical_and", node.convert(found, DType.BOOL), node.convert(sign, DType.BOOL))


@onnx_op("ImageScaler")
def image_scaler(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An image times a number, plus a number for each channel."""
    node.expect(inputs, 1)
    x = inputs[0]
    scale = node.scalar(x.shape.type, node.number("scale", 1.0))
    bias = node.vector(x.shape.type, node.numbers("bias"))
    if x.shape.is_dynamic:
        scaled = node.common("mul", x, scale)
    else:
        scaled = node.add("mul", x, node.add("scalar", scale, scalar_bcst_dims=x.shape.lens))
    return node.add("add", scaled, node.broadcast(bias, 1, node.lens(x)))
