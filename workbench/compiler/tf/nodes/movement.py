"""Operators that move elements: reshapes, concatenations, transposes, padding, gathers."""

from __future__ import annotations

from math import prod

from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op


@tf_op("Reshape")
def reshape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The elements in other lens."""
    node.expect(inputs, 2)
    dims = node.constant_ints(inputs[1], "the lens")
    if 0 in dims:
        raise node.fail(f"lens {list(dims)}; a result without elements is not supported")
    return node.reshape(node.standard(inputs[0]), *dims)


@tf_op("ExpandDims")
def expand_dims(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A new axis of length 1."""
    node.expect(inputs, 2)
    axis = node.constant_int(inputs[1], "the axis")
    if inputs[0].shape.is_dynamic:
        return node.unsqueeze(inputs[0], node.axis(axis, node.rank(inputs[0]) + 1))
    lens = list(node.lens(inputs[0]))
    lens.insert(node.axis(axis, len(lens) + 1), 1)
    return node.reshape(inputs[0], *lens)


@tf_op("Squeeze")
def squeeze(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value without axes of length 1: those named, or all."""
    node.expect(inputs, 1)
    axes = node.integers("squeeze_dims", ()) or node.integers("axis", ())
    if not axes:
        axes = tuple(i for i, n in enumerate(node.lens(inputs[0])) if n == 1)
    return node.squeeze(node.standard(inputs[0]), *axes) if axes else inputs[0]


@tf_op("Pack")
def pack(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Values of equal lens along a new axis."""
    node.expect(inputs, 1, len(inputs) or 1)
    axis = node.axis(node.integer("axis", 0), node.rank(inputs[0]) + 1)
    return node.add("concat", *[node.unsqueeze(value, axis) for value in inputs], axis=axis)


@tf_op("Unpack")
def unpack(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The parts of a value along an axis, without that axis."""
    node.expect(inputs, 1)
    lens = node.lens(inputs[0])
    axis = node.axis(node.integer("axis", 0), len(lens))
    return [
        node.squeeze(node.add("slice", inputs[0], axes=(axis,), starts=(i,), ends=(i + 1,)), axis)
        for i in range(lens[axis])
    ]


@tf_op("ConcatV2")
def concat(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The values concatenated."""
    node.expect(inputs, 2, len(inputs))
    axis = node.constant_int(inputs[-1], "the axis")
    return node.add("concat", *inputs[:-1], axis=axis)


@tf_op("Concat")
def old_concat(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The values concatenated, as in ConcatV2, with the axis as first input."""
    node.expect(inputs, 2, len(inputs) or 2)
    return node.add("concat", *inputs[1:], axis=node.constant_int(inputs[0], "the axis"))


@tf_op("Transpose")
def transpose(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The axes in another order."""
    node.expect(inputs, 2)
    permutation = node.constant_ints(inputs[1], "the permutation")
    return node.transpose(inputs[0], *permutation) if permutation else inputs[0]


@tf_op("Pad", "PadV2")
def pad(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value padded with zeros or another constant."""
    node.expect(inputs, 3 if node.op_type == "PadV2" else 2)
    x = node.to_nchw(inputs[0])
    rank = x.shape.ndim
    given = node.constant_ints(inputs[1], "the padding")
    if len(given) != 2 * rank or min(given) < 0:
        raise node.fail(f"padding {list(given)}; expected {2 * rank} nonnegative numbers")
    order = (0, 3, 1, 2) if node.is_nhwc and rank == 4 else range(rank)
    pads = (*(given[2 * i] for i in order), *(given[2 * i + 1] for i in order))
    more = {}
    if node.op_type == "PadV2":
        value = node.required_constant(inputs[2], "the value")
        more = {"value": float(node.one(value.reshape(-1), "the value"))}
    return node.to_nhwc(node.add("pad", x, pads=pads, **more))


@tf_op("GatherV2", "Gather")
def gather(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Parts of a value along an axis, selected by indices."""
    node.expect(inputs, 2, 3)
    if node.integer("batch_dims", 0):
        raise node.fail(f"batch_dims={node.integer('batch_dims')}; expected 0")
    x, indices = inputs[:2]
    axis = node.constant_int(inputs[2], "the axis") if len(inputs) == 3 else 0
    node.axis(axis, node.rank(x))
    return node.add("gather", x, indices, axis=axis)


@tf_op("GatherNd")
def gather_nd(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Parts of a value, each selected by a row of indices."""
    node.expect(inputs, 2)
    return node.add("gathernd", *inputs)


@tf_op("BroadcastTo")
def broadcast_to(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value repeated along axes of length 1, and new ones in front."""
    node.expect(inputs, 2)
    lens = node.constant_ints(inputs[1], "the lens")
    return node.fit(inputs[0], lens) if lens else inputs[0]


@tf_op("Tile")
def tile(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value repeated along each axis."""
    node.expect(inputs, 2)
    x, repeats = inputs[0], node.constant_ints(inputs[1], "the numbers of repeats")
    lens = node.lens(x)
    if len(repeats) != len(lens) or any(r < 1 for r in repeats):
        raise node.fail(f"repeats {list(repeats)}; expected {len(lens)} positive numbers")
    if prod(repeats) == 1:
        return x
    split = node.unsqueeze(x, *range(0, 2 * len(lens), 2))
    pairs = [n for pair in zip(repeats, lens, strict=True) for n in pair]
    spread = node.add("multibroadcast", split, out_lens=tuple(pairs))
    return node.reshape(spread, *(r * n for r, n in zip(repeats, lens, strict=True)))


@tf_op("ReverseV2")
def reverse(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The elements in reverse order along some axes."""
    node.expect(inputs, 2)
    axes = node.constant_ints(inputs[1], "the axes")
    return node.add("reverse", inputs[0], axes=axes) if axes else inputs[0]


@tf_op("DepthToSpace", "SpaceToDepth")
def blocks(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Channels as blocks of pixels, or vice versa."""
    node.expect(inputs, 1)
    size = node.integer("block_size")
    x = inputs[0] if node.is_nhwc else node.transpose(inputs[0], 0, 2, 3, 1)
    if x.shape.ndim != 4 or size < 1:
        raise node.fail(f"blocks of {size} of {x.shape}; expected rank 4, and 1 or more")
    n, h, w, c = node.lens(x)
    if node.op_type == "DepthToSpace":
        if c % (size * size):
            raise node.fail(f"{c} channels; expected a multiple of {size * size}")
        parts = (n, h, w, size, size, c // (size * size))
        lens = (n, h * size, w * size, c // (size * size))
    else:
        if h % size or w % size:
            raise node.fail(f"an image of {h} by {w}; expected multiples of {size}")
        parts = (n, h // size, size, w // size, size, c)
        lens = (n, h // size, w // size, c * size * size)
    cut = node.reshape(node.standard(x), *parts)
    made = node.reshape(node.standard(node.transpose(cut, 0, 1, 3, 2, 4, 5)), *lens)
    return made if node.is_nhwc else node.transpose(made, 0, 3, 1, 2)


@tf_op("SpaceToBatchND", "BatchToSpaceND")
def batches(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Padded images split into blocks that become separate images; or vice versa, with a final crop."""
    node.expect(inputs, 3)
    block = node.constant_ints(inputs[1], "the block")
    rest = node.constant_ints(inputs[2], "the padding")
    lens = node.lens(inputs[0])
    if (
        len(rest) != 2 * len(block)
        or len(block) >= len(lens)
        or min(*block, 1) < 1
        or min(rest) < 0
    ):
        raise node.fail(
            f"blocks {list(block)} and padding {list(rest)} for rank {len(lens)}; expected fewer "
            "blocks than axes, each 1 or more, and two nonnegative numbers for each"
        )
    work = _to_batches if node.op_type == "SpaceToBatchND" else _from_batches
    return work(node, inputs[0], block, (rest[::2], rest[1::2]))


Ints = tuple[int, ...]


def _to_batches(
    node: NodeContext, x: Instruction, block: Ints, pads: tuple[Ints, Ints]
) -> Instruction:
    count = len(block)
    if any(pads[0] + pads[1]):
        zeros = (0,) * (x.shape.ndim - count - 1)
        x = node.add("pad", x, pads=(0, *pads[0], *zeros, 0, *pads[1], *zeros))
    lens = node.lens(x)
    if any(n % b for n, b in zip(lens[1:], block, strict=False)):
        raise node.fail(f"lens {list(lens)} with padding; expected multiples of {list(block)}")
    parts = [m for n, b in zip(lens[1:], block, strict=False) for m in (n // b, b)]
    cut = node.reshape(node.standard(x), lens[0], *parts, *lens[1 + count :])
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    order = (*inner, 0, *outer, *range(2 * count + 1, cut.shape.ndim))
    sizes = [n // b for n, b in zip(lens[1:], block, strict=False)]
    turned = node.standard(node.transpose(cut, *order))
    return node.reshape(turned, lens[0] * prod(block), *sizes, *lens[1 + count :])


def _from_batches(
    node: NodeContext, x: Instruction, block: Ints, crops: tuple[Ints, Ints]
) -> Instruction:
    count, lens = len(block), node.lens(x)
    if lens[0] % prod(block):
        raise node.fail(f"a batch of {lens[0]}; expected a multiple of {prod(block)}")
    batch = lens[0] // prod(block)
    cut = node.reshape(node.standard(x), *block, batch, *lens[1:])
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    order = (count, *pairs, *range(2 * count + 1, cut.shape.ndim))
    sizes = [n * b for n, b in zip(lens[1:], block, strict=False)]
    turned = node.standard(node.transpose(cut, *order))
    made = node.reshape(turned, batch, *sizes, *lens[1 + count :])
    if not any(crops[0] + crops[1]):
        return made
    ends = tuple(n - c for n, c in zip(sizes, crops[1], strict=True))
    axes = tuple(range(1, count + 1))
    return node.add("slice", made, axes=axes, starts=crops[0], ends=ends)
