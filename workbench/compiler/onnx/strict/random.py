"""Random numbers as the C++ standard library draws them; without a seed, they differ in every import."""

from __future__ import annotations

import math
import time

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import strict_op

_TYPES = {DType.FLOAT, DType.HALF, DType.DOUBLE}


@strict_op("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
def random(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Random numbers, drawn once at import, with the given shape or else the input's."""
    is_listed = node.has("shape") and not node.op_type.endswith("Like")
    node.expect(inputs, 0 if is_listed else 1, 1)
    default = DType.FLOAT if is_listed else inputs[0].shape.type
    type = node.element_type("dtype", default)
    if type not in _TYPES or (not is_listed and default not in _TYPES):
        raise node.fail(f"element types {default} and {type}; expected float, half or double")
    lens = node.integers("shape") if is_listed else node.fixed(node.lens(inputs[0]), "lengths")
    shape = Shape(type, lens)
    check_size(Shape(DType.DOUBLE, shape.lens), node.op_type)
    return node.literal(Argument(shape, _drawn(node, shape.elements).astype(type.numpy)))


def _drawn(node: NodeContext, count: int) -> Array:
    seed = node.number("seed") if node.has("seed") else time.time_ns()
    if not math.isfinite(seed):
        raise node.fail(f"a seed of {seed}; expected a finite number")
    twister = np.random.RandomState(int(seed) & 0xFFFFFFFF)
    if "Normal" in node.op_type:
        return _normal(twister, count) * node.number("scale", 1.0) + node.number("mean", 0.0)
    low, high = node.number("low", 0.0), node.number("high", 1.0)
    return _uniform(twister, count) * (high - low) + low


def _uniform(twister: np.random.RandomState, count: int) -> Array:
    """Doubles below 1, each of two words, the low one first."""
    words = twister.randint(0, 1 << 32, 2 * count, np.uint32).astype(np.float64)
    return np.minimum((words[::2] + words[1::2] * 2.0**32) / 2.0**64, np.nextafter(1.0, 0.0))


def _normal(twister: np.random.RandomState, count: int) -> Array:
    """Normal numbers by the polar method: two per point within the circle, y first."""
    found: list[Array] = []
    missing = count
    while missing > 0:
        points: Array = 2.0 * _uniform(twister, 2 * (missing + 8)).reshape(-1, 2) - 1.0
        square = (points * points).sum(axis=1)
        inside = (square <= 1.0) & (square > 0.0)
        points, square = points[inside], square[inside]
        scale = np.sqrt(-2.0 * np.log(square) / square)
        found.append((points[:, ::-1] * scale[:, None]).reshape(-1))
        missing -= len(found[-1])
    return np.concatenate(found)[:count] if found else np.zeros(0)
