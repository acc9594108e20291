"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ops.windows import window_of
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor, ints
from workbench.compiler.stablehlo.write.operations.movement import backwards
from workbench.compiler.stablehlo.write.registry import writes

EXACT = "precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
"""Products are of the operands themselves, not of what fewer bits of them hold."""


def _work(type: DType) -> DType:
    """The type in which products are summed."""
    return DType.FLOAT if type.is_float and type.size < 4 else type


def product(to: Lines, a: Tensor, b: Tensor, type: DType) -> Tensor:
    """The matrix product over the last two axes, for each index of the others."""
    rank = len(a.lens)
    batch = ", ".join(map(str, range(rank - 2)))
    numbers = (
        f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{batch}], "
        f"rhs_batching_dimensions = [{batch}], lhs_contracting_dimensions = [{rank - 1}], "
        f"rhs_contracting_dimensions = [{rank - 2}]>, {EXACT}"
    )
    lens = (*a.lens[:-1], b.lens[-1])
    return to.add("dot_general", a, b, type=type, lens=lens, attributes=numbers)


@writes("dot")
def dot(call: Call) -> Tensor:
    """A product, summed in float32 at least."""
    work = _work(call.x.type)
    a, b = (call.to.convert(v, work) for v in call.inputs)
    return call.to.convert(product(call.to, a, b, work), call.shape.type)


@writes("quant_dot")
def quant_dot(call: Call) -> Tensor:
    """A product in the type of the result, of operands times their scales if there are any."""
    a, b = _scaled(call)
    return product(call.to, a, b, call.shape.type)


def _scaled(call: Call) -> tuple[Tensor, Tensor]:
    values = [call.to.convert(v, call.shape.type) for v in call.inputs]
    if len(values) == 2:
        return values[0], values[1]
    return call.to.add("multiply", values[0], values[2]), call.to.add(
        "multiply", values[1], values[3]
    )


def convolved(
    to: Lines, x: Tensor, w: Tensor, lens: Sequence[int], pads: Sequence[tuple[int, int]],
    stride: Sequence[int], dilation: Sequence[int], spread: Sequence[int], group: int,
) -> Tensor:  # fmt: skip
    """A convolution with the channels first."""
    axes = ", ".join(map(str, range(len(lens) - 2)))
    axes = f", {axes}" if axes else ""
    pairs = ", ".join(f"[{low}, {high}]" for low, high in pads)
    attributes = (
        f"dimension_numbers = #stablehlo.conv<[b, f{axes}]x[o, i{axes}]->[b, f{axes}]>, "
        f"window_strides = {ints(stride)}, rhs_dilation = {ints(dilation)}, lhs_dilation = {ints(spread)}, "
        f"padding = dense<[{pairs}]> : tensor<{len(lens) - 2}x2xi64>, "
        f"feature_group_count = {group} : i64, batch_group_count = 1 : i64, {EXACT}"
    )
    return to.add("convolution", x, w, lens=lens, attributes=attributes)


@writes("convolution", "quant_convolution")
def convolution(call: Call) -> Tensor:
    """A convolution, summed in float32 at least."""
    op, work = call.op, _work(call.shape.type)
    x, w = _scaled(call) if call.op.name == "quant_convolution" else call.inputs
    x, w = call.to.convert(x, work), call.to.convert(w, work)
    window = window_of(op, x.lens[2:], w.lens[2:])
    pads = list(zip(window.begin, window.end, strict=True))
    ones = [1] * len(pads)
    made = convolved(call.to, x, w, call.lens, pads, window.stride, window.dilation, ones, op.group)
    return call.to.convert(made, call.shape.type)


@writes("convolution_backwards")
def convolution_backwards(call: Call) -> Tensor:
    """A convolution with the weights turned, over an input with zeros between its elements."""
    op, work, to = call.op, _work(call.x.type), call.to
    x, w = (to.convert(v, work) for v in call.inputs)
    group, (channels, width, *size) = op.group, w.lens
    split = to.reshape(w, (group, channels // group, width, *size))
    order = [0, 2, 1, *range(3, len(split.lens))]
    turned = to.reshape(to.transpose(split, order), (group * width, channels // group, *size))
    turned = backwards(to, turned, range(2, len(turned.lens)))
    around = [(k - 1) * d - p for k, d, p in zip(size, op.dilation, op.padding, strict=True)]
    lens = call.lens
    reach = [s * (n - 1) + 1 for s, n in zip(op.stride, x.lens[2:], strict=True)]
    span = [(k - 1) * d for k, d in zip(size, op.dilation, strict=True)]
    pads = [(p, o + k - r - p) for p, o, k, r in zip(around, lens[2:], span, reach, strict=True)]
    ones = [1] * len(pads)
    made = convolved(to, x, turned, lens, pads, ones, op.dilation, op.stride, group)
    return to.convert(made, call.shape.type)
