"""Positions as rotations: pairs of elements turned by an angle that grows with the position."""

from __future__ import annotations

from workbench.compiler.ir import Instruction
from workbench.compiler.macros import expand
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.attention import MICROSOFT, heads_first, merged
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Pairs of elements turned by an angle that grows with the position."""
    node.expect(inputs, 4)
    if node.flag("is_packed_batching"):
        raise node.fail("is_packed_batching=1 is not supported")
    x, positions, cosines, sines = inputs
    flat = x.shape.ndim == 3
    if flat:
        batch, length, width = node.lens(x)
        count = node.integer("num_heads", 0) or width // (node.lens(cosines)[-1] * 2)
        x = heads_first(node, node.reshape(x, batch, length, count, width // count))
    interleaved = node.flag("interleaved")
    result = turned(node, x, positions, (cosines, sines), interleaved=interleaved)
    return merged(node, result) if flat else result


def turned(
    node: NodeContext,
    x: Instruction,
    positions: Instruction,
    tables: tuple[Instruction, Instruction],
    *,
    interleaved: bool,
) -> Instruction:
    """``x`` (batch, heads, length, size) with pairs of its first elements turned.

    Args:
        node: The node.
        x: What is turned; the tables say how many of its elements.
        positions: One for each element of each sequence, or where each or every sequence starts.
        tables: Cosines and sines, (position, half of the elements).
        interleaved: Whether pairs are side by side; else they are half of the elements apart.
    """
    size, width = node.lens(x)[3], 2 * node.lens(tables[0])[-1]
    if width > size:
        raise node.fail(f"tables for {width} elements; expected at most {size}, the size of a head")
    if width < size:
        rest = node.slice(x, [-1], [width], [size])
        front = node.slice(x, [-1], [0], [width])
        front = turned(node, front, positions, tables, interleaved=interleaved)
        return node.add("concat", front, rest, axis=-1)
    given, lens = [x, positions, *tables], node.lens(x)
    if not any(v.shape.is_dynamic or not v.shape.elements for v in given):
        options = {"interleaved": interleaved}
        return expand(node.module, None, "rotary_embedding", given, options)[0]
    batch, _, length, _ = lens
    index = _positions(node, positions, batch, length)
    cosine, sine = (node.unsqueeze(node.add("gather", t, index, axis=0), 1) for t in tables)
    half = size // 2
    pairs = (*lens[:3], half, 2) if interleaved else (*lens[:3], 2, half)
    axis = 4 if interleaved else 3
    split = node.reshape(x, *pairs)
    first, second = (node.squeeze(node.slice(split, [axis], [i], [i + 1]), axis) for i in (0, 1))
    left = node.common("sub", node.common("mul", first, cosine), node.common("mul", second, sine))
    right = node.common("add", node.common("mul", first, sine), node.common("mul", second, cosine))
    joined = node.add("concat", node.unsqueeze(left, axis), node.unsqueeze(right, axis), axis=axis)
    return node.reshape(joined, *lens)


def _positions(
    node: NodeContext, positions: Instruction, batch: Length, length: Length
) -> Instruction:
    """A position for each element of each sequence."""
    if positions.shape.ndim == 2 and node.lens(positions) == (batch, length):
        return positions
    start = node.reshape(positions, node.count(positions), 1)
    steps = node.counted(positions.shape.type, length)
    return node.fit(node.common("add", start, steps), (batch, length))
