"""Poolings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import agree, dims_of
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, Size
from workbench.compiler.onnx.windows import DEFAULT, SAME_LOWER, SAME_UPPER, Window, window

MODES = {
    "AveragePool": "average", "GlobalAveragePool": "average", "MaxPool": "max",
    "GlobalMaxPool": "max", "LpPool": "lpnorm", "GlobalLpPool": "lpnorm",
    "QLinearAveragePool": "average", "QLinearGlobalAveragePool": "average",
}  # fmt: skip


@onnx_op("AveragePool", "LpPool")
def pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A pooling over a window."""
    node.expect(inputs, 1)
    return pooled(node, inputs[0], MODES[node.op_type])


@onnx_op("MaxPool")
def max_pool(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The maximum of each window, and its index if that output is used."""
    node.expect(inputs, 1)
    values = pooled(node, inputs[0], "max")
    return [values, _indices(node, inputs[0])] if node.uses_output(1) else [values]


def _indices(node: NodeContext, x: Instruction) -> Instruction:
    lengths = node.integers("kernel_shape")
    made = window(node, x, lengths)
    found = node.add(
        "max_pool_indices",
        x,
        padding=made.padding,
        stride=made.stride,
        lengths=lengths,
        dilations=made.dilation,
        ceil_mode=node.flag("ceil_mode"),
        column_major=node.flag("storage_order"),
    )
    return _trimmed(node, found, _lens(node, x, lengths, made))


@onnx_op("MaxUnpool")
def max_unpool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Maxima scattered back to their indices, zeros elsewhere."""
    node.expect(inputs, 2, 3)
    x, index, given = inputs[0], inputs[1], node.optional(inputs, 2)
    lengths = node.integers("kernel_shape")
    own = node.lens(x)
    same = agree(dims_of(index.shape), dims_of(x.shape))
    if len(lengths) != x.shape.ndim - 2 or not same:
        raise node.fail(
            f"kernel_shape {list(lengths)}, indices {index.shape} for {x.shape}; expected "
            f"{x.shape.ndim - 2} lengths, and indices with the lens of the input"
        )
    made = window(node, x, lengths)
    sides = zip(own[2:], lengths, made.stride, made.begins, made.ends, strict=True)
    lens = (*own[:2], *[(n - 1) * s - b - e + k for n, k, s, b, e in sides])
    zeros = node.filled(x.shape.type, (prod(lens),), 0)
    flat = node.add("scatter_none", zeros, node.reshape(index, -1), node.reshape(x, -1), axis=0)
    result = node.reshape(flat, *lens)
    if given is None:
        return result
    wanted = node.constant_ints(given, "the output's shape")
    if len(wanted) != len(lens) or any(a < b for a, b in zip(wanted, lens, strict=True)):
        raise node.fail(f"output shape {list(wanted)}; expected {list(lens)} or more")
    ends = node.fixed([a - b for a, b in zip(wanted, lens, strict=True)], "margins")
    return node.add("pad", result, pads=(*[0] * len(ends), *ends)) if any(ends) else result


@onnx_op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A pooling over all of the spatial axes."""
    node.expect(inputs, 1)
    return globally_pooled(node, inputs[0], MODES[node.op_type])


def globally_pooled(node: NodeContext, x: Instruction, mode: str) -> Instruction:
    """A pooling over all of the spatial axes."""
    dims = dims_of(x.shape)[2:]
    rank = len(dims)
    is_fixed = all(d.is_fixed for d in dims)
    return node.add(
        "pooling",
        x,
        mode=choice("pooling", "mode", mode),
        padding=(0,) * (2 * rank),
        stride=(1,) * rank,
        dilations=(1,) * rank,
        lengths=tuple(d.max for d in dims) if is_fixed else (),
        lp_order=node.integer("p", 2),
        dyn_global=not is_fixed,
    )


def pooled(node: NodeContext, x: Instruction, mode: str) -> Instruction:
    """A pooling over the window that the node describes."""
    lengths = node.integers("kernel_shape")
    made = window(node, x, lengths)
    if len(lengths) != x.shape.ndim - 2 or min(lengths) < 1:
        raise node.fail(f"kernel_shape {list(lengths)}; expected {x.shape.ndim - 2} lengths")
    counts = node.flag("count_include_pad")
    if node.strict and x.shape.is_dynamic:
        made = _at_run_time(node, made, mode)
    if counts and (any(made.padding) or node.strict):
        return _pooled_padded(node, x, mode, lengths, made)
    if made.is_symmetric or mode == "max":
        return _pooling(node, x, mode, lengths, made)
    return _pooled_asymmetric(node, x, mode, lengths, made)


def _at_run_time(node: NodeContext, made: Window, mode: str) -> Window:
    """The window with automatic padding resolved at run time, as MIGraphX does for ranges of lengths.

    Raises:
        ModelError: The padding must be known at import.
    """
    auto = node.text("auto_pad", "NOTSET").upper()
    if node.flag("count_include_pad"):
        raise node.fail(
            "count_include_pad with ranges of lengths is not supported by strict import"
        )
    if auto.startswith("SAME"):
        zeros = (0,) * len(made.begins)
        code = SAME_UPPER if auto == "SAME_UPPER" else SAME_LOWER
        return replace(made, begins=zeros, ends=zeros, mode=code)
    if mode != "max" and not made.is_symmetric:
        raise node.fail(
            f"pads {list(made.padding)} with ranges of lengths; strict import expects the same "
            "padding on both sides"
        )
    return made


def _pooling(
    node: NodeContext,
    x: Instruction,
    mode: str,
    lengths: tuple[int, ...],
    made: Window,
    lens: Sequence[Length] | None = None,
) -> Instruction:
    result = node.add(
        "pooling",
        x,
        mode=choice("pooling", "mode", mode),
        padding=made.padding,
        padding_mode=made.mode,
        stride=made.stride,
        lengths=lengths,
        dilations=made.dilation,
        ceil_mode=node.flag("ceil_mode"),
        lp_order=node.integer("p", 2),
    )
    if not node.flag("ceil_mode") or made.mode != DEFAULT or node.strict:
        return result
    return _trimmed(node, result, lens or _lens(node, x, lengths, made))


def _trimmed(node: NodeContext, pooled: Instruction, lens: Sequence[Length]) -> Instruction:
    """A pooling without trailing windows that begin in the padding."""
    pairs = zip(lens, node.lens(pooled)[2:], strict=True)
    if all(isinstance(n, Size) or n == m for n, m in pairs):
        return pooled
    return node.slice(pooled, range(2, 2 + len(lens)), [0] * len(lens), lens)


def _pooled_padded(
    node: NodeContext, x: Instruction, mode: str, lengths: tuple[int, ...], made: Window
) -> Instruction:
    """A pooling with an explicit pad, so that the padding counts."""
    value = _lowest(x.shape.type) if mode == "max" else 0.0
    pads = (0, 0, *made.begins, 0, 0, *made.ends)
    padded = node.add("pad", x, pads=pads, value=value)
    zeros = (0,) * len(lengths)
    bare = replace(made, begins=zeros, ends=zeros)
    return _pooling(node, padded, mode, lengths, bare, _lens(node, x, lengths, made))


def _lowest(type: DType) -> float:
    return float(type.format.limits[0])


def _pooled_asymmetric(
    node: NodeContext, x: Instruction, mode: str, lengths: tuple[int, ...], made: Window
) -> Instruction:
    """A pooling with equal padding on both sides; the surplus is cut off."""
    sides: list[int] = []
    starts: list[int] = []
    for begin, end, stride in zip(made.begins, made.ends, made.stride, strict=True):
        skipped = max(0, -((begin - end) // stride))
        sides.append(begin + skipped * stride)
        starts.append(skipped)
    even = replace(made, begins=tuple(sides), ends=tuple(sides), mode=DEFAULT)
    result = _pooling(node, x, mode, lengths, even)
    lens = _lens(node, x, lengths, made)
    stops = [s + n for s, n in zip(starts, lens, strict=True)]
    return node.slice(result, range(2, 2 + len(lens)), starts, stops)


def _lens(
    node: NodeContext, x: Instruction, lengths: tuple[int, ...], made: Window
) -> list[Length]:
    """The spatial lens of the pooling with its true padding.

    A window at least as wide as a stride plus the end padding never begins in that padding.
    """
    lens: list[Length] = []
    ceil = node.flag("ceil_mode")
    for i, n in enumerate(node.lens(x)[2:]):
        wide, stride = (lengths[i] - 1) * made.dilation[i] + 1, made.stride[i]
        room = n + (made.begins[i] + made.ends[i] - wide + (stride - 1 if ceil else 0))
        count = room // stride
        overhangs = ceil and wide < made.ends[i] + stride
        if overhangs and count * stride >= n + made.begins[i]:
            count -= 1
        lens.append(count + 1)
    return lens
