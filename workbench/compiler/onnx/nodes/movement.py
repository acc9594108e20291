"""Operators that move, slice and reorder elements."""

from __future__ import annotations

from math import prod

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import ANY, dims_of, same_length
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.dynamic import reshaped
from workbench.compiler.onnx.lengths import ANYTHING, Span
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, dim_of, element, known


@onnx_op("Reshape")
def reshape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Other lens for the same elements; 0 keeps a length, −1 follows from the others."""
    x = inputs[0] if inputs else None
    if node.has("shape"):
        node.expect(inputs, 1)
        dims: tuple[int, ...] = node.integers("shape")
    else:
        node.expect(inputs, 2)
        known = node.constant(inputs[1])
        if known is None:
            return _reshaped_at_run_time(node, *inputs)
        dims = tuple(int(d) for d in known.reshape(-1))
    assert x is not None  # expected above
    if any(d < -1 for d in dims):
        raise node.fail(f"shape {list(dims)}; expected no length below −1")
    if not dims:
        return node.squeeze(x, *range(x.shape.ndim)) if node.rank(x) else x
    if x.shape.is_dynamic:
        own = dict(enumerate(node.lens(x) if not node.flag("allowzero") else ()))
        return node.reshape(x, *[d or own.get(i, 0) for i, d in enumerate(dims)])
    if not x.shape.elements:
        return _empty(node, x.shape, dims)
    if node.flag("allowzero") and 0 in dims:
        raise node.fail(
            f"shape {list(dims)} with allowzero for {x.shape}, which has elements; expected no 0"
        )
    return node.reshape(x, *dims)


def _reshaped_at_run_time(node: NodeContext, x: Instruction, shape: Instruction) -> Instruction:
    """A reshape to computed lens, with the ranges that are known of them."""
    spans, own = node.spans(shape), node.lens(x)
    if spans is None:
        raise node.fail(f"shape {shape.shape}; expected a list of known length")
    zero = node.flag("allowzero")
    lens: list[Length] = []
    dims: list[Dim] = []
    for i, span in enumerate(spans):
        copied = own[i] if i < len(own) and not zero else None
        if span.exact == 0 and copied is not None:
            lens.append(copied)
        elif span.exact is not None:
            lens.append(span.exact)
        elif span.low > 0 or (copied is not None and same_length(span.dim, dim_of(copied))):
            lens.append(element(node.module, shape, i, span.dim))
        dims.append(span.dim if span.low > 0 else ANY)
    if len(lens) == len(spans):
        return reshaped(node.module, x, lens, shape, zero)
    return node.add("reshape_with_dims", x, shape, out_dyn_dims=tuple(dims), allowzero=zero)


def _empty(node: NodeContext, x: Shape, dims: tuple[int, ...]) -> Instruction:
    old = x.array_lens
    if not node.flag("allowzero"):
        dims = tuple(old[i] if d == 0 and i < len(old) else d for i, d in enumerate(dims))
    rest = prod(d for d in dims if d >= 0)
    if -1 in dims and rest:
        dims = tuple(0 if d == -1 else d for d in dims)
    if 0 not in dims or -1 in dims:
        raise node.fail(
            f"shape {list(dims)} for a value without elements; expected one without elements"
        )
    return node.literal(Argument(Shape(x.type, dims), np.zeros(0, x.type.numpy)))


def axes_of(node: NodeContext, inputs: list[Instruction]) -> tuple[int, ...]:
    """The axes that a node names, as an input or as an attribute."""
    given = node.optional(inputs, 1)
    if given is not None:
        return node.constant_ints(given, "the list of axes")
    return node.integers("axes", ())


@onnx_op("Squeeze")
def squeeze(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value without some axes of length 1."""
    node.expect(inputs, 1, 2)
    axes, x = axes_of(node, inputs), inputs[0]
    open_ = [d for d in x.shape.dims or () if d.min <= 1 <= d.max and not d.is_fixed]
    if open_ and not axes:
        what = f"a value {x.shape} to squeeze without axes, of which any length may be 1,"
        x = node.literal(node.required_constant(x, what))
    return node.squeeze(node.standard(x), *axes)


@onnx_op("Unsqueeze")
def unsqueeze(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value with additional axes of length 1."""
    node.expect(inputs, 1, 2)
    axes = axes_of(node, inputs)
    if not node.rank(inputs[0]) and len(axes) > 1:
        return node.reshape(inputs[0], *[1] * len(axes))
    return node.unsqueeze(node.standard(inputs[0]), *axes)


@onnx_op("Flatten")
def flatten(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix: the axes before ``axis`` as rows, the others as columns."""
    node.expect(inputs, 1)
    return node.add("flatten", inputs[0], axis=node.integer("axis", 1))


@onnx_op("Transpose")
def transpose(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The axes in another order; reversed unless given."""
    node.expect(inputs, 1)
    rank = inputs[0].shape.ndim
    permutation = node.integers("perm", tuple(reversed(range(rank))))
    if not permutation:
        permutation = tuple(range(rank))
    if sorted(permutation) != list(range(rank)):
        raise node.fail(f"perm={list(permutation)}; expected a permutation of {rank} axes")
    return node.transpose(inputs[0], *permutation)


@onnx_op("Expand")
def expand(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value and given lens broadcast to each other."""
    node.expect(inputs, 2)
    x, wanted = inputs[0], node.lengths_in(inputs[1], "shape")
    if any(d < 0 for d in wanted):
        raise node.fail(f"shape {list(wanted)}; expected no negative length")
    lens = node.common_lens(node.lens(x), wanted)
    if known(lens) is not None and not x.shape.is_dynamic:
        return node.multibroadcast(x, lens)
    dims = [dim_of(n) for n in lens]
    if len(dims) == x.shape.ndim and all(map(same_length, dims, dims_of(x.shape))):
        return x
    return node.expected(node.add("broadcast_with_dims", x, inputs[1]), dims)


@onnx_op("Tile")
def tile(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value repeated along each axis."""
    node.expect(inputs, 2)
    x, repeats = inputs[0], node.lengths_in(inputs[1], "repeats")
    if not (repeats or node.rank(x)):
        return x
    lens = node.lens(x)
    if len(repeats) != len(lens) or any(r < 0 for r in repeats):
        raise node.fail(f"repeats {list(repeats)}; expected {len(lens)} nonnegative numbers")
    split = node.unsqueeze(x, *range(0, 2 * len(lens), 2))
    pairs = [n for pair in zip(repeats, lens, strict=True) for n in pair]
    dims = [r * n for r, n in zip(repeats, lens, strict=True)]
    return node.reshape(node.multibroadcast(split, pairs), *dims)


@onnx_op("Concat")
def concat(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The values concatenated; static empty ones are left out."""
    node.expect(inputs, 1, len(inputs))
    if not any(i.shape.is_dynamic for i in inputs):
        inputs = [i for i in inputs if i.shape.elements] or inputs
    return node.add("concat", *inputs, axis=node.integer("axis", 0))


@onnx_op("DepthToSpace")
def depth_to_space(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Channels as blocks of pixels."""
    node.expect(inputs, 1)
    x, block, mode = inputs[0], node.integer("blocksize"), node.text("mode", "DCR")
    if mode not in {"DCR", "CRD"}:
        raise node.fail(f"mode={mode!r}; expected 'DCR' or 'CRD'")
    n, c, h, w = _image(node, x)
    if block < 1 or c % block**2:
        raise node.fail(f"blocksize={block} with {c} channels; expected its square to divide these")
    deep = c // block**2
    if mode == "DCR":
        dims, permutation = (n, block, block, deep, h, w), (0, 3, 4, 1, 5, 2)
    else:
        dims, permutation = (n, deep, block, block, h, w), (0, 1, 4, 2, 5, 3)
    moved = node.transpose(node.reshape(x, *dims), *permutation)
    return node.reshape(moved, n, deep, h * block, w * block)


@onnx_op("SpaceToDepth")
def space_to_depth(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Blocks of pixels as channels."""
    node.expect(inputs, 1)
    x, b = inputs[0], node.integer("blocksize")
    n, c, h, w = _image(node, x)
    if b < 1 or h % b or w % b:
        raise node.fail(f"blocksize={b} on {h} × {w} pixels; expected a divisor of both")
    mode = node.text("mode", "DCR")
    if mode not in {"DCR", "CRD"}:
        raise node.fail(f"mode={mode!r}; expected 'DCR' or 'CRD'")
    permutation = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = node.transpose(node.reshape(x, n, c, h // b, b, w // b, b), *permutation)
    return node.reshape(blocks, n, c * b * b, h // b, w // b)


def _image(node: NodeContext, x: Instruction) -> tuple[Length, Length, Length, Length]:
    if x.shape.ndim != 4:
        raise node.fail(f"input {x.shape}; expected rank 4")
    n, c, h, w = node.lens(x)
    return n, c, h, w


_MODES = ("constant", "reflect", "edge", "wrap")


@onnx_op("Pad")
def pad(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value with padding, constant or taken from its elements."""
    node.expect(inputs, 1, 4)
    x, mode = inputs[0], node.text("mode", "constant")
    if node.strict and mode != "constant" and x.shape.is_dynamic:
        raise node.fail(f"mode={mode!r} of {x.shape}; expected fixed dimensions")
    if _is_run_time(node, inputs):
        return _padded_at_run_time(node, inputs, mode)
    pads = _pads(node, inputs)
    if not any(pads):
        return node.add("identity", x)
    if mode not in _MODES:
        raise node.fail(f"mode={mode!r}; expected one of {', '.join(_MODES)}")
    value = node.number("value", 0.0)
    given = node.optional(inputs, 2)
    if mode == "constant" and given is not None and not node.is_empty(given):
        known = node.required_constant(given, "the padding value")
        if known.size != 1:
            raise node.fail(f"a padding value of {known.size} elements; expected 1")
        value = float(known.reshape(-1)[0])
    if len(pads) != 2 * x.shape.ndim:
        raise node.fail(f"{len(pads)} pads for rank {x.shape.ndim}; expected twice the rank")
    kind = choice("pad", "mode", mode)
    return node.add("pad", x, pads=pads, value=value, mode=kind)


def _axes_of(node: NodeContext, inputs: list[Instruction]) -> Instruction | None:
    """The list of axes: the last input, or the third if only a list of axes makes sense there."""
    axes = node.optional(inputs, 2)
    if len(inputs) != 3 or axes is None or node.text("mode", "constant") == "constant":
        return node.optional(inputs, 3)
    shape, rank = axes.shape, inputs[0].shape.ndim
    is_list = shape.type in {DType.INT32, DType.INT64} and not shape.is_dynamic and shape.ndim == 1
    if not is_list or shape.elements == rank or inputs[1].shape.elements != 2 * shape.elements:
        return None
    return axes


def _is_run_time(node: NodeContext, inputs: list[Instruction]) -> bool:
    """Whether the pads or the padding value are computed at run time."""
    return any(
        given is not None and node.constant(given) is None
        for given in (node.optional(inputs, 1), node.optional(inputs, 2))
    )


def _padded_at_run_time(node: NodeContext, inputs: list[Instruction], mode: str) -> Instruction:
    x, given = inputs[0], node.optional(inputs, 2)
    rank, named = x.shape.ndim, _axes_of(node, inputs)
    if mode not in _MODES:
        raise node.fail(f"mode={mode!r}; expected one of {', '.join(_MODES)}")
    axes = range(rank) if named is None else node.constant_ints(named, "the list of axes")
    axes = [node.axis(a, rank) for a in axes]
    pads = node.expected(inputs[1], [Dim(2 * len(axes), 2 * len(axes))])
    value = node.scalar(x.shape.type, 0) if given is None else node.single(given)
    dims, spans = list(dims_of(x.shape)), node.spans(pads)
    for i, axis in enumerate(axes):
        added = spans[i] + spans[i + len(axes)] if spans else ANYTHING
        dims[axis] = (Span(dims[axis].min, dims[axis].max, dims[axis].name) + added).dim
    made = node.add("pad_by", x, pads, value, axes=tuple(axes), mode=choice("pad_by", "mode", mode))
    return node.expected(made, dims)


def _pads(node: NodeContext, inputs: list[Instruction]) -> tuple[int, ...]:
    given = node.optional(inputs, 1)
    if given is None:
        return node.integers("pads" if node.has("pads") or not node.has("paddings") else "paddings")
    pads = node.constant_ints(given, "the list of pads")
    named = _axes_of(node, inputs)
    if named is None:
        return pads
    rank = inputs[0].shape.ndim
    axes = [node.axis(a, rank) for a in node.constant_ints(named, "the list of axes")]
    if len(pads) != 2 * len(axes):
        raise node.fail(f"{len(pads)} pads for {len(axes)} axes; expected twice as many")
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis], full[axis + rank] = pads[i], pads[i + len(axes)]
    return tuple(full)
