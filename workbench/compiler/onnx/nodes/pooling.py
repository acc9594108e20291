"""Poolings."""

from __future__ import annotations

from dataclasses import replace

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.broadcast import dims_of
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.tensors import limits
from workbench.compiler.onnx.windows import DEFAULT, Window, window

MODES = {
    "AveragePool": "average", "GlobalAveragePool": "average", "MaxPool": "max",
    "GlobalMaxPool": "max", "LpPool": "lpnorm", "GlobalLpPool": "lpnorm",
    "QLinearAveragePool": "average", "QLinearGlobalAveragePool": "average",
}  # fmt: skip


@onnx_op("AveragePool", "MaxPool", "LpPool")
def pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A pooling over a window."""
    node.expect(inputs, 1)
    if node.uses_output(1):
        raise node.fail(f"output {node.node.output[1]!r}, the indices, is not supported")
    return pooled(node, inputs[0], MODES[node.op_type])


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
    made = window(node, x, None if x.shape.is_dynamic else lengths)
    if len(lengths) != x.shape.ndim - 2 or min(lengths) < 1:
        raise node.fail(f"kernel_shape {list(lengths)}; expected {x.shape.ndim - 2} lengths")
    if node.flag("count_include_pad") and any(made.padding):
        return _pooled_padded(node, x, mode, lengths, made)
    if made.is_symmetric or mode == "max":
        return _pooling(node, x, mode, lengths, made)
    return _pooled_asymmetric(node, x, mode, lengths, made)


def _pooling(
    node: NodeContext,
    x: Instruction,
    mode: str,
    lengths: tuple[int, ...],
    made: Window,
    lens: list[int] | None = None,
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
    if not node.flag("ceil_mode") or x.shape.is_dynamic or made.mode != DEFAULT:
        return result
    # A last window that begins in the padding does not count.
    lens = lens or _lens(node, x, lengths, made)
    if tuple(lens) == result.shape.lens[2:]:
        return result
    return node.slice(result, range(2, 2 + len(lens)), [0] * len(lens), lens)


def _pooled_padded(
    node: NodeContext, x: Instruction, mode: str, lengths: tuple[int, ...], made: Window
) -> Instruction:
    """The padding made explicit, so that it counts."""
    value = _lowest(x.shape.type) if mode == "max" else 0.0
    pads = (0, 0, *made.begins, 0, 0, *made.ends)
    padded = node.add("pad", x, pads=pads, value=value)
    zeros = (0,) * len(lengths)
    bare = replace(made, begins=zeros, ends=zeros)
    return _pooling(node, padded, mode, lengths, bare, _lens(node, x, lengths, made))


def _lowest(type: DType) -> float:
    return float(limits(type)[0])


def _pooled_asymmetric(
    node: NodeContext, x: Instruction, mode: str, lengths: tuple[int, ...], made: Window
) -> Instruction:
    """A pooling with as much padding on both sides, of which the surplus is cut off."""
    if x.shape.is_dynamic:
        raise node.fail("different padding on both sides needs an input with fixed dimensions")
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


def _lens(node: NodeContext, x: Instruction, lengths: tuple[int, ...], made: Window) -> list[int]:
    """The spatial lens of the pooling with its true padding."""
    lens: list[int] = []
    for i, n in enumerate(x.shape.lens[2:]):
        wide = (lengths[i] - 1) * made.dilation[i] + 1
        room = n + made.begins[i] + made.ends[i] - wide
        ceil = node.flag("ceil_mode")
        count = -(-room // made.stride[i]) if ceil else room // made.stride[i]
        if ceil and count * made.stride[i] >= n + made.begins[i]:
            count -= 1
        lens.append(count + 1)
    return lens
