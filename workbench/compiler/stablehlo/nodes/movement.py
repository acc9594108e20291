"""Operations that move elements: broadcasts, slices, pads and joins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.registry import stablehlo_op


@stablehlo_op("reshape")
def reshape(node: Context, x: Instruction) -> Instruction:
    """The elements in other lens."""
    return node.shaped(x, node.out_lens())


@stablehlo_op("transpose")
def transpose(node: Context, x: Instruction) -> Instruction:
    """The axes in another order."""
    return node.permuted(x, node.ints("permutation"))


@stablehlo_op("broadcast_in_dim")
def broadcast_in_dim(node: Context, x: Instruction) -> Instruction:
    """The value repeated along new axes and along those of length 1."""
    dims, lens = node.ints("broadcast_dimensions"), node.out_lens()
    order = sorted(range(len(dims)), key=dims.__getitem__)
    x, dims = node.permuted(x, order), tuple(sorted(dims))
    if len(dims) == 1 and len(lens) > 1 and x.shape.lens[0] == lens[dims[0]]:
        return node.add("broadcast", x, axis=dims[0], out_lens=lens)
    within = [1] * len(lens)
    for axis, n in zip(dims, x.shape.lens, strict=True):
        within[axis] = n
    return node.fit(node.shaped(x, within), lens) if x.shape.ndim else node.fit(x, lens)


@stablehlo_op("concatenate")
def concatenate(node: Context, *values: Instruction) -> Instruction:
    """Values one after the other along an axis."""
    return node.add("concat", *values, axis=node.whole("dimension"))


@stablehlo_op("slice")
def slice_(node: Context, x: Instruction) -> Instruction:
    """The elements from starts to limits, with strides."""
    starts, ends = node.ints("start_indices"), node.ints("limit_indices")
    strides = node.ints("strides", [1] * x.shape.ndim)
    axes = [a for a, n in enumerate(x.shape.lens) if (starts[a], ends[a]) != (0, n)]
    if axes:
        low, high = [starts[a] for a in axes], [ends[a] for a in axes]
        x = node.add("slice", x, axes=axes, starts=low, ends=high)
    stepped = [a for a in range(x.shape.ndim) if strides[a] > 1]
    if stepped:
        x = node.add("step", x, axes=stepped, steps=[strides[a] for a in stepped])
    return x


@stablehlo_op("reverse")
def reverse(node: Context, x: Instruction) -> Instruction:
    """The axes backwards."""
    return node.add("reverse", x, axes=node.ints("dimensions"))


@stablehlo_op("pad")
def pad(node: Context, x: Instruction, value: Instruction) -> Instruction:
    """The elements with a value around and between them; negative pads crop."""
    low, high = node.ints("edge_padding_low"), node.ints("edge_padding_high")
    return padded(node, x, value, low, high, node.ints("interior_padding"))


def padded(
    node: Context,
    x: Instruction,
    value: Instruction,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] = (),
) -> Instruction:
    """A value with elements around it and between its own."""
    for axis, between in enumerate(interior):
        if between and x.shape.lens[axis] > 1:
            x = _spread(node, x, value, axis, between)
    return _around(node, x, value, low, high)


def _spread(
    node: Context, x: Instruction, value: Instruction, axis: int, between: int
) -> Instruction:
    """Elements of an axis apart: each gets the others behind it, and the last ones are cut off."""
    lens = x.shape.lens
    column = node.unsqueeze(x, axis + 1)
    zeros = [0] * len(column.shape.lens)
    more = [between if a == axis + 1 else 0 for a in range(len(zeros))]
    wide = _around(node, column, value, zeros, more)
    joined = [n * (between + 1) if a == axis else n for a, n in enumerate(lens)]
    return node.cut(node.reshape(wide, *joined), axis, 0, joined[axis] - between)


def _around(
    node: Context, x: Instruction, value: Instruction, low: Sequence[int], high: Sequence[int]
) -> Instruction:
    if not any(low) and not any(high):
        return x
    known = node.constant(value)
    if known is not None and _as_attribute(known.reshape(-1)[0], x.shape.type):
        return node.add("pad", x, pads=(*low, *high), value=float(known.reshape(-1)[0]))
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        x = _joined(node, x, value, axis, before, after)
    return x


def _as_attribute(value: np.generic, type: DType) -> bool:
    """Whether a number is the same as a float, as which the operation holds it."""
    return type.is_float or abs(int(value)) <= 1 << 53


def _joined(
    node: Context, x: Instruction, value: Instruction, axis: int, before: int, after: int
) -> Instruction:
    length = x.shape.lens[axis]
    start, end = max(-before, 0), length - max(-after, 0)
    x = node.cut(x, axis, start, end)

    def edge(count: int) -> list[Instruction]:
        lens = [count if a == axis else n for a, n in enumerate(x.shape.lens)]
        return [node.fit(value, lens)] if count > 0 else []

    parts = [*edge(before), x, *edge(after)]
    return node.add("concat", *parts, axis=axis) if len(parts) > 1 else x


@stablehlo_op("tuple")
def tuple_(node: Context, *values: Instruction) -> Instruction:
    """Refused: values of a tuple have no shape of their own.

    Raises:
        ModelError: Always.
    """
    raise node.fail("a tuple; expected a function that returns several values, as JAX writes them")
