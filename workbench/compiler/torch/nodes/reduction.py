"""Reductions, running sums, softmax and variances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.nodes.elementwise import truth
from workbench.compiler.torch.registry import torch_op

Axes = Sequence[int] | int | None


@torch_op("aten.sum.dim_IntList")
def sum_(node: Context, x: Instruction, dim: Axes, keepdim: bool = False, *_: Any) -> Instruction:
    """The sum along axes, in the type of the result."""
    return _along(node, "reduce_sum", x, dim, keepdim)


@torch_op("aten.sum", "aten.mean", "aten.prod")
def total(node: Context, x: Instruction, *_: Any) -> Instruction:
    """The sum, mean or product of all elements."""
    op = str(node.fx.target).split(".")[1]
    return _along(node, f"reduce_{op}", x, None, keepdim=False)


@torch_op("aten.mean.dim")
def mean(node: Context, x: Instruction, dim: Axes, keepdim: bool = False, *_: Any) -> Instruction:
    """The mean along axes."""
    return _along(node, "reduce_mean", x, dim, keepdim)


@torch_op("aten.prod.dim_int")
def prod(node: Context, x: Instruction, dim: int, keepdim: bool = False, *_: Any) -> Instruction:
    """The product along an axis."""
    return _along(node, "reduce_prod", x, dim, keepdim)


@torch_op("aten.amax")
def amax(node: Context, x: Instruction, dim: Axes = (), keepdim: bool = False) -> Instruction:
    """The largest element along axes."""
    return _extreme(node, "reduce_max", x, dim, keepdim)


@torch_op("aten.amin")
def amin(node: Context, x: Instruction, dim: Axes = (), keepdim: bool = False) -> Instruction:
    """The smallest element along axes."""
    return _extreme(node, "reduce_min", x, dim, keepdim)


@torch_op("aten.max", "aten.min")
def most(node: Context, x: Instruction) -> Instruction:
    """The largest or smallest of all elements."""
    op = str(node.fx.target).split(".")[1]
    return _extreme(node, f"reduce_{op}", x, None, keepdim=False)


@torch_op("aten.any", "aten.any.dim", "aten.any.dims", "aten.all", "aten.all.dim", "aten.all.dims")
def any_(node: Context, x: Instruction, dim: Axes = None, keepdim: bool = False) -> Instruction:
    """Whether some element, or every one, along axes differs from 0."""
    op = "reduce_any" if str(node.fx.target).startswith("aten.any") else "reduce_all"
    axes = node.axes(dim, x.shape.ndim)
    found = node.reduce(op, node.convert(truth(node, x), DType.INT32), axes, keepdim)
    return node.convert(node.convert(found, DType.BOOL), node.dtype())


def _along(node: Context, op: str, x: Instruction, dim: Axes, keepdim: bool) -> Instruction:
    type = node.dtype()
    found = node.reduce(op, node.convert(x, type), node.axes(dim, x.shape.ndim), keepdim)
    return found if found is not x else node.add("identity", x)


def _extreme(node: Context, op: str, x: Instruction, dim: Axes, keepdim: bool) -> Instruction:
    wide = node.convert(x, DType.INT32) if x.shape.type is DType.BOOL else x
    found = node.reduce(op, wide, node.axes(dim, x.shape.ndim), keepdim)
    return node.add("identity", x) if found is x else node.convert(found, x.shape.type)


@torch_op("aten.max.dim", "aten.min.dim")
def extreme_at(node: Context, x: Instruction, dim: int, keepdim: bool = False) -> list[Instruction]:
    """The largest or smallest element along an axis, and its index."""
    op = str(node.fx.target).split(".")[1]
    places = _places(node, f"arg{op}", x, dim, keepdim)
    return [_extreme(node, f"reduce_{op}", x, dim, keepdim), places]


@torch_op("aten.argmax", "aten.argmin")
def arg(
    node: Context, x: Instruction, dim: int | None = None, keepdim: bool = False
) -> Instruction:
    """The index of the first of the largest or smallest elements, along an axis or of all."""
    op = str(node.fx.target).split(".")[1]
    if dim is not None:
        return _places(node, op, x, dim, keepdim)
    found = _places(node, op, node.reshape(x, -1), 0, keepdim=False)
    return node.reshape(found, *[1] * x.shape.ndim) if keepdim and x.shape.ndim else found


def _places(node: Context, op: str, x: Instruction, dim: int, keepdim: bool) -> Instruction:
    if not x.shape.ndim:
        return node.scalar(DType.INT64, 0)
    axis = dim % x.shape.ndim
    wide = node.convert(x, DType.INT32) if x.shape.type is DType.BOOL else x
    if wide.shape.type.is_float:  # NaN counts as the greatest and the smallest
        marked = node.convert(node.add("isnan", wide), DType.BOOL)
        sure = node.reduce("reduce_any", node.convert(marked, DType.INT32), (axis,), keepdim=True)
        first = node.add("argmax", node.convert(marked, DType.INT32), axis=axis)
        plain = node.add(op, wide, axis=axis)
        found = node.choose(node.convert(sure, DType.BOOL), first, plain, DType.INT64)
    else:
        found = node.add(op, wide, axis=axis)
    return found if keepdim else node.squeeze(found, axis)


@torch_op("aten.cumsum", "aten.cumprod")
def running(node: Context, x: Instruction, dim: int, *_: Any) -> Instruction:
    """Running sums or products along an axis."""
    x = node.convert(x, node.dtype())
    if not x.shape.ndim:
        return node.add("identity", x)
    kind = "sum" if "cumsum" in str(node.fx.target) else "prod"
    return node.add(f"prefix_scan_{kind}", x, axis=dim % x.shape.ndim)


@torch_op("aten._softmax", "aten._log_softmax")
def softmax(node: Context, x: Instruction, dim: int, *_: Any) -> Instruction:
    """The softmax along an axis, or its logarithm."""
    op = "logsoftmax" if "log" in str(node.fx.target) else "softmax"
    x = node.convert(x, node.dtype())
    if not x.shape.ndim:
        return node.reshape(node.add(op, node.reshape(x, 1), axis=0))
    return node.add(op, x, axis=dim % x.shape.ndim)


@torch_op("aten.var.correction")
def var(
    node: Context,
    x: Instruction,
    dim: Axes = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> Instruction:
    """The variance along axes; ``correction`` is taken off the number of elements."""
    return variance(
        node, x, node.axes(dim, x.shape.ndim), 1 if correction is None else correction, keepdim
    )


@torch_op("aten.var.dim")
def var_dim(
    node: Context, x: Instruction, dim: Axes, unbiased: bool = True, keepdim: bool = False
) -> Instruction:
    """The variance along axes."""
    return variance(node, x, node.axes(dim, x.shape.ndim), float(unbiased), keepdim)


def variance(
    node: Context, x: Instruction, axes: Sequence[int], correction: float, keepdim: bool
) -> Instruction:
    """The sum of squared differences from the mean, over the number of elements less a correction."""
    type = x.shape.type
    wide = node.convert(x, DType.FLOAT) if type.is_narrow_float else x
    kind = wide.shape.type
    centred = node.apply(
        "sub", wide, node.reduce("reduce_mean", wide, axes, keepdim=True), type=kind
    )
    squares = node.reduce("reduce_sum", node.add("mul", centred, centred), axes, keepdim)
    lens = node.lens(x)
    count = 1
    for axis in axes:
        count = lens[axis] * count
    number = node.operand(count, kind)
    divisor = node.apply("max", node.apply("sub", number, correction, type=kind), 0, type=kind)
    return node.convert(node.apply("div", squares, divisor, type=kind), type)
