"""Operations on dynamic lengths, replaced by static ones where the lengths are known."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of, ranged
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ir.shape import Dim, Shape, broadcast_lens
from workbench.compiler.ops.control import SelectModule
from workbench.compiler.ops.dims import PadBy
from workbench.compiler.ops.movement import Pad
from workbench.compiler.ops.resize import Resize
from workbench.compiler.ops.select import OneHot
from workbench.compiler.ops.view import DimensionsOf
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, constant, op, rule, var
from workbench.compiler.run.constants import MAX_FOLDED_BYTES, evaluate_constant


def static(name: str) -> Pattern:
    """A pattern variable for a tensor whose lengths are all known."""
    return var(name).when(lambda i: i.shape.is_tensor and i.shape.dims is None)


def known(instruction: Instruction) -> list[Any]:
    """The elements of a constant."""
    return evaluate_constant(instruction).reshape(-1).tolist()


@rule(op("broadcast_with_dims", static("x"), constant("dims")), dynamic=True)
def find_broadcast_with_dims_static(
    b: Rewriter, x: Instruction, dims: Instruction
) -> Instruction | Decline:
    """broadcast_with_dims(x, [2, 3]) → multibroadcast[out_lens={2, 3}](x)"""
    try:
        return b("multibroadcast", x, out_lens=broadcast_lens(x.shape.lens, known(dims)))
    except ShapeError as error:
        return Decline(f"{x.name} #{x.id}: {error}")


@rule(op("resize", static("x"), constant("target")), dynamic=True)
def find_resize_static(b: Rewriter, x: Instruction, target: Instruction) -> Instruction | Decline:
    """resize(x, sizes or scales) → resize[sizes or scales](x)"""
    before = b.root.op
    assert isinstance(before, Resize)
    given = known(target)
    is_sizes = not target.shape.type.is_float
    lens = given if is_sizes else [int(n * s) for n, s in zip(x.shape.lens, given, strict=True)]
    if min(lens, default=0) < 0:
        return Decline(
            f"{target.name} #{target.id} gives the lens {list(lens)}, which fail at run time"
        )
    if any(m and not n for n, m in zip(x.shape.lens, lens, strict=True)):
        return Decline(
            f"{x.name} #{x.id} is {x.shape}, empty: it cannot be resized to {list(lens)}"
        )
    attributes: dict[str, Any] = before.attributes() | {"sizes": (), "scales": ()}
    attributes["sizes" if is_sizes else "scales"] = tuple(given)
    return b(Resize(**attributes), x)


@rule(op("dimensions_of"), dynamic=True)
def find_static_dimensions_of(b: Rewriter) -> Instruction | Decline:
    """dimensions_of[start, end](x) → the lengths"""
    before, x = b.root.op, b.root.inputs[0]
    assert isinstance(before, DimensionsOf)
    dims = dims_of(x.shape)[before.start : before.end]
    if ranges := [d for d in dims if not d.is_fixed]:
        return Decline(f"{x.name} #{x.id}: a length of {ranges[0]} is known only at run time")
    return b.literal(np.array([d.min for d in dims], np.int64))


@rule(op("reshape", var("x"), op("allocate").when(lambda i: i.is_constant)), dynamic=True)
def find_const_alloc_reshapes(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """reshape(x, allocate([2, 3])) → reshape[dims={2, 3}](x)"""
    return _reshaped(b, x, known(b.root.inputs[1].inputs[0]))


def _reshaped(b: Rewriter, x: Instruction, dims: Sequence[int]) -> Instruction | Decline:
    copied = [n for i, n in enumerate(dims) if not n and x.shape.lens[i : i + 1] != (0,)]
    if copied:
        return Decline("a length of 0 as an attribute would mean the operand's length")
    if x.shape.dims is None and prod(dims) != prod(x.shape.lens):
        return Decline(
            f"{x.name} #{x.id} is {x.shape}, with a different number of elements than {list(dims)}"
        )
    return b("reshape", x, dims=tuple(dims))


@rule(op("broadcast|multibroadcast").when(lambda i: len(i.inputs) > 1))
def find_static_2in_broadcasts(b: Rewriter) -> Instruction:
    """multibroadcast(x, y) → multibroadcast[out_lens=lens of both](x)"""
    root = b.root
    lens = {"out_lens": root.shape.lens, "out_dyn_dims": ()}
    return b(type(root.op)(**(root.op.attributes() | lens)), root.inputs[0])


def _sliced(b: Rewriter) -> Instruction | Decline:
    root = b.root
    x, *given = root.inputs
    bounds = {k: root.op.attributes()[k] for k in ("starts", "ends", "axes")}
    read = iter(given)
    found = {k: tuple(v) or tuple(known(next(read))) for k, v in bounds.items()}
    return b("slice", x, **found)


@rule(op("slice", var("x"), constant("y")), dynamic=True)
def find_const_2in_slice(b: Rewriter) -> Instruction | Decline:
    """slice[axes, ends](x, starts) → slice[axes, starts, ends](x)"""
    return _sliced(b)


@rule(op("slice", var("x"), constant("y"), constant("z")), dynamic=True)
def find_const_3in_slice(b: Rewriter) -> Instruction | Decline:
    """slice[axes](x, starts, ends) → slice[axes, starts, ends](x)"""
    return _sliced(b)


@rule(op("slice", var("x"), constant("y"), constant("z"), constant("w")), dynamic=True)
def find_const_4in_slice(b: Rewriter) -> Instruction | Decline:
    """slice(x, starts, ends, axes) → slice[axes, starts, ends](x)"""
    return _sliced(b)


@rule(op("fill", constant("x"), op("allocate", constant("dims"))), dynamic=True)
def find_const_alloc_fill(b: Rewriter, x: Instruction, dims: Instruction) -> Instruction | Decline:
    """fill(c, allocate([2, 3])) → a literal"""
    lens = known(dims) or [1]
    if prod(lens) * x.shape.type.size > MAX_FOLDED_BYTES or min(lens) < 0:
        return Decline(f"a literal of lens {lens} would be too large")
    value: Array = np.asarray(evaluate_constant(x)).reshape(-1)[0]
    return b.literal(np.full(lens, value, x.shape.type.numpy))


@rule(op("broadcast_for_dot", static("x"), static("y")))
def find_static_broadcast_for_dot(b: Rewriter, x: Instruction) -> Instruction:
    """broadcast_for_dot(x, y) → multibroadcast[out_lens](x)"""
    return b("multibroadcast", x, out_lens=b.root.shape.lens)


@rule(
    op("onehot").when(lambda i: i.inputs[0].shape.dims is None),
    dynamic=True,
    except_at={Edge.NAN, Edge.INFINITE, Edge.LARGE},  # off + (on - off) is not on for these
)
def find_static_onehot(b: Rewriter) -> Instruction | Decline:
    """onehot(i, n, [off, on]) → off + (on - off) · (ones scattered into zeros at i)"""
    before, (index, *depths, values) = b.root.op, b.root.inputs
    assert isinstance(before, OneHot)
    if depths and not depths[0].is_constant:
        return Decline(f"the depth, {depths[0].name} #{depths[0].id}, is known only at run time")
    depth = known(depths[0])[0] if depths else before.depth
    if reason := _inexact(index, values, depth or 0):
        return Decline(reason)
    type, axis = values.shape.type, before.axis % (index.shape.ndim + 1)
    lens, ones = list(index.shape.lens), list(index.shape.lens)
    lens.insert(axis, depth or 0)
    ones.insert(axis, 1)
    if prod(lens) * type.size > MAX_FOLDED_BYTES:
        return Decline(f"zeros of lens {lens} would be too large")
    zeros = b.literal(np.zeros(lens, type.numpy))
    at = b("unsqueeze", index, axes=(axis,))
    one = b("multibroadcast", b.scalar(1, type), out_lens=tuple(ones))
    mask = b("scatter_none", zeros, at, one, axis=axis, skip_out_of_bounds=True)
    off = b("slice", values, axes=(0,), starts=(0,), ends=(1,))
    on = b("slice", values, axes=(0,), starts=(1,), ends=(2,))
    change = b("multibroadcast", b("sub", on, off), out_lens=tuple(lens))
    scaled = b("mul", change, mask)
    return b("add", b("multibroadcast", off, out_lens=tuple(lens)), scaled)


def _inexact(index: Instruction, values: Instruction, depth: int) -> str:
    """The reason why off + (on - off) may not equal on, or why nothing is scattered; empty if neither."""
    if not index.shape.elements or not depth:
        return f"{index.name} #{index.id} of {index.shape} and a depth of {depth}: no elements"
    if index.shape.type.is_float or values.shape.type is DType.BOOL:
        return f"indices of {index.shape.type.type_name}, values of {values.shape.type.type_name}"
    if values.is_constant:
        off, on = evaluate_constant(values)
        with np.errstate(all="ignore"):
            if not np.isfinite(on) or off + (on - off) != on:
                return f"off + (on - off) is not on for the values {off} and {on}"
    return ""


# Operations that MIGraphX does not have


@rule(op("reshape_with_dims", static("x"), constant("dims")), dynamic=True)
def find_static_reshape_with_dims(
    b: Rewriter, x: Instruction, dims: Instruction
) -> Instruction | Decline:
    """reshape_with_dims(x, [2, 3]) → reshape[dims={2, 3}](x)"""
    like = np.broadcast_to(np.int8(0), x.shape.lens)
    try:
        lens = b.root.op.compute(like, evaluate_constant(dims)).shape
    except EvaluationError as error:
        return Decline(f"it would fail at run time: {error}")
    return _reshaped(b, x, lens)


@rule(op("expect_dims", static("x")), dynamic=True)
def find_static_expect_dims(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """expect_dims(x) → x, for x of known lengths"""
    return x


@rule(op("pad_by", static("x"), constant("pads"), constant("value")), dynamic=True)
def find_static_pad_by(
    b: Rewriter, x: Instruction, pads: Instruction, value: Instruction
) -> Instruction:
    """pad_by(x, pads, value) → pad[pads, value](x)"""
    before = b.root.op
    assert isinstance(before, PadBy)
    given, rank = known(pads), x.shape.ndim
    sides = [0] * (2 * rank)
    for i, axis in enumerate(before.axes):
        sides[axis % rank] = given[i]
        sides[axis % rank + rank] = given[i + len(before.axes)]
    return b(Pad(mode=before.mode, pads=tuple(sides), value=known(value)[0]), x)


@rule(op("dynamic_range", constant("start"), constant("limit"), constant("delta")), dynamic=True)
def find_static_dynamic_range(
    b: Rewriter, start: Instruction, limit: Instruction, delta: Instruction
) -> Instruction | Decline:
    """dynamic_range(0, 3, 1) → the numbers"""
    first, end, step = (evaluate_constant(i).reshape(-1)[0].item() for i in (start, limit, delta))
    if step and (end - first) / step * start.shape.type.size > MAX_FOLDED_BYTES:
        return Decline(f"the numbers from {first} to {end} by {step} would be too large")
    return b.literal(b.root.op.compute(*map(evaluate_constant, (start, limit, delta))))


# select_module


@rule(op("select_module"), dynamic=True)
def simplify_select_module_output_shape(b: Rewriter) -> Instruction | Decline:
    """select_module[output_dyn_shapes](x) → the same with the shapes that its modules return"""
    root = b.root
    before = root.op
    assert isinstance(before, SelectModule)
    given = [[o.shape for o in m.outputs] for m in root.modules]
    shapes = [_joined(each) for each in zip(*given, strict=True)]
    if None in shapes:
        return Decline("its modules return values that differ in type or rank")
    found = Shape.tuple_of(s for s in shapes if s is not None)
    if not before.output_dyn_shapes.is_tuple or found == before.output_dyn_shapes:
        return Decline("its shapes already are those that its modules return")
    return b(SelectModule(found), *root.inputs, modules=root.modules)


def _joined(shapes: Sequence[Shape]) -> Shape | None:
    """The shape that covers all of these: each axis ranges from its least to its greatest length."""
    first = shapes[0]
    if any(s.subs is not None or (s.type, s.ndim) != (first.type, first.ndim) for s in shapes):
        return None
    if all(s == first for s in shapes):
        return first
    axes = zip(*map(dims_of, shapes), strict=True)
    return ranged(first.type, [Dim(min(d.min for d in a), max(d.max for d in a)) for a in axes])


@register
class SimplifyDynOps(RewritePass):
    """Replace operations on dynamic lengths by static ones where the lengths are known."""

    name = "simplify_dyn_ops"
    rules = (
        find_broadcast_with_dims_static,
        find_resize_static,
        find_static_dimensions_of,
        find_const_alloc_reshapes,
        find_static_2in_broadcasts,
        find_const_2in_slice,
        find_const_3in_slice,
        find_const_4in_slice,
        find_const_alloc_fill,
        find_static_broadcast_for_dot,
        find_static_onehot,
        find_static_reshape_with_dims,
        find_static_expect_dims,
        find_static_pad_by,
        find_static_dynamic_range,
        simplify_select_module_output_shape,
    )
