"""Matrix products and convolutions in any order of axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.nodes.movement import padded
from workbench.compiler.stablehlo.registry import stablehlo_op


@stablehlo_op("dot_general")
def dot_general(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """The product along pairs of axes, for each of some batch axes."""
    numbers = node.numbers_of("dot_dimension_numbers", "DotDimensionNumbers")
    left = _Side(node, a, numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions)
    right = _Side(node, b, numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions)
    whole, lens = left.matrix(last=True), right.matrix(last=False)
    return node.shaped(_product(node, whole, lens), (*left.batch, *left.free, *right.free))


def _product(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """The product in the type of the result, in which both are exact."""
    type = node.type()
    if (a.shape.type, b.shape.type, type) == (DType.INT8, DType.INT8, DType.INT32):
        return node.add("quant_dot", a, b)
    return node.add("dot", node.convert(a, type), node.convert(b, type))


class _Side:
    """One operand of a product: its batch axes, those that are summed, and the others."""

    def __init__(
        self, node: Context, value: Instruction, batch: Sequence[int], summed: Sequence[int]
    ) -> None:
        self.node, self.value = node, value
        self.order = list(batch), list(summed)
        self.rest = [a for a in range(value.shape.ndim) if a not in {*batch, *summed}]
        lens = value.shape.lens
        self.batch, self.free = [lens[a] for a in batch], [lens[a] for a in self.rest]

    def matrix(self, last: bool) -> Instruction:
        """The operand as matrices, whose summed axis is the last one or the one before."""
        batch, summed = self.order
        order = [*batch, *self.rest, *summed] if last else [*batch, *summed, *self.rest]
        lens = self.value.shape.lens
        count, free = prod(lens[a] for a in summed), prod(self.free)
        shape = (*self.batch, free, count) if last else (*self.batch, count, free)
        return self.node.shaped(self.node.permuted(self.value, order), shape)


@stablehlo_op("convolution")
def convolution(node: Context, x: Instruction, w: Instruction) -> Instruction:
    """A convolution: batches and channels go first, zeros between elements become elements."""
    numbers = node.numbers_of("dimension_numbers", "ConvDimensionNumbers")
    x = node.permuted(
        x,
        [
            numbers.input_batch_dimension,
            numbers.input_feature_dimension,
            *numbers.input_spatial_dimensions,
        ],
    )
    w = node.permuted(
        w,
        [
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ],
    )
    found = _convolved(node, _Window(node, x.shape.ndim - 2), x, w)
    order = [
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        *numbers.output_spatial_dimensions,
    ]
    return node.permuted(found, [int(v) for v in np.argsort(order)])


class _Window:
    """The attributes of a convolution, one of each for each spatial axis."""

    def __init__(self, node: Context, rank: int) -> None:
        ones, zeros = [1] * rank, [0] * (2 * rank)
        self.strides = node.ints("window_strides", ones)
        pads = node.ints("padding", zeros)
        self.low, self.high = pads[::2], pads[1::2]
        self.spread, self.dilation = (
            node.ints("lhs_dilation", ones),
            node.ints("rhs_dilation", ones),
        )
        self.backwards = node.flags("window_reversal", rank)


def _convolved(node: Context, at: _Window, x: Instruction, w: Instruction) -> Instruction:
    """The convolution of operands with the channels first; its padding crops where it is negative."""
    group = node.whole("feature_group_count", 1)
    batches = node.whole("batch_group_count", 1)
    if batches > 1:
        x, group = _as_channels(node, x, batches), batches
    turned = [2 + a for a, is_turned in enumerate(at.backwards) if is_turned]
    w = node.add("reverse", w, axes=turned) if turned else w
    low, high = list(at.low), list(at.high)
    if any(s > 1 for s in at.spread) or min([*low, *high], default=0) < 0:
        zero, none = node.scalar(x.shape.type, 0), [0, 0]
        x = padded(
            node, x, zero, [*none, *low], [*none, *high], [*none, *(s - 1 for s in at.spread)]
        )
        low, high = [0] * len(low), [0] * len(high)
    return _emitted(node, at, x, w, (*low, *high), group)


def _as_channels(node: Context, x: Instruction, count: int) -> Instruction:
    """Groups of the batch as groups of channels."""
    batch, channels, *spatial = x.shape.lens
    parts = node.reshape(x, count, batch // count, channels, *spatial)
    order = (1, 0, *range(2, parts.shape.ndim))
    return node.reshape(node.transpose(parts, *order), batch // count, count * channels, *spatial)


def _emitted(
    node: Context, at: _Window, x: Instruction, w: Instruction, padding: Sequence[int], group: int
) -> Instruction:
    type, given = node.type(), (x.shape.type, w.shape.type)
    rank = x.shape.ndim
    window: dict[str, Any] = {
        "padding": tuple(padding), "stride": at.strides, "dilation": at.dilation, "group": group,
    }  # fmt: skip
    if rank == 2:  # no spatial axes: windows of one element
        x, w = node.unsqueeze(x, 2), node.unsqueeze(w, 2)
        window |= {"padding": (0, 0), "stride": (1,), "dilation": (1,)}
    if (*given, type) == (DType.INT8, DType.INT8, DType.INT32):
        found = node.add("quant_convolution", x, w, **window)
    else:
        found = node.add("convolution", node.convert(x, type), node.convert(w, type), **window)
    return node.squeeze(found, 2) if rank == 2 else found
