"""Convolutions and poolings of volumes, which have three spatial axes."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.nodes.convolution import Ints, cut, totals
from workbench.compiler.tf.registry import tf_op

TO_NCDHW = (0, 4, 1, 2, 3)
TO_NDHWC = (0, 2, 3, 4, 1)
KERNEL = (4, 3, 0, 1, 2)
"""The permutation from TensorFlow's kernels ``[D, H, W, in, out]`` to ``[out, in, D, H, W]``."""


def _first(node: NodeContext, value: Instruction) -> Instruction:
    """An input of rank 5, with channels first."""
    if value.shape.ndim != 5:
        raise node.fail(f"input {value.shape}; expected rank 5")
    return node.transpose(value, *TO_NCDHW) if node.is_nhwc else value


def _back(node: NodeContext, value: Instruction) -> Instruction:
    return node.transpose(value, *TO_NDHWC) if node.is_nhwc else value


def _kernel(node: NodeContext, value: Instruction) -> Instruction:
    if value.shape.ndim != 5:
        raise node.fail(f"a kernel {value.shape}; expected rank 5")
    return node.transpose(value, *KERNEL)


def _spatial(node: NodeContext, name: str) -> Ints:
    """The entries for depth, height and width of a list of five."""
    values = node.integers(name, ()) or (1,) * 5
    if len(values) != 5:
        raise node.fail(f"{name} has {len(values)} values; expected 5")
    found = values[1:4] if node.is_nhwc else values[2:]
    rest = (values[0], values[4] if node.is_nhwc else values[1])
    if rest != (1, 1) or min(found) < 1:
        raise node.fail(
            f"{name} {list(values)}; expected 1 for batch and channels, and positive values"
        )
    return found


def _padding(node: NodeContext, lens: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """Begins, then ends, of the spatial axes of these lens."""
    mode = node.text("padding", "VALID")
    if mode not in {"SAME", "VALID"}:
        raise node.fail(f"padding={mode!r}; expected SAME or VALID")
    if mode == "VALID":
        return (0,) * 6
    sums = totals(lens, kernel, stride, dilation)
    return (*(t // 2 for t in sums), *(t - t // 2 for t in sums))


@tf_op("Conv3D")
def conv3d(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution, perhaps grouped."""
    node.expect(inputs, 2)
    stride, dilation = _spatial(node, "strides"), _spatial(node, "dilations")
    x, weights = _first(node, inputs[0]), _kernel(node, inputs[1])
    channels, wanted = node.lens(x)[1], node.lens(weights)[1]
    if wanted == 0 or channels % wanted:
        raise node.fail(
            f"{channels} channels and a kernel for {wanted}; expected a multiple of the kernel's"
        )
    pads = _padding(node, node.lens(x)[2:], node.lens(weights)[2:], stride, dilation)
    group = channels // wanted
    made = node.add(
        "convolution", x, weights, padding=pads, stride=stride, dilation=dilation, group=group
    )
    return _back(node, made)


@tf_op("Conv3DBackpropInputV2")
def conv3d_backprop_input(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A transposed convolution, cut or padded to the given lens."""
    node.expect(inputs, 3)
    stride, dilation = _spatial(node, "strides"), _spatial(node, "dilations")
    sizes = node.constant_ints(inputs[0], "the lens of the result")
    if len(sizes) != 5:
        raise node.fail(f"lens {list(sizes)} of the result; expected 5")
    wanted = sizes[1:4] if node.is_nhwc else sizes[2:]
    x, weights = _first(node, inputs[2]), _kernel(node, inputs[1])
    made = node.add(
        "convolution_backwards", x, weights, padding=(0,) * 3, stride=stride, dilation=dilation
    )
    begins = _padding(node, wanted, node.lens(weights)[2:], stride, dilation)[:3]
    return _back(node, cut(node, made, begins, wanted))


@tf_op("AvgPool3D", "MaxPool3D")
def pool3d(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The mean or the maximum of windows."""
    node.expect(inputs, 1)
    stride, lengths = _spatial(node, "strides"), _spatial(node, "ksize")
    x = _first(node, inputs[0])
    made = node.add(
        "pooling",
        x,
        mode="max" if node.op_type == "MaxPool3D" else "average",
        padding=_padding(node, node.lens(x)[2:], lengths, stride, (1,) * 3),
        stride=stride,
        lengths=lengths,
        dilations=(1,) * 3,
    )
    return _back(node, made)
