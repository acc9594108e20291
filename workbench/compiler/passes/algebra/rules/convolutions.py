"""Rules about one convolution: factors per channel move into its weights, a broadcast input shrinks."""

from __future__ import annotations

from math import prod

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.convolve import Convolution
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.windows import PaddingMode
from workbench.compiler.passes.algebra.rules.linear import finite, rounded_again
from workbench.compiler.passes.broadcasting import is_broadcast, laid, moving, varying_axes
from workbench.compiler.passes.shapes.rules.slices import slice_of
from workbench.compiler.rewrite import Decline, Rewriter, constant, op, rule, var


def _of_channels(factor: Instruction) -> bool:
    """Whether a factor is a vector along axis 1, or one element."""
    return (
        set(varying_axes(factor)) <= {1} and sum(n != 1 for n in factor.inputs[0].shape.lens) <= 1
    )


@rule(
    op(
        "mul",
        op("convolution", moving("x"), constant("w"), name="conv").once,
        var("a")
        .when(is_broadcast)
        .where(_of_channels, "it varies along an axis other than the channels"),
    ),
    except_at={Edge.INFINITE},  # a factor that a run makes infinite meets terms of both signs
)
def find_mul_conv(
    b: Rewriter, x: Instruction, w: Instruction, conv: Instruction, a: Instruction
) -> Instruction | Decline:
    """mul(convolution(x, w), a) → convolution(x, mul(w, a)), for a factor a per channel"""
    if reason := rounded_again(w, a):
        return Decline(reason)
    flat = b("squeeze", a.inputs[0])
    lens = w.shape.lens
    if flat.shape.lens == lens[:1]:
        factor = b(Broadcast(axis=0, out_lens=lens), flat)
    else:
        factor = b(Multibroadcast(out_lens=lens), flat)
    return b(conv.op, x, b("mul", factor, w))


@rule(
    op(
        "mul",
        op("slice", op("convolution", var("x"), constant("w"), name="conv"), name="cut").once,
        op("broadcast", constant("scale"), name="a"),
    )
)
def find_mul_slice_conv(
    b: Rewriter,
    x: Instruction,
    w: Instruction,
    conv: Instruction,
    cut: Instruction,
    a: Instruction,
    scale: Instruction,
) -> Instruction | Decline:
    """mul(slice(convolution(x, w)), a) → slice(convolution(x, concat(w…, mul(w, a), w…)))"""
    if not finite(scale):
        return Decline(f"{scale.name} #{scale.id} has infinite elements, or NaN")
    if reason := (_not_per_channel(cut, a) or _slices_in_the_way(conv, cut) or rounded_again(w, a)):
        return Decline(reason)
    others = [u for u in conv.users if u is not cut]
    b.before = min([b.root, *others], key=lambda u: u.order)
    if scale.module is b.module and scale.order >= b.before.order:
        return Decline(f"{scale.name} #{scale.id} comes after another slice of #{conv.id}")
    start, end = _channels(cut)
    taken = _rows(b, w, start, end)
    scaled = b("mul", b("broadcast", scale, axis=0, out_lens=taken.shape.lens), taken)
    pieces = [_rows(b, w, 0, start)] if start else []
    pieces.append(scaled)
    if end != w.shape.lens[0]:
        pieces.append(_rows(b, w, end, w.shape.lens[0]))
    whole = b(conv.op, x, b("concat", *pieces, axis=0))
    answer = b(cut.op, whole)
    for other in others:
        b.module.set_inputs(other, [whole])
    return answer


def _rows(b: Rewriter, weights: Instruction, start: int, end: int) -> Instruction:
    return b("slice", weights, axes=(0,), starts=(start,), ends=(end,))


def _channels(cut: Instruction) -> tuple[int, int]:
    found = slice_of(cut)
    return (found.starts[0], found.ends[0]) if found else (0, 0)


def _not_per_channel(cut: Instruction, a: Instruction) -> str:
    """The reason why a factor of a slice is not one factor per channel."""
    found = slice_of(cut)
    if found is None or found.axes != (1,):
        return f"{cut.name} #{cut.id} slices an axis other than the channels"
    if not isinstance(a.op, Broadcast) or a.op.axis != 1 or a.inputs[0].shape.ndim != 1:
        return f"{a.name} #{a.id} is not a vector along the channels"
    return ""


def _slices_in_the_way(conv: Instruction, cut: Instruction) -> str:
    """The reason why the channels of one slice cannot be scaled apart from the others."""
    start, end = _channels(cut)
    for other in conv.users:
        if other is cut:
            continue
        found = slice_of(other) if isinstance(other.op, Slice) else None
        if found is None or other.module is not conv.module:
            return f"{conv.name} #{conv.id} has users that are not slices"
        if other.order < cut.order:
            return f"{other.name} #{other.id} comes before {cut.name} #{cut.id}"
        if found.axes != (1,):
            return f"{other.name} #{other.id} slices an axis other than the channels"
        if max(start, found.starts[0]) < min(end, found.ends[0]):
            return f"{other.name} #{other.id} overlaps {cut.name} #{cut.id}"
    return ""


def _whole(conv: Instruction) -> bool:
    """Whether a convolution has one group and explicit padding."""
    op = conv.op
    return isinstance(op, Convolution) and op.group == 1 and op.padding_mode is PaddingMode.DEFAULT


@rule(
    op(
        "convolution",
        op("broadcast|multibroadcast", var("x"), name="input"),
        constant("w"),
        name="conv",
    ).where(_whole, "it is grouped, or padded automatically"),
    except_at={Edge.INFINITE},  # weights of both signs are added before they meet the input
)
def find_conv_broadcast_input(
    b: Rewriter, conv: Instruction, input: Instruction, x: Instruction, w: Instruction
) -> Instruction | Decline:
    """convolution(broadcast(x), w) → broadcast(dot(x, sums of w)), for one value a channel"""
    if reason := _not_one_a_channel(input, x):
        return Decline(reason)
    if not conv.shape.elements:
        return Decline("its result is empty")
    n, channels = input.shape.lens[:2]
    pads = _pads(conv)
    if any(map(sum, pads)):
        return _bordered(b, conv, input, w, pads)
    spatial = tuple(range(2, w.shape.ndim))
    sums = b.reshape(b("reduce_sum", w, axes=spatial), w.shape.lens[:2])
    turned = b("transpose", sums, permutation=(1, 0))
    lone = x.shape.ndim == 1 and n == 1
    flat = b("unsqueeze", x, axes=(0,)) if lone else b.reshape(x, (n, channels))
    values = b("unsqueeze", b("dot", flat, turned), axes=spatial)
    return b(Multibroadcast(out_lens=conv.shape.lens), values)


def _not_one_a_channel(input: Instruction, x: Instruction) -> str:
    """The reason why the input of a convolution is not one value per sample and channel."""
    axes = set(varying_axes(input)) - {0, 1}
    if axes:
        return f"{input.name} #{input.id} varies along the spatial axis {min(axes)}"
    if x.shape.elements != prod(input.shape.lens[:2]) or max(x.shape.lens[2:], default=1) != 1:
        return f"{x.name} #{x.id} is not one value for each sample and channel"
    return ""


def _pads(conv: Instruction) -> list[tuple[int, int]]:
    """The padding before and after each spatial axis."""
    pads = conv.op.normalized([i.shape for i in conv.inputs]).attributes()["padding"]
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:], strict=True))


def _bordered(
    b: Rewriter,
    conv: Instruction,
    input: Instruction,
    w: Instruction,
    pads: list[tuple[int, int]],
) -> Instruction | Decline:
    """A convolution of a window-sized input, its middle result repeated for all windows without padding."""
    attributes = conv.op.attributes()
    if set(attributes["stride"]) | set(attributes["dilation"]) != {1}:
        return Decline("it is padded, and has strides or is dilated")
    inside = [n - sum(p) for n, p in zip(conv.shape.lens[2:], pads, strict=True)]
    if min(inside) < 1:
        return Decline("every window sees some padding")
    if max(inside) == 1:
        return Decline("a single window sees no padding")
    value = b(conv.op, laid(b, input, input.shape.lens[:2] + w.shape.lens[2:]), w)
    for axis, (before, after), count in zip(range(2, w.shape.ndim), pads, inside, strict=True):
        if count != 1:
            value = _stretched(b, value, axis, before, after, count)
    return value


def _stretched(
    b: Rewriter, value: Instruction, axis: int, before: int, after: int, count: int
) -> Instruction:
    """A value with its middle element along an axis repeated ``count`` times."""

    def piece(start: int, end: int) -> Instruction:
        return b("slice", value, axes=(axis,), starts=(start,), ends=(end,))

    lens = value.shape.lens
    pieces = [piece(0, before)] if before else []
    middle = piece(before, before + 1)
    out_lens = (*lens[:axis], count, *lens[axis + 1 :])
    pieces.append(b(Multibroadcast(out_lens=out_lens), middle))
    if after:
        pieces.append(piece(before + 1, before + 1 + after))
    return b("concat", *pieces, axis=axis)
