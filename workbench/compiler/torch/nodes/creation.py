"""Values from lengths and numbers, and random ones."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length, Size, known
from workbench.compiler.torch.context import Context, Operand
from workbench.compiler.torch.registry import torch_op


@torch_op("aten.full")
def full(node: Context, size: Sequence[Length], value: Operand, *_: Any) -> Instruction:
    """One number in these lens."""
    if isinstance(value, Instruction | Size):
        return node.fit(node.operand(value, node.dtype()), size)
    return node.filled(node.dtype(), size, value)


@torch_op(
    "aten.empty.memory_format",
    "aten.empty_strided",
    "aten.new_empty",
    "aten.zeros",
    "aten.empty_like",
)
def zeros(node: Context, *_: Any) -> Instruction:
    """Zeros; PyTorch leaves memory as it is where a value is empty."""
    return node.filled(node.dtype(), node.out_lens(), 0)


@torch_op("aten.scalar_tensor")
def scalar_tensor(node: Context, value: Operand, *_: Any) -> Instruction:
    """A number as a value of rank 0."""
    return node.operand(value, node.dtype())


@torch_op("aten.arange.start_step")
def arange(node: Context, start: Any, end: Any, step: Any = 1, *_: Any) -> Instruction:
    """Numbers from a start up to an end, which is excluded."""
    type, (count,) = node.dtype(), node.out_lens()
    if not any(isinstance(v, Size) for v in (start, end, step)) and isinstance(count, int):
        values = start + np.arange(count) * step
        return node.vector(type, values)
    kind = type if type.is_float else DType.INT64
    places = node.convert(node.counted(DType.INT64, count), kind)
    scaled = places if step == 1 else node.apply("mul", places, step, type=kind)
    found = scaled if start == 0 else node.apply("add", scaled, start, type=kind)
    return node.convert(found, type)


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
    type, lens = DType.FLOAT, node.out_lens()
    radius, turn = uniform(node, lens), uniform(node, lens, 1)
    inner = node.add("log", node.apply("sub", 1.0, radius, type=type))
    radius = node.add("sqrt", node.apply("mul", inner, -2, type=type))
    angle = node.add("cos", node.apply("mul", turn, 2 * math.pi, type=type))
    return node.convert(node.apply("mul", radius, angle, type=type), node.dtype())


@torch_op("aten.randperm")
def randperm(node: Context, n: Length, *_: Any) -> Instruction:
    """The numbers below n in a random order: the places of sorted random numbers."""
    count = node.whole(n, "the length")
    if not count:
        return node.filled(node.dtype(), (0,), 0)
    made = node.add("topk", uniform(node, (count,)), k=count, axis=0, largest=False)
    return node.convert(node.add("get_tuple_elem", made, index=1), node.dtype())


def is_known(values: Sequence[Any]) -> bool:
    """Whether all lengths are known at import."""
    return known(values) is not None
