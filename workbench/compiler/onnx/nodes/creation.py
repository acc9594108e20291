"""Operators that create values from attributes, shapes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import ANY, dims_of, over, plus
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.lengths import ANYTHING
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, dim_of, known, origin


@onnx_op("Constant")
def constant(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A literal, given in one of several attributes."""
    node.expect(inputs, 0)
    names = [a.name for a in node.node.attribute if a.name.startswith(("value", "sparse_value"))]
    if len(names) != 1:
        raise node.fail(f"attributes {names}; expected exactly one value")
    match names[0]:
        case "value":
            made = node.literal(node.tensor("value"))
            return node.declared(made, node.tensor_code("value"))
        case "value_float" if not node.lists("value_float"):
            return node.scalar(DType.FLOAT, node.number("value_float"))
        case "value_floats" | "value_float":
            return _list(node, DType.FLOAT, node.numbers(names[0]))
        case "value_int" if not node.lists("value_int"):
            return node.scalar(DType.INT64, node.integer("value_int"))
        case "value_ints" | "value_int":
            return _list(node, DType.INT64, node.integers(names[0]))
        case "sparse_value":
            return node.literal(node.sparse_tensor("sparse_value"))
        case name:
            raise node.fail(f"attribute {name!r}: text values are not supported")


def _list(node: NodeContext, type: DType, values: Sequence[float]) -> Instruction:
    array = np.array(values, type.numpy)
    return node.literal(array) if array.size else node.nothing(type)


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
        wanted = node.lengths_in(inputs[0], "shape")
        value = node.scalar(type, given.reshape(()))
        buffer = node.add("allocate", inputs[0], buf_type=type)
        return node.expected(node.add("fill", value, buffer), [dim_of(n) for n in wanted])
    lens = tuple(int(n) for n in dims.reshape(-1))
    if not lens:
        return node.scalar(type, given.reshape(()))
    if node.strict and 0 in lens:
        return node.add("undefined")
    if lens == (0,):
        return node.nothing(type)
    return node.filled(type, lens, given)


@onnx_op("EyeLike")
def eye_like(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix of the input's lens with ones on a diagonal."""
    node.expect(inputs, 1)
    x = inputs[0].shape
    if x.ndim != 2:
        raise node.fail(f"input {x}; expected rank 2")
    type, k = node.element_type("dtype", x.type), node.integer("k", 0)
    if x.is_dynamic:
        rows, columns = node.lens(inputs[0])
        distance = distances(node, rows, columns)
        own = node.multibroadcast(node.scalar(DType.INT64, k), (rows, columns))
        return node.convert(node.add("equal", distance, own), type)
    if node.strict and not -x.lens[0] < k < x.lens[1]:
        raise node.fail(f"k={k} for a matrix of {list(x.lens)}; expected a diagonal within it")
    check_size(Shape(type, x.lens), node.op_type)
    return node.literal(np.eye(*x.lens, k=k, dtype=np.float64).astype(type.numpy))


def distances(node: NodeContext, rows: Length, columns: Length) -> Instruction:
    """The column minus the row of each element of a matrix."""
    down = node.unsqueeze(node.counted(DType.INT64, rows), 1)
    return node.fit(node.common("sub", node.counted(DType.INT64, columns), down), (rows, columns))


@onnx_op("Range")
def range_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Numbers at equal distances."""
    node.expect(inputs, 3)
    start, limit, delta = (node.constant(i) for i in inputs)
    if start is None or limit is None or delta is None:
        return _dynamic_range(node, inputs)
    type = inputs[0].shape.type
    first, last, step = (node.element(v, "a bound or the step") for v in (start, limit, delta))
    if step == 0:
        raise node.fail("a step of 0; expected a nonzero step")
    count = max(0, math.ceil((float(last) - float(first)) / float(step)))
    if type.is_integral:
        count = max(0, -((int(first) - int(last)) // int(step)))
    check_size(Shape(type, (count,)), "Range")
    if not count:
        return node.nothing(type)
    wide = np.int64 if type.is_integral else np.float64
    values = np.arange(count, dtype=wide) * wide(step) + wide(first)
    return node.literal(values.astype(type.numpy))


def _dynamic_range(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    made = node.add("dynamic_range", *[node.single(i) for i in inputs])
    found = [node.spans(i) for i in inputs]
    start, limit, step = (f[0] if f else ANYTHING for f in found)
    by = step.exact
    if by is None or by < 1 or limit.low < start.low:
        return made
    span = limit - start
    count = over(plus(span.dim, by - 1), by) if span.low >= 0 else Dim(0, span.dim.max // by + 1)
    return node.expected(made, [count])


@onnx_op("Shape")
def shape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The lens of a value, or some of them."""
    node.expect(inputs, 1)
    x, rank = inputs[0].shape, node.rank(inputs[0])
    start, end = (
        min(max(n + rank if n < 0 else n, 0), rank)
        for n in (node.integer("start", 0), node.integer("end", rank))
    )
    if node.strict and end <= start:
        raise node.fail(f"dimensions from {start} to {end}; expected one at least")
    lens = node.lens(inputs[0])[start:end] if rank else ()
    if known(lens) is None or (node.strict and x.is_dynamic):
        return node.add("dimensions_of", origin(inputs[0]), start=start, end=end)
    array = np.array(lens, np.int64)
    return node.literal(array) if array.size else node.nothing(DType.INT64)


@onnx_op("Size")
def size(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The number of elements of a value."""
    node.expect(inputs, 1)
    return node.number_of(node.count(inputs[0]))


@onnx_op("OneHot")
def one_hot(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One-hot rows for indices."""
    node.expect(inputs, 3)
    indices, depth, values = inputs
    axis, given = node.integer("axis", -1), node.constant(depth)
    if given is None:
        return _one_hot_of(node, indices, depth, values)
    if given.size != 1:
        raise node.fail(f"a depth of {given.size} elements; expected 1")
    values = node.expected(values, [Dim(2, 2)])
    return node.add("onehot", indices, values, axis=axis, depth=int(given.reshape(-1)[0]))


def _one_hot_of(
    node: NodeContext, indices: Instruction, depth: Instruction, values: Instruction
) -> Instruction:
    """One-hot rows whose length is known only at run time."""
    axis, spans = node.integer("axis", -1), node.spans(depth)
    depth, values = node.single(depth), node.expected(values, [Dim(2, 2)])
    made = node.add("onehot", indices, depth, values, axis=axis)
    dims = list(dims_of(made.shape))
    dims[node.axis(axis, len(dims))] = spans[0].dim if spans else ANY
    return node.expected(made, dims)


@onnx_op("ATen")
def aten(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """PyTorch's embedding_bag with a single bag."""
    node.expect(inputs, 3, max(3, len(inputs)))
    if "embedding_bag" not in node.text("operator", ""):
        raise node.fail(f"ATen operator {node.text('operator', '')!r} is not supported")
    if inputs[2].shape.elements != 1:
        raise node.fail(f"offsets {inputs[2].shape}; expected one element")
    mode = node.integer("mode", 0)
    if mode not in {0, 1, 2}:
        raise node.fail(f"mode={mode}; expected 0, 1 or 2")
    rows = node.add("gather", inputs[0], inputs[1])
    return node.add(("reduce_sum", "reduce_mean", "reduce_max")[mode], rows, axes=(0,))
