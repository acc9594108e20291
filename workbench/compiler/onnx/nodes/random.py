"""Operators that draw random numbers; every import of a model draws the same ones."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
def random(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Random numbers, drawn once at import."""
    like = node.op_type.endswith("Like")
    node.expect(inputs, int(like))
    type = node.element_type("dtype", inputs[0].shape.type if like else DType.FLOAT)
    if not type.is_float or type.size < 2:
        raise node.fail(f"element type {type.type_name}; expected a float of at least 16 bits")
    lens = _lens(node, inputs[0]) if like else node.integers("shape")
    return _drawn(node, lens, type)


def _lens(node: NodeContext, like: Instruction) -> tuple[int, ...]:
    if like.shape.is_dynamic:
        raise node.fail(f"input {like.shape}; expected fixed dimensions to draw random numbers for")
    return like.shape.lens


def _drawn(node: NodeContext, lens: Sequence[int], type: DType) -> Instruction:
    """A literal of random numbers, normal or uniform as the node's attributes say."""
    check_size(Shape(DType.DOUBLE, lens), node.op_type)
    generator = np.random.RandomState(_seed(node))
    is_normal = "Normal" in node.op_type
    names = ("mean", "scale") if is_normal else ("low", "high")
    a, b = node.number(names[0], 0.0), node.number(names[1], 1.0)
    if not math.isfinite(b - a) or (is_normal and b < 0):
        raise node.fail(
            f"{names[0]}={a}, {names[1]}={b}; expected finite parameters of a distribution"
        )
    drawn = generator.normal(a, b, lens) if is_normal else generator.uniform(a, b, lens)
    return node.literal(np.asarray(drawn).astype(type.numpy))


def _seed(node: NodeContext) -> int:
    """The node's seed; without one, a hash of its name."""
    if not node.has("seed"):
        return zlib.crc32(node.source.encode())
    given = node.integer("seed") if node.op_type == "Dropout" else node.number("seed")
    if not math.isfinite(given):
        raise node.fail(f"a seed of {given}; expected a finite number")
    return int(given) & 0xFFFFFFFF


@onnx_op("Bernoulli")
def bernoulli(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """1 with the probability that each element gives, else 0."""
    node.expect(inputs, 1)
    x = inputs[0]
    drawn = _drawn(node, _lens(node, x), DType.DOUBLE)
    return node.convert(node.common("less", drawn, x), node.element_type("dtype", x.shape.type))


@onnx_op("Dropout")
def dropout(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The input unchanged; in training mode, some elements are set to 0."""
    node.expect(inputs, 1, 3)
    x, ratio, training = inputs[0], node.optional(inputs, 1), node.optional(inputs, 2)
    if training is not None and node.required_constant(training, "training_mode").any():
        half = node.scalar(DType.FLOAT, 0.5)
        return _dropped(node, x, half if ratio is None else ratio)
    kept = node.add("identity", x)
    if not node.uses_output(1) and not node.strict:
        return [kept]
    return [kept, node.filled(DType.BOOL, node.lens(x), value=True)]


def _dropped(node: NodeContext, x: Instruction, ratio: Instruction) -> list[Instruction]:
    """The elements that are kept, scaled, and their mask."""
    drawn = _drawn(node, _lens(node, x), DType.DOUBLE)
    mask = node.add("not", node.convert(node.common("less", drawn, ratio), DType.BOOL))
    one = node.scalar(ratio.shape.type, 1)
    scale = node.common("div", one, node.common("sub", one, ratio))
    scaled = node.convert(node.common("mul", x, scale), x.shape.type)
    zero = node.multibroadcast(node.scalar(x.shape.type, 0), node.lens(x))
    return [node.add("where", mask, scaled, zero), mask]


@onnx_op("Multinomial")
def multinomial(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Draws from the distributions in the rows of a matrix of log probabilities."""
    node.expect(inputs, 1)
    x, samples = inputs[0], node.integer("sample_size", 1)
    if x.shape.ndim != 2:
        raise node.fail(f"input {x.shape}; expected a matrix")
    if samples < 1:
        raise node.fail(f"sample_size={samples}; expected at least 1")
    centred = node.common("sub", x, node.add("reduce_max", x, axes=(1,)))
    weights = node.add("exp", centred)
    sums = node.add("prefix_scan_sum", weights, axis=1, exclusive=False, reverse=False)
    seed = node.vector(DType.FLOAT, [node.number("seed")]) if node.has("seed") else None
    seed = node.add("random_seed") if seed is None else seed
    drawn = node.add("random_uniform", seed, _room(node, x, samples))
    type = node.element_type("dtype", DType.INT32)
    return node.add("multinomial", sums, drawn, dtype=type)


def _room(node: NodeContext, x: Instruction, samples: int) -> Instruction:
    """A buffer for ``samples`` floats per row; a dynamic number of rows is read at run time."""
    if not x.shape.is_dynamic:
        return node.filled(DType.FLOAT, (x.shape.lens[0], samples), 0)
    rows = node.add("mul", node.add("dimensions_of", x, end=2), node.vector(DType.INT64, [1, 0]))
    lens = node.add("add", rows, node.vector(DType.INT64, [0, samples]))
    shape = Shape.dynamic(x.shape.type, [dims_of(x.shape)[0], Dim(samples, samples)])
    return node.add("allocate", lens, shape=shape)
