"""Elementwise operators, which also broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op

UNARY = {
    "Relu": "relu", "Rsqrt": "rsqrt", "Sigmoid": "sigmoid", "Tanh": "tanh",
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "Inv": "recip", "Log": "log", "Neg": "neg",
    "Reciprocal": "recip", "Rint": "nearbyint", "Round": "nearbyint", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan",
}  # fmt: skip
UNCHANGED = (
    "DeepCopy",
    "Identity",
    "PlaceholderWithDefault",
    "PreventGradient",
    "Snapshot",
    "StopGradient",
)
BINARY = {
    "Add": "add", "AddV2": "add", "Mul": "mul", "Pow": "pow", "SquaredDifference": "sqdiff",
    "Sub": "sub", "Div": "div", "RealDiv": "div", "TruncateDiv": "div", "TruncateMod": "fmod",
    "FloorMod": "mod", "Maximum": "max", "Minimum": "min", "Atan2": "atan2",
}  # fmt: skip
COMPARED = {"Equal": "equal", "Greater": "greater", "Less": "less"}
MANY = 5
"""The fewest summands that are concatenated and reduced instead of added."""


def each(node: NodeContext, inputs: Sequence[Instruction]) -> list[Instruction]:
    """Inputs that broadcast as in TensorFlow, images with channels first.

    Smaller ranks are raised first: their axes are the last ones in TensorFlow's layout.
    """
    rank = max(map(node.rank, inputs))
    if not node.is_nhwc or rank != 4:
        return list(inputs)
    return [node.to_nchw(_raised(node, value)) for value in inputs]


def _raised(node: NodeContext, value: Instruction) -> Instruction:
    rank = value.shape.ndim
    is_one = not value.shape.is_dynamic and value.shape.elements == 1
    return value if rank >= 4 or is_one else node.unsqueeze(value, *range(4 - rank))


@tf_op(*UNARY)
def unary(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One operation."""
    node.expect(inputs, 1)
    return node.to_nhwc(node.add(UNARY[node.op_type], node.to_nchw(inputs[0])))


@tf_op(*UNCHANGED)
def unchanged(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value itself; a constant remains usable as the kernel of a convolution."""
    node.expect(inputs, 1)
    laid_out = node.importer.laid_out.get(inputs[0])
    made = node.add("identity", node.to_nchw(laid_out or inputs[0]))
    result = node.to_nhwc(made)
    if laid_out is None:
        return result
    node.importer.laid_out[made] = result
    return made


@tf_op("IdentityN")
def unchanged_all(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The values themselves."""
    return [node.add("identity", value) for value in inputs]


@tf_op(*BINARY)
def binary(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One operation on two inputs."""
    node.expect(inputs, 2)
    return node.to_nhwc(node.common(BINARY[node.op_type], *each(node, inputs)))


@tf_op("FloorDiv")
def floor_div(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A quotient, rounded down: the dividend minus the remainder, divided."""
    node.expect(inputs, 2)
    a, b = each(node, inputs)
    if a.shape.type.is_float:
        return node.to_nhwc(node.add("floor", node.common("div", a, b)))
    whole = node.common("sub", a, node.common("mod", a, b))
    return node.to_nhwc(node.common("div", whole, b))


@tf_op("AddN")
def add_n(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The sum of inputs of equal lens."""
    node.expect(inputs, 1, len(inputs) or 1)
    if len(inputs) == 1:
        return inputs[0]
    values = [node.to_nchw(value) for value in inputs]
    if len(values) < MANY:
        result = values[0]
        for value in values[1:]:
            result = node.common("add", result, value)
        return node.to_nhwc(result)
    parts = [node.unsqueeze(value, 0) for value in values]
    total = node.add("reduce_sum", node.add("concat", *parts, axis=0), axes=(0,))
    return node.to_nhwc(node.add("squeeze", total, axes=(0,)))


@tf_op("BiasAdd", "BiasAddV1")
def bias_add(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A vector added along the channels."""
    node.expect(inputs, 2)
    x = node.to_nchw(inputs[0])
    is_last = node.is_nhwc and x.shape.ndim != 4
    axis = x.shape.ndim - 1 if is_last else 1
    bias = node.add("broadcast", inputs[1], axis=axis, out_lens=x.shape.lens)
    return node.to_nhwc(node.add("add", x, bias))


@tf_op("Relu6")
def relu6(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value clipped between 0 and 6."""
    node.expect(inputs, 1)
    x = node.to_nchw(inputs[0])
    low, high = (node.scalar(x.shape.type, bound) for bound in (0.0, 6.0))
    return node.to_nhwc(node.common("clip", x, low, high))


@tf_op("ClipByValue")
def clip_by_value(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value clipped between two bounds."""
    node.expect(inputs, 3)
    return node.to_nhwc(node.common("clip", *each(node, inputs)))


@tf_op("LeakyRelu", "Elu")
def with_alpha(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Activations with a slope, or a scale, below zero."""
    node.expect(inputs, 1)
    x = node.to_nchw(inputs[0])
    if node.op_type == "Elu":
        return node.to_nhwc(node.add("elu", x, alpha=1.0))
    return node.to_nhwc(node.add("leaky_relu", x, alpha=node.number("alpha", 0.2)))


@tf_op("Square")
def square(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value times itself."""
    node.expect(inputs, 1)
    x = node.to_nchw(inputs[0])
    return node.to_nhwc(node.add("mul", x, x))


@tf_op("Softplus", "Softsign", "Selu", "Expm1", "Log1p", "Erfc")
def composed(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Functions that are composed of a few operations."""
    node.expect(inputs, 1)
    x = node.to_nchw(inputs[0])
    one = node.scalar(x.shape.type, 1.0)
    match node.op_type:
        case "Softplus":  # max(x, 0) + log(1 + exp(-|x|)), which does not overflow
            rest = node.add("exp", node.add("neg", node.add("abs", x)))
            made = node.add(
                "add", node.add("relu", x), node.add("log", node.common("add", rest, one))
            )
        case "Softsign":
            made = node.add("div", x, node.common("add", node.add("abs", x), one))
        case "Selu":
            scale = node.scalar(x.shape.type, 1.0507009873554805)
            made = node.common("mul", node.add("elu", x, alpha=1.6732632423543772), scale)
        case "Expm1":
            made = node.common("sub", node.add("exp", x), one)
        case "Erfc":
            made = node.common("sub", one, node.add("erf", x))
        case _:
            made = node.add("log", node.common("add", x, one))
    return node.to_nhwc(made)


@tf_op("Cast")
def cast(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value in another type."""
    node.expect(inputs, 1)
    if node.flag("Truncate"):
        raise node.fail("attribute 'Truncate' is set; expected a cast that rounds")
    target = node.element_type("DstT")
    return node.add("convert", inputs[0], target_type=target)


# Comparisons


@tf_op(*COMPARED)
def compared(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A comparison, as bool."""
    node.expect(inputs, 2)
    made = node.common(COMPARED[node.op_type], *each(node, inputs))
    return node.to_nhwc(node.convert(made, DType.BOOL))


@tf_op("LessEqual", "GreaterEqual")
def or_equal(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A comparison, as bool; one that only an assertion reads is not computed."""
    node.expect(inputs, 2)
    if not node.is_needed:
        return node.to_nhwc(node.add("identity", *map(node.to_nchw, inputs)))
    values = each(node, inputs)
    strict = "less" if node.op_type == "LessEqual" else "greater"
    parts = [node.convert(node.common(op, *values), DType.BOOL) for op in (strict, "equal")]
    return node.to_nhwc(node.add("logical_or", *parts))


@tf_op("NotEqual")
def not_equal(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Whether elements differ."""
    node.expect(inputs, 2)
    same = node.convert(node.common("equal", *each(node, inputs)), DType.BOOL)
    return node.to_nhwc(node.add("not", same))


@tf_op("IsNan", "IsInf")
def special(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Whether elements are NaN, or infinite."""
    node.expect(inputs, 1)
    made = node.add(node.op_type.lower(), inputs[0])
    return node.convert(made, DType.BOOL)


@tf_op("LogicalAnd", "LogicalOr")
def logical(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A logical operation on two inputs."""
    node.expect(inputs, 2)
    op = "logical_and" if node.op_type == "LogicalAnd" else "logical_or"
    return node.to_nhwc(node.common(op, *each(node, inputs)))


@tf_op("LogicalNot")
def logical_not(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The logical negation."""
    node.expect(inputs, 1)
    return node.add("not", inputs[0])


@tf_op("Select", "SelectV2")
def select(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Elements of one value or of another; the old operator selects whole rows by a vector."""
    node.expect(inputs, 3)
    chosen, a, b = inputs
    if node.op_type == "Select" and node.rank(chosen) == 1 and node.rank(a) > 1:
        chosen = node.unsqueeze(chosen, *range(1, node.rank(a)))
    values = each(node, [chosen, a, b])
    return node.to_nhwc(node.common_lens("where", *values))
