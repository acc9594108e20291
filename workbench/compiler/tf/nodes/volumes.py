"""Convolutions and poolings of volumes, which have three spatial axes."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.nodes.convolution import convolved, cut, padding, spatial
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


@tf_op("Conv3D")
def conv3d(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution, perhaps grouped."""
    node.expect(inputs, 2)
    x, weights = _first(node, inputs[0]), _kernel(node, inputs[1])
    return _back(node, convolved(node, x, weights))


@tf_op("Conv3DBackpropInputV2")
def conv3d_backprop_input(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A transposed convolution, cut or padded to the given lens."""
    node.expect(inputs, 3)
    stride, dilation = spatial(node, "strides", 3), spatial(node, "dilations", 3)
    sizes = node.constant_ints(inputs[0], "the lens of the result")
    if len(sizes) != 5:
        raise node.fail(f"lens {list(sizes)} of the result; expected 5")
    wanted = sizes[1:4] if node.is_nhwc else sizes[2:]
    x, weights = _first(node, inputs[2]), _kernel(node, inputs[1])
    made = node.add(
        "convolution_backwards", x, weights, padding=(0,) * 3, stride=stride, dilation=dilation
    )
    begins = padding(node, wanted, node.lens(weights)[2:], stride, dilation)[:3]
    return _back(node, cut(node, made, begins, wanted))


@tf_op("AvgPool3D", "MaxPool3D")
def pool3d(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The mean or the maximum of windows."""
    node.expect(inputs, 1)
    stride, lengths = spatial(node, "strides", 3), spatial(node, "ksize", 3)
    x = _first(node, inputs[0])
    made = node.add(
        "pooling",
        x,
        mode="max" if node.op_type == "MaxPool3D" else "average",
        padding=padding(node, node.lens(x)[2:], lengths, stride, (1,) * 3),
        stride=stride,
        lengths=lengths,
        dilations=(1,) * 3,
    )
    return _back(node, made)
