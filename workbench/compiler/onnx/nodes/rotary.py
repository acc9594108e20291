"""Rotary position embedding: pairs of elements rotated by an angle that grows with the position."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import expand
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.attention import MICROSOFT, heads_first, merged
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Rotary position embedding, which rotates pairs of elements by an angle."""
    node.expect(inputs, 4)
    if node.flag("is_packed_batching"):
        raise node.fail("is_packed_batching=1 is not supported")
    if node.strict:
        _check(node, inputs)
    x, positions, cosines, sines = inputs
    flat = x.shape.ndim == 3
    if flat:
        batch, length, width = node.lens(x)
        count = node.integer("num_heads", 0) or width // (node.lens(cosines)[-1] * 2)
        x = heads_first(node, node.reshape(x, batch, length, count, width // count))
    interleaved = node.flag("interleaved")
    result = turned(node, x, positions, (cosines, sines), interleaved=interleaved)
    return merged(node, result) if flat else result


def _check(node: NodeContext, inputs: list[Instruction]) -> None:
    """Refuse what MIGraphX refuses: lens that do not match, and one of two attributes without the other."""
    heads, width = node.integer("num_heads", 0), node.integer("rotary_embedding_dim", 0)
    if node.number("scale", 1.0) != 1:
        raise node.fail(f"scale={node.number('scale')}; expected 1")
    if bool(heads) != bool(width):
        raise node.fail(f"num_heads={heads}, rotary_embedding_dim={width}; expected both or none")
    x, positions, cosines, sines = (node.fixed(node.lens(i), "lengths of") for i in inputs)
    if len(x) not in {3, 4}:
        raise node.fail(f"input {inputs[0].shape}; expected 3 or 4 dimensions")
    steps = (x[0], x[-2])
    if not node.rank(inputs[1]) or positions not in {(1,), steps}:
        raise node.fail(f"positions {inputs[1].shape}; expected one or {list(steps)}")
    whole = x[1] * x[3] if len(x) == 4 else x[2]
    size = whole // (x[1] if len(x) == 4 else heads) if len(x) == 4 or heads else cosines[-1] * 2
    if width > size:
        raise node.fail(
            f"rotary_embedding_dim={width}; expected at most {size}, the size of a head"
        )
    if cosines != sines or (width or size) // 2 != cosines[-1]:
        shapes = f"{inputs[2].shape} and {inputs[3].shape}"
        raise node.fail(f"tables {shapes}; expected equal ones of {(width or size) // 2} columns")


def turned(
    node: NodeContext,
    x: Instruction,
    positions: Instruction,
    tables: tuple[Instruction, Instruction],
    *,
    interleaved: bool,
) -> Instruction:
    """``x`` (batch, heads, length, size) with pairs of its first elements rotated.

    Args:
        node: The node.
        x: The value; the tables determine how many of its elements are rotated.
        positions: One per element of each sequence, or the start of each sequence, or of all.
        tables: Cosines and sines, (position, half of the elements).
        interleaved: Whether pairs are side by side; otherwise half of the elements apart.
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
    """The position of each element of each sequence."""
    if positions.shape.ndim == 2 and node.lens(positions) == (batch, length):
        return positions
    start = node.reshape(positions, node.count(positions), 1)
    steps = node.counted(positions.shape.type, length)
    return node.fit(node.common("add", start, steps), (batch, length))
