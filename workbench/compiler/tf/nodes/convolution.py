"""Convolutions, poolings and batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op

KCXY = (3, 2, 0, 1)
"""The permutation from TensorFlow's kernels ``[H, W, in, out]`` to ``[out, in, H, W]``."""

Ints = tuple[int, ...]


def spatial(node: NodeContext, name: str, axes: int = 2) -> Ints:
    """The entries for the spatial axes of a list that has the batch and the channels too."""
    values = node.integers(name, ()) or (1,) * (axes + 2)
    if len(values) != axes + 2:
        raise node.fail(f"{name} has {len(values)} values; expected {axes + 2}")
    found = values[1:-1] if node.is_nhwc else values[2:]
    rest = (values[0], values[-1] if node.is_nhwc else values[1])
    if rest != (1, 1) or min(found) < 1:
        raise node.fail(
            f"{name} {list(values)}; expected 1 for batch and channels, and positive values"
        )
    return found


def padding(node: NodeContext, lens: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """Begins, then ends, of the spatial axes of an input of these lens; one zero each for none."""
    mode = node.text("padding", "VALID")
    explicit = len(lens) == 2  # TensorFlow has it for images only
    if explicit and mode == "EXPLICIT":
        return _explicit(node)
    if mode not in {"SAME", "VALID"}:
        known = "SAME, VALID or EXPLICIT" if explicit else "SAME or VALID"
        raise node.fail(f"padding={mode!r}; expected {known}")
    if mode == "VALID":
        return (0,) * len(lens)
    sums = totals(lens, kernel, stride, dilation)
    return (*(t // 2 for t in sums), *(t - t // 2 for t in sums))


def _groups(node: NodeContext, x: Instruction, weights: Instruction) -> int:
    """The groups of channels of an input with its channels first, each as wide as the kernel."""
    channels, wanted = node.lens(x)[1], node.lens(weights)[1]
    if wanted == 0 or channels % wanted:
        raise node.fail(
            f"{channels} channels and a kernel for {wanted}; expected a multiple of the kernel's"
        )
    return channels // wanted


def _explicit(node: NodeContext) -> Ints:
    values = node.integers("explicit_paddings", ())
    if len(values) != 8 or min(values) < 0:
        raise node.fail(f"explicit_paddings {list(values)}; expected 8 nonnegative values")
    pairs = list(zip(values[::2], values[1::2], strict=True))
    found = pairs[1:3] if node.is_nhwc else pairs[2:]
    if any(map(any, (p for p in pairs if p not in found))):
        raise node.fail("padding of the batch or of channels; expected height and width only")
    return (*(p[0] for p in found), *(p[1] for p in found))


def image(node: NodeContext, value: Instruction) -> Instruction:
    """An input of rank 4, with channels first."""
    if value.shape.ndim != 4:
        raise node.fail(f"input {value.shape}; expected rank 4")
    return node.to_nchw(value)


def _kernel(node: NodeContext, value: Instruction, *permutation: int) -> Instruction:
    if value.shape.ndim != 4:
        raise node.fail(f"a kernel {value.shape}; expected rank 4")
    laid_out = node.importer.laid_out.get(value)
    if laid_out is not None and node.is_nhwc:
        value = node.to_nchw(laid_out)
    return node.transpose(value, *permutation)


@tf_op("Conv2D")
def conv2d(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution, perhaps grouped."""
    node.expect(inputs, 2)
    x = image(node, inputs[0])
    return node.to_nhwc(convolved(node, x, _kernel(node, inputs[1], *KCXY)))


def convolved(node: NodeContext, x: Instruction, weights: Instruction) -> Instruction:
    """The convolution of an input with a kernel, both with their channels first, as the node says."""
    lens, kernel = node.lens(x)[2:], node.lens(weights)[2:]
    stride, dilation = (spatial(node, name, len(lens)) for name in ("strides", "dilations"))
    return node.add(
        "convolution",
        x,
        weights,
        padding=padding(node, lens, kernel, stride, dilation),
        stride=stride,
        dilation=dilation,
        group=_groups(node, x, weights),
    )


@tf_op("DepthwiseConv2dNative")
def depthwise(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution of each channel separately, into as many channels as the multiplier."""
    node.expect(inputs, 2)
    stride, dilation = spatial(node, "strides"), spatial(node, "dilations")
    x = image(node, inputs[0])
    height, width, channels, multiplier = node.lens(inputs[1])
    # Results are ordered by channel; with a multiplier of 1, MIGraphX's axis order is equivalent.
    weights = _kernel(node, inputs[1], *(KCXY if multiplier == 1 else (2, 3, 0, 1)))
    pads = padding(node, node.lens(x)[2:], (height, width), stride, dilation)
    if pads[:2] == pads[2:]:
        pads = pads[:2]
    if len(pads) == 4:
        x = node.add("pad", x, pads=(0, 0, *pads[:2], 0, 0, *pads[2:]))
    rows = node.reshape(node.standard(weights), channels * multiplier, 1, height, width)
    made = node.add(
        "convolution",
        x,
        rows,
        padding=pads if len(pads) == 2 else (0, 0),
        stride=stride,
        dilation=dilation,
        group=node.lens(x)[1],
    )
    return node.to_nhwc(made)


@tf_op("Conv2DBackpropInput")
def conv2d_backprop_input(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A transposed convolution, cut or padded to the given lens."""
    node.expect(inputs, 3)
    stride, dilation = spatial(node, "strides"), spatial(node, "dilations")
    sizes = node.constant_ints(inputs[0], "the lens of the result")
    if len(sizes) != 4:
        raise node.fail(f"lens {list(sizes)} of the result; expected 4")
    wanted = sizes[1:3] if node.is_nhwc else sizes[2:]
    weights = _kernel(node, inputs[1], *KCXY)
    x = image(node, inputs[2])
    kernel = node.lens(weights)[2:]
    made = node.add("convolution_backwards", x, weights, stride=stride, dilation=dilation)
    begins = padding(node, wanted, kernel, stride, dilation)[:2]
    return node.to_nhwc(cut(node, made, begins, wanted))


def totals(lens: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> list[int]:
    """The total padding that gives one window per started stride."""
    return [
        max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        for n, k, s, d in zip(lens, kernel, stride, dilation, strict=True)
    ]


def cut(node: NodeContext, made: Instruction, begins: Ints, wanted: Ints) -> Instruction:
    """The part of a full result that starts at ``begins``, padded with zeros if it is too short."""
    lens = node.lens(made)[2:]
    missing = [max(0, b + w - n) for b, w, n in zip(begins, wanted, lens, strict=True)]
    if any(missing):
        made = node.add("pad", made, pads=(0,) * (4 + len(missing)) + tuple(missing))
    ends = tuple(b + w for b, w in zip(begins, wanted, strict=True))
    if not any(begins) and ends == node.lens(made)[2:]:
        return made
    axes = tuple(range(2, 2 + len(wanted)))
    return node.add("slice", made, axes=axes, starts=begins, ends=ends)


@tf_op("AvgPool", "MaxPool")
def pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The mean or the maximum of windows."""
    node.expect(inputs, 1)
    stride, lengths = spatial(node, "strides"), spatial(node, "ksize")
    x = image(node, inputs[0])
    mode = "max" if node.op_type == "MaxPool" else "average"
    pads = padding(node, node.lens(x)[2:], lengths, stride, (1, 1))
    made = node.add("pooling", x, mode=mode, padding=pads, stride=stride, lengths=lengths)
    return node.to_nhwc(made)


@tf_op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Batch normalisation with a known mean and variance."""
    node.expect(inputs, 5)
    if node.flag("is_training", default=False):
        raise node.fail("is_training is set; expected a graph frozen for inference")
    x = inputs[0] if inputs[0].shape.ndim == 5 else image(node, inputs[0])
    small = node.scalar(x.shape.type, node.number("epsilon", 1e-4))
    scale, bias, mean, variance = (_beside(node, v, x) for v in _vectors(node, inputs[1:]))
    centred = node.common("sub", x, mean)
    inverse = node.add("rsqrt", node.common("add", variance, small))
    weight = node.common("mul", scale, inverse)
    made = node.common("add", node.common("mul", centred, weight), bias)
    return node.typed(node.to_nhwc(made), inputs[0].shape.type)


def _beside(node: NodeContext, vector: Instruction, x: Instruction) -> Instruction:
    """A vector of one element per channel, with axes of length 1 for those after the channels."""
    is_last = node.is_nhwc and x.shape.ndim != 4
    return vector if is_last else node.unsqueeze(vector, *range(1, x.shape.ndim - 1))


def _vectors(node: NodeContext, inputs: Sequence[Instruction]) -> Sequence[Instruction]:
    for given, what in zip(inputs, ("scale", "offset", "mean", "variance"), strict=True):
        if given.shape.ndim != 1:
            raise node.fail(f"{what} is {given.shape}; expected one dimension")
    return inputs
