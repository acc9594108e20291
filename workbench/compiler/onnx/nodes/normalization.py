"""Normalisations."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.macros import compositions
from workbench.compiler.onnx import builders
from workbench.compiler.onnx.context import NodeContext, Result, is_absent
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, dim_of


def _check_floats(node: NodeContext, inputs: list[Instruction]) -> None:
    for given in inputs:
        if given.shape.type not in builders.FLOATS:
            raise node.fail(f"element type {given.shape.type.type_name}; expected a float")


@onnx_op("BatchNormalization")
def batch_normalization(node: NodeContext, inputs: list[Instruction]) -> Result:
    """Batch normalisation with given statistics, or with those of the batch in training mode."""
    node.expect(inputs, 5)
    if not node.rank(inputs[0]):
        raise node.fail(f"input {inputs[0].shape} without dimensions; expected a batch")
    if node.flag("training_mode"):
        return _trained_batch_normalization(node, *inputs)
    return compositions.batchnorm(node, inputs[0], inputs[1:], node.number("epsilon", 1e-5))


def _trained_batch_normalization(
    node: NodeContext,
    x: Instruction,
    scale: Instruction,
    bias: Instruction,
    mean: Instruction,
    variance: Instruction,
) -> list[Instruction]:
    """The result, and the means and variances moved towards those of the batch."""
    axes = tuple(i for i in range(x.shape.ndim) if i != 1)
    batch_mean = node.add("reduce_mean", x, axes=axes)
    batch_variance = node.add("reduce_mean", node.common("sqdiff", x, batch_mean), axes=axes)
    found = [node.squeeze(v, *axes) for v in (batch_mean, batch_variance)]
    y = compositions.batchnorm(node, x, [scale, bias, *found], node.number("epsilon", 1e-5))
    momentum = node.number("momentum", 0.9)
    moved: list[Instruction] = []
    for old, new in zip((mean, variance), found, strict=True):
        kept, fresh = (node.scalar(old.shape.type, v) for v in (momentum, 1 - momentum))
        part = node.common("mul", node.convert(new, old.shape.type), fresh)
        moved.append(node.common("add", node.common("mul", old, kept), part))
    return [node.convert(y, x.shape.type), *moved]


@onnx_op("InstanceNormalization")
def instance_normalization(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Normalisation of each channel of each sample; half inputs are computed in float."""
    node.expect(inputs, 3)
    _check_floats(node, inputs)
    type = inputs[0].shape.type
    if node.strict and any(i.shape.type is not type for i in inputs):
        shapes = "; ".join(str(i.shape) for i in inputs)
        raise node.fail(f"inputs {shapes}; expected one element type")
    wide = DType.FLOAT if type is DType.HALF else type
    x, scale, bias = (node.convert(i, wide) for i in inputs)
    axes = tuple(range(2, x.shape.ndim))
    result, _, _ = builders.standardized(node, x, axes, node.number("epsilon", 1e-5))
    weight, offset = (_along_channels(node, v, x) for v in (scale, bias))
    result = node.add("add", node.add("mul", result, weight), offset)
    return node.convert(result, type)


def _along_channels(node: NodeContext, value: Instruction, x: Instruction) -> Instruction:
    """A value per channel broadcast to the lens of ``x``, which is an operand if these are dynamic."""
    if x.shape.is_dynamic and value.shape.ndim == 1 and not value.shape.is_dynamic:
        return node.add("broadcast", value, x, axis=1)
    return node.broadcast(value, 1, node.lens(x))


@onnx_op("LayerNormalization")
def layer_normalization(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Normalisation over the last axes, then a scale and an optional bias."""
    node.expect(inputs, 2, 3)
    _check_floats(node, [i for i in inputs if not is_absent(i)])
    x, scale = inputs[:2]
    bias, type, rank = node.optional(inputs, 2), x.shape.type, x.shape.ndim
    first = node.axis(node.integer("axis", -1), rank)
    if node.strict and rank < 2:
        raise node.fail(f"input {x.shape}; expected two dimensions or more")
    epsilon = builders.epsilon_of(type, node.number("epsilon", 1e-5))
    stashed = node.integer("stash_type", 1) == 1
    wide = node.convert(x, DType.FLOAT) if stashed and type is not DType.DOUBLE else x
    axes = tuple(range(first, rank))
    narrow = type if node.strict else None
    result, mean, inverse = builders.standardized(node, wide, axes, epsilon, narrow)
    result = node.convert(result, type)
    if first > 0 and scale.shape.ndim == 1 and rank - first == 1:
        scale = node.broadcast(scale, first, node.lens(x))
    if bias is not None and first > 0 and bias.shape.ndim == 1 and rank - first == 1:
        bias = node.broadcast(bias, first, node.lens(x))
    result = node.common("mul", result, scale)
    if bias is not None:
        result = node.common("add", result, bias)
    return [result, mean, inverse]


def _root_mean_square(
    node: NodeContext, x: Instruction, gamma: Instruction, axis: int
) -> list[Instruction]:
    type = x.shape.type
    is_wide = type is DType.DOUBLE and not node.strict
    wide = node.add("convert", x, target_type=type if is_wide else DType.FLOAT)
    axes = (axis,) if node.strict else tuple(range(axis, x.shape.ndim))
    squares = node.add("reduce_mean", node.common("mul", wide, wide), axes=axes)
    squares = node.add("convert", squares, target_type=type)
    epsilon = node.scalar(type, builders.epsilon_of(type, node.number("epsilon", 1e-5)))
    inverse = node.add("rsqrt", node.common("add", squares, epsilon))
    result = node.common("mul", node.common("mul", x, inverse), gamma)
    return [result, squares, inverse]


@onnx_op("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    node: NodeContext, inputs: list[Instruction]
) -> list[Instruction]:
    """The value over its root mean square."""
    node.expect(inputs, 2)
    x = inputs[0]
    axis = node.axis(node.integer("axis", -1), x.shape.ndim)
    return _root_mean_square(node, x, inputs[1], axis)


def _check_skipped(
    node: NodeContext, inputs: list[Instruction], ranks: tuple[int, ...], low: int
) -> None:
    """Refuse ranks and types that MIGraphX refuses; a skip has ``low`` to 3 dimensions."""
    x, skip, *rest = [i.shape for i in inputs if not is_absent(i)]
    fits = x.ndim in ranks and min(low, x.ndim) <= skip.ndim <= x.ndim
    if not fits or any(s.ndim != 1 or s.type is not x.type for s in rest):
        shapes = "; ".join(str(s) for s in (x, skip, *rest))
        raise node.fail(f"inputs {shapes}; expected 3 dimensions, then vectors of one type")


@onnx_op("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    node: NodeContext, inputs: list[Instruction]
) -> list[Instruction]:
    """The sum of two values and a bias over its root mean square."""
    node.expect(inputs, 3, 4)
    if node.strict:
        _check_skipped(node, inputs, (2, 3), 3)
    x, bias = node.common("add", inputs[0], inputs[1]), node.optional(inputs, 3)
    if bias is not None and node.strict:
        result = _root_mean_square(node, x, inputs[2], x.shape.ndim - 1)
        result[0] = node.common("add", result[0], bias)
        return [*result, node.common("add", x, bias)]
    if bias is not None:
        x = node.common("add", x, bias)
    return [*_root_mean_square(node, x, inputs[2], x.shape.ndim - 1), x]


@onnx_op("SkipLayerNormalization")
def skip_layer_normalization(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The sum of two values and a bias, normalised over the last axis."""
    node.expect(inputs, 3, 5)
    if node.strict:
        _check_skipped(node, inputs, (3,), 2)
    x = node.common("add", inputs[0], inputs[1])
    beta, bias = node.optional(inputs, 3), node.optional(inputs, 4)
    if bias is not None:
        x = node.common("add", x, bias)
    type, axis = x.shape.type, x.shape.ndim - 1
    mean = node.add("reduce_mean", x, axes=(axis,))
    variance = node.add("reduce_mean", node.common("sqdiff", x, mean), axes=(axis,))
    epsilon = node.scalar(type, builders.epsilon_of(type, node.number("epsilon", 1e-5)))
    inverse = node.add("rsqrt", node.common("add", variance, epsilon))
    result = node.common("mul", node.common("sub", x, mean), inverse)
    result = node.common("mul", result, inputs[2])
    if beta is not None:
        result = node.common("add", result, beta)
    return [result, mean, inverse, x]


@onnx_op("GroupNormalization", "GroupNorm")
def group_normalization(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Normalisation of groups of channels."""
    node.expect(inputs, 3)
    contrib = node.op_type == "GroupNorm"
    x, scale, bias = inputs
    groups = node.integer("groups" if contrib else "num_groups")
    last = contrib and node.flag("channels_last", True)
    rank, type = x.shape.ndim, x.shape.type
    if rank < 3:
        raise node.fail(f"input {x.shape}; expected a batch, channels and spatial axes")
    if last:
        x = node.transpose(x, 0, rank - 1, *range(1, rank - 1))
    lens = node.lens(x)
    if groups < 1 or lens[1] % groups:
        raise node.fail(f"{groups} groups of {lens[1]} channels; expected a divisor")
    scale, bias = (
        node.convert(_of_channels(node, v, lens[1], groups), type) for v in (scale, bias)
    )
    split = node.reshape(x, lens[0], groups, lens[1] // groups, *lens[2:])
    epsilon = builders.epsilon_of(type, node.number("epsilon", 1e-5))
    axes = tuple(range(2, rank + 1))
    result, _, _ = builders.standardized(node, split, axes, epsilon)
    result = node.reshape(result, *lens)
    weight, offset = (node.broadcast(v, 1, lens) for v in (scale, bias))
    result = node.add("add", node.add("mul", result, weight), offset)
    if last:
        result = node.transpose(result, 0, *range(2, rank), 1)
    if contrib and node.flag("activation"):
        result = node.add("mul", result, node.add("sigmoid", result))
    return result


def _of_channels(
    node: NodeContext, value: Instruction, channels: Length, groups: int
) -> Instruction:
    """A value per channel; before opset 21 there was one per group."""
    own = dims_of(value.shape)
    if node.version >= 21 or own == (dim_of(channels),):
        return value
    if node.strict or own != (dim_of(groups),):
        raise node.fail(f"scale or bias {value.shape}; expected {channels} elements")
    spread = node.multibroadcast(node.unsqueeze(value, 1), (groups, channels // groups))
    return node.reshape(spread, channels)


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value minus its mean, over its deviation."""
    node.expect(inputs, 1)
    axes, rank = node.integers("axes", (0, 2, 3)), inputs[0].shape.ndim
    if node.strict and len(axes) != rank - 1:
        raise node.fail(f"{len(axes)} axes for {rank} dimensions; expected all dimensions but one")
    return compositions.mean_variance_normalization(node, inputs[0], axes)
