"""Operators that make values out of attributes, shapes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workbench.compiler.argument import Argument
from workbench.compiler.dtypes import Array, DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.shape import Shape


@onnx_op("Constant")
def constant(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A literal, given in one of several attributes."""
    node.expect(inputs, 0)
    names = [a.name for a in node.node.attribute if a.name.startswith(("value", "sparse_value"))]
    if len(names) != 1:
        raise node.fail(f"attributes {names}; expected exactly one value")
    match names[0]:
        case "value":
            return node.literal(node.tensor("value"))
        case "value_float":
            return node.scalar(DType.FLOAT, node.number("value_float"))
        case "value_floats":
            return _list(node, DType.FLOAT, node.numbers("value_floats"))
        case "value_int":
            return node.scalar(DType.INT64, node.integer("value_int"))
        case "value_ints":
            return _list(node, DType.INT64, node.integers("value_ints"))
        case "sparse_value":
            return node.literal(node.sparse_tensor("sparse_value"))
        case name:
            raise node.fail(f"attribute {name!r}: text values are not supported")


def _list(node: NodeContext, type: DType, values: Sequence[float]) -> Instruction:
    array = np.array(values, type.numpy)
    return node.literal(array if array.size else Argument(Shape(type), array))


@onnx_op("ConstantFill")
def constant_fill(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A literal of equal elements; its lens are an attribute or a constant input."""
    if node.has("extra_shape"):
        raise node.fail("attribute 'extra_shape' is not supported")
    type = node.element_type("dtype", DType.FLOAT)
    if node.flag("input_as_shape"):
        node.expect(inputs, 1)
        lens = node.constant_ints(inputs[0], "the shape")
    else:
        lens = node.integers("shape")
    return node.filled(type, lens, node.number("value", 0.0))


@onnx_op("ConstantOfShape")
def constant_of_shape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A tensor of equal elements, whose lens are an input."""
    node.expect(inputs, 1)
    given = node.tensor("value").numpy() if node.has("value") else np.zeros(1, np.float32)
    if given.size != 1:
        raise node.fail(f"attribute 'value' has {given.size} elements; expected 1")
    type = DType.of(given.dtype)
    dims = node.constant(inputs[0])
    if dims is None:
        value = node.scalar(type, given.reshape(()))
        buffer = node.add("allocate", inputs[0], buf_type=type)
        return node.add("fill", value, buffer)
    lens = tuple(int(n) for n in dims.reshape(-1))
    if not lens:
        return node.scalar(type, given.reshape(()))
    if lens == (0,):
        return node.literal(Argument(Shape(type), np.zeros(0, type.numpy)))
    return node.filled(type, lens, given)


@onnx_op("EyeLike")
def eye_like(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Ones on a diagonal of a matrix as large as the input."""
    node.expect(inputs, 1)
    x = inputs[0].shape
    if x.ndim != 2:
        raise node.fail(f"input {x}; expected rank 2")
    type = node.element_type("dtype", x.type)
    check_size(Shape(type, x.lens), node.op_type)
    return node.literal(
        np.eye(*x.lens, k=node.integer("k", 0), dtype=np.float64).astype(type.numpy)
    )


@onnx_op("Range")
def range_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Numbers at equal distances."""
    node.expect(inputs, 3)
    known = [node.constant(i) for i in inputs]
    start, limit, delta = known
    if start is None or limit is None or delta is None:
        return node.add("dynamic_range", *inputs)
    type = inputs[0].shape.type
    first, last, step = (v.reshape(-1)[0] for v in (start, limit, delta))
    if step == 0:
        raise node.fail("a step of 0; expected another one")
    count = max(0, math.ceil((float(last) - float(first)) / float(step)))
    if type.is_integral:
        count = max(0, -((int(first) - int(last)) // int(step)))
    check_size(Shape(type, (count,)), "Range")
    if not count:
        return node.literal(Argument(Shape(type), np.zeros(0, type.numpy)))
    wide = np.int64 if type.is_integral else np.float64
    values = np.arange(count, dtype=wide) * wide(step) + wide(first)
    return node.literal(values.astype(type.numpy))


@onnx_op("Shape")
def shape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The lens of a value, or some of them."""
    node.expect(inputs, 1)
    x = inputs[0].shape
    rank = 0 if x == Shape.scalar(x.type) else x.ndim
    start, end = (
        min(max(n + rank if n < 0 else n, 0), rank)
        for n in (node.integer("start", 0), node.integer("end", rank))
    )
    if x.is_dynamic:
        return node.add("dimensions_of", inputs[0], start=start, end=end)
    lens = x.lens[start:end] if rank else ()
    array = np.array(lens, np.int64)
    return node.literal(array if array.size else Argument(Shape(DType.INT64), array))


@onnx_op("Size")
def size(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The number of elements of a value."""
    node.expect(inputs, 1)
    return node.scalar(DType.INT64, inputs[0].shape.elements)


@onnx_op("OneHot")
def one_hot(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Indices as rows with one element on."""
    node.expect(inputs, 3)
    indices, depth, values = inputs
    axis, known = node.integer("axis", -1), node.constant(depth)
    if known is None:
        return node.add("onehot", indices, depth, values, axis=axis)
    if known.size != 1:
        raise node.fail(f"a depth of {known.size} elements; expected 1")
    return node.add("onehot", indices, values, axis=axis, depth=int(known.reshape(-1)[0]))


@onnx_op("NonZero")
def non_zero(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The indices of elements that are not zero."""
    node.expect(inputs, 1)
    known = node.constant(inputs[0])
    if known is None:
        return node.add("nonzero", inputs[0])
    return node.literal(np.array(np.nonzero(known), np.int64))


@onnx_op("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
def random(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Random numbers, drawn once at import."""
    like = node.op_type.endswith("Like")
    node.expect(inputs, int(like))
    type = node.element_type("dtype", inputs[0].shape.type if like else DType.FLOAT)
    if type not in {DType.FLOAT, DType.HALF, DType.DOUBLE}:
        raise node.fail(f"element type {type.type_name}; expected a float")
    lens = inputs[0].shape.lens if like else node.integers("shape")
    check_size(Shape(type, lens), node.op_type)
    seed = int(node.number("seed")) if node.has("seed") else None
    return node.literal(_drawn(node, lens, seed).astype(type.numpy))


def _drawn(node: NodeContext, lens: Sequence[int], seed: int | None) -> Array:
    generator = np.random.Generator(np.random.MT19937(seed))
    if "Normal" in node.op_type:
        return generator.normal(node.number("mean", 0.0), node.number("scale", 1.0), lens)
    return generator.uniform(node.number("low", 0.0), node.number("high", 1.0), lens)


@onnx_op("Multinomial")
def multinomial(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Draws from the distributions in the rows of a matrix of log probabilities."""
    node.expect(inputs, 1)
    x, samples = inputs[0], node.integer("sample_size")
    if x.shape.is_dynamic or x.shape.ndim != 2:
        raise node.fail(f"input {x.shape}; expected a matrix with fixed dimensions")
    centred = node.common("sub", x, node.add("reduce_max", x, axes=(1,)))
    weights = node.add("exp", centred)
    sums = node.add("prefix_scan_sum", weights, axis=1, exclusive=False, reverse=False)
    seeds = [node.number("seed")] if node.has("seed") else []
    seed = node.vector(DType.FLOAT, seeds) if seeds else node.add("random_seed")
    drawn = node.add(
        "random_uniform", seed, node.filled(DType.FLOAT, (x.shape.lens[0], samples), 0)
    )
    type = node.element_type("dtype", DType.INT32)
    return node.add("multinomial", sums, drawn, dtype=type)


@onnx_op("ATen")
def aten(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """PyTorch's embedding_bag with a single bag."""
    node.expect(inputs, 3, len(inputs))
    if "embedding_bag" not in node.text("operator", ""):
        raise node.fail(f"ATen operator {node.text('operator', '')!r} is not supported")
    if inputs[2].shape.elements != 1:
        raise node.fail(f"offsets {inputs[2].shape}; expected one element")
    mode = node.integer("mode", 0)
    if mode not in {0, 1, 2}:
        raise node.fail(f"mode={mode}; expected 0, 1 or 2")
    rows = node.add("gather", inputs[0], inputs[1])
    return node.add(("reduce_sum", "reduce_mean", "reduce_max")[mode], rows, axes=(0,))
