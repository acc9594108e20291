"""Random numbers, and dropout: other numbers than PyTorch's, from a seed of the node and that of the run."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length
from workbench.compiler.torch.context import Context, Operand
from workbench.compiler.torch.registry import torch_op

MOST_INTEGERS = 1 << 24
"""The most integers that a uniform number in float32 tells apart."""


def _seed(node: Context) -> int:
    """A number that is the same in each import, and another for each node."""
    return zlib.crc32(node.fx.name.encode())


def uniform(node: Context, lens: Sequence[Length], salt: int = 0) -> Instruction:
    """Uniform random numbers from 0 to 1, from a seed of the node, and the run's if it has one."""
    seed = node.vector(DType.UINT64, [_seed(node) + salt])
    drawn = node.graph_importer.seed()
    if drawn is not None:
        seed = node.add("add", drawn, seed)
    like = node.fit(node.scalar(DType.FLOAT, 0), lens)
    return node.add("random_uniform", seed, like)


@torch_op("aten.rand", "aten.rand_like")
def rand(node: Context, *_: Any) -> Instruction:
    """Uniform random numbers; other ones than PyTorch's, and the same in each run."""
    return node.convert(uniform(node, node.out_lens()), node.dtype())


@torch_op("aten.randn", "aten.randn_like")
def randn(node: Context, *_: Any) -> Instruction:
    """Normal random numbers by the Box-Muller transform; other ones than PyTorch's."""
    return node.convert(_normal(node, node.out_lens()), node.dtype())


def _normal(node: Context, lens: Sequence[Length]) -> Instruction:
    type = DType.FLOAT
    radius, turn = uniform(node, lens), uniform(node, lens, 1)
    inner = node.add("log", node.apply("sub", 1.0, radius, type=type))
    radius = node.add("sqrt", node.apply("mul", inner, -2, type=type))
    angle = node.add("cos", node.apply("mul", turn, 2 * math.pi, type=type))
    return node.apply("mul", radius, angle, type=type)


@torch_op("aten.randperm")
def randperm(node: Context, n: Length, *_: Any) -> Instruction:
    """The numbers below n in a random order: the places of sorted random numbers."""
    count = node.whole(n, "the length")
    if not count:
        return node.filled(node.dtype(), (0,), 0)
    made = node.add("topk", uniform(node, (count,)), k=count, axis=0, largest=False)
    return node.convert(node.add("get_tuple_elem", made, index=1), node.dtype())


@torch_op("aten.uniform")
def uniform_between(
    node: Context, x: Instruction, low: float = 0, high: float = 1, *_: Any
) -> Instruction:
    """Uniform random numbers between two numbers."""
    return _spread(node, uniform(node, node.lens(x)), high - low, low)


@torch_op("aten.normal_functional")
def normal(
    node: Context, x: Instruction, mean: float = 0, deviation: float = 1, *_: Any
) -> Instruction:
    """Normal random numbers of a mean and a standard deviation."""
    return _spread(node, _normal(node, node.lens(x)), deviation, mean)


@torch_op("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal_around(node: Context, mean: Operand, deviation: Operand = 1.0, *_: Any) -> Instruction:
    """Normal random numbers, each of a mean and a standard deviation of its own."""
    type = DType.FLOAT
    scaled = node.apply("mul", _normal(node, node.out_lens()), deviation, type=type)
    return node.convert(node.apply("add", scaled, mean, type=type), node.dtype())


@torch_op("aten.exponential")
def exponential(node: Context, x: Instruction, rate: float = 1, *_: Any) -> Instruction:
    """Exponentially distributed numbers: ``-log(1 - u) / rate``."""
    rest = node.apply("sub", 1.0, uniform(node, node.lens(x)), type=DType.FLOAT)
    return _spread(node, node.add("log", rest), -1 / rate, 0)


def _spread(node: Context, x: Instruction, factor: float, offset: float) -> Instruction:
    scaled = node.apply("mul", x, factor, type=DType.FLOAT)
    return node.convert(node.apply("add", scaled, offset, type=DType.FLOAT), node.dtype())


@torch_op("aten.randint", "aten.randint_like")
def integers_below(node: Context, first: Any, high: Length, *_: Any) -> Instruction:
    """Uniform integers from 0 up to a number, which is excluded."""
    below = first if "like" not in str(node.fx.target) else high
    return _integers(node, 0, node.whole(below, "the largest integer"))


@torch_op("aten.randint.low", "aten.randint_like.low_dtype")
def integers(node: Context, first: Any, second: Any, third: Any, *_: Any) -> Instruction:
    """Uniform integers from one number up to another, which is excluded."""
    bounds = (second, third) if "like" in str(node.fx.target) else (first, second)
    return _integers(node, *node.ints(bounds, "the range"))


def _integers(node: Context, low: int, high: int) -> Instruction:
    if not 0 < high - low <= MOST_INTEGERS:
        raise node.fail(f"integers from {low} to {high}; expected 1 to {MOST_INTEGERS} of them")
    drawn = uniform(node, node.out_lens())
    scaled = node.add("floor", node.apply("mul", drawn, high - low, type=DType.FLOAT))
    found = node.apply("min", node.convert(scaled, DType.INT64), high - low - 1, type=DType.INT64)
    return node.convert(node.apply("add", found, low, type=DType.INT64), node.dtype())


@torch_op("aten.bernoulli")
def bernoulli(node: Context, x: Instruction, *_: Any) -> Instruction:
    """1 with the probability that each element is, else 0."""
    drawn = uniform(node, node.lens(x))
    return node.convert(node.test("less", drawn, x, type=DType.FLOAT), node.dtype())


@torch_op("aten.bernoulli.p")
def bernoulli_of(node: Context, x: Instruction, p: float = 0.5, *_: Any) -> Instruction:
    """1 with a probability, else 0."""
    drawn = uniform(node, node.lens(x))
    return node.convert(node.test("less", drawn, p, type=DType.FLOAT), node.dtype())


@torch_op("aten.native_dropout")
def dropout(node: Context, x: Instruction, p: float, train: bool | None) -> list[Instruction]:
    """The value with a share of its elements set to 0 and the others scaled, and the mask."""
    if train is False or p == 0:
        return [node.add("identity", x), node.filled(DType.BOOL, node.lens(x), value=True)]
    return list(dropped(node, x, p))


def dropped(node: Context, x: Instruction, p: float) -> tuple[Instruction, Instruction]:
    """A value with a share of its elements set to 0 and the others scaled by ``1 / (1 - p)``; the mask."""
    type = x.shape.type
    mask = node.test("greater", uniform(node, node.lens(x)), p, type=DType.FLOAT)
    scaled = node.apply("mul", x, 1 / (1 - p) if p < 1 else 0, type=type)
    return node.choose(mask, scaled, 0, type), mask
