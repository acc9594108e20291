"""Matrix products, distances, convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import make
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.registry import torch_op

Ints = Sequence[Any]


@torch_op("aten.mm", "aten.bmm")
def product(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """The product of matrices."""
    return node.add("dot", a, b)


@torch_op("aten.addmm", "aten.baddbmm")
def product_plus(
    node: Context, c: Instruction, a: Instruction, b: Instruction, beta: float = 1, alpha: float = 1
) -> Instruction:
    """``beta · c + alpha · a · b``."""
    type = node.dtype()
    found = node.add("dot", a, b)
    if alpha != 1:
        found = node.apply("mul", found, alpha, type=type)
    if beta == 0:
        return found
    added = c if beta == 1 else node.apply("mul", c, beta, type=type)
    return node.add("add", found, node.fit(added, node.lens(found)))


@torch_op("aten._cdist_forward")
def distances(
    node: Context, a: Instruction, b: Instruction, p: float, _: int | None = None
) -> Instruction:
    """The p-norm of the difference of each row of one matrix and each of another."""
    rank = a.shape.ndim
    rows, columns = node.unsqueeze(a, rank - 1), node.unsqueeze(b, b.shape.ndim - 2)
    apart = node.add("abs", node.apply("sub", rows, columns, type=node.dtype()))
    return norm(node, apart, apart.shape.ndim - 1, p)


@torch_op("aten._pdist_forward")
def pair_distances(node: Context, x: Instruction, p: float = 2) -> Instruction:
    """The p-norm of the difference of each two rows of a matrix."""
    import numpy as np  # noqa: PLC0415

    count = node.whole(node.lens(x)[0], "the number of rows")
    first, second = np.triu_indices(count, 1)
    rows = [
        node.add("gather", x, node.literal(i.astype(np.int64)), axis=0) for i in (first, second)
    ]
    return norm(node, node.add("abs", node.add("sub", *rows)), 1, p)


def norm(node: Context, sizes: Instruction, axis: int, p: float) -> Instruction:
    """The p-norm of non-negative elements along an axis."""
    type = sizes.shape.type
    if p == float("inf"):
        return node.reduce("reduce_max", sizes, (axis,))
    if p == 0:
        apart = node.convert(node.test("greater", sizes, 0, type=type), type)
        return node.reduce("reduce_sum", apart, (axis,))
    if p == 1:
        return node.reduce("reduce_sum", sizes, (axis,))
    raised = node.add("mul", sizes, sizes) if p == 2 else node.apply("pow", sizes, p, type=type)
    total = node.reduce("reduce_sum", raised, (axis,))
    return node.add("sqrt", total) if p == 2 else node.apply("pow", total, 1 / p, type=type)


@torch_op("aten.convolution", "aten._convolution")
def convolution(
    node: Context, x: Instruction, weights: Instruction, bias: Instruction | None, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int, *_: Any,
) -> Instruction:  # fmt: skip
    """A convolution or a transposed one; a value without a batch gets one for it."""
    rank = weights.shape.ndim - 2
    single = x.shape.ndim == rank + 1
    found = node.unsqueeze(x, 0) if single else x
    window: dict[str, Any] = {
        "stride": _each(node, stride, rank),
        "dilation": _each(node, dilation, rank),
        "padding": _each(node, padding, rank),
        "group": node.whole(groups, "the number of groups"),
    }
    if transposed:
        found = _transposed(node, found, weights, window, _each(node, output_padding, rank))
    else:
        found = node.add("convolution", found, weights, **window)
    if bias is not None:
        found = node.add("add", found, node.broadcast(bias, 1, node.lens(found)))
    return node.squeeze(found, 0) if single else found


def _each(node: Context, given: Ints, rank: int) -> tuple[int, ...]:
    found = node.ints(given, "a window")
    return found * rank if len(found) == 1 else found


def _transposed(
    node: Context,
    x: Instruction,
    weights: Instruction,
    window: dict[str, Any],
    extra: tuple[int, ...],
) -> Instruction:
    if not any(extra):
        return node.add("convolution_backwards", x, weights, **window)
    (found,) = node.operator(
        "ConvTranspose", x, weights, strides=window["stride"], dilations=window["dilation"],
        pads=window["padding"] * 2, group=window["group"], output_padding=extra,
    )  # fmt: skip
    return found


@torch_op("aten.convolution_backward")
def convolution_backward(
    node: Context, given: Instruction, x: Instruction, weights: Instruction, _: Any, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int, mask: Sequence[bool],
) -> list[Instruction | None]:  # fmt: skip
    """The gradients of a convolution's input, weights and bias, by the operation's own rule."""
    rank = weights.shape.ndim - 2
    pads, extra = _each(node, padding, rank), _each(node, output_padding, rank)
    slope = given
    if transposed and any(extra):  # as if nothing had been cut off
        slope = _grown(node, given, pads, [p - e for p, e in zip(pads, extra, strict=True)])
        pads = (0,) * rank
    op = make(
        "convolution_backwards" if transposed else "convolution",
        stride=_each(node, stride, rank),
        dilation=_each(node, dilation, rank),
        padding=pads,
        group=node.whole(groups, "the number of groups"),
    )
    op = op.normalized([x.shape, weights.shape])
    values = [node.value(v) for v in (slope, x, weights)]
    found = op.gradient(values[0], values[0], *values[1:]) if any(mask[:2]) else [None, None]
    made: list[Instruction | None] = [
        v.instruction if v is not None and wanted else None
        for v, wanted in zip(found, mask, strict=False)
    ]
    axes = [a for a in range(given.shape.ndim) if a != 1]
    return [*made, node.reduce("reduce_sum", given, axes) if mask[2] else None]


def _grown(
    node: Context, x: Instruction, begins: Sequence[int], ends: Sequence[int]
) -> Instruction:
    """A value with zeros around its spatial axes; a negative end cuts off."""
    grown = [max(0, e) for e in ends]
    x = node.add("pad", x, pads=(0, 0, *begins, 0, 0, *grown))
    axes = [2 + k for k, e in enumerate(ends) if e < 0]
    stops = [node.lens(x)[a] + ends[a - 2] for a in axes]
    return node.slice(x, axes, [0] * len(axes), stops) if axes else x
