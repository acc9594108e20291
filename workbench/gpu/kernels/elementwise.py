"""Elementwise kernels: a work item computes one element of the result, or a few adjacent ones.

On a CPU it computes rows of them, in a loop that compilers make vectors of: what depends on the row alone,
such as a division or a condition, is outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, Variable, linear, split
from workbench.gpu.emit.scalar import Scalar, memory_type, stored
from workbench.gpu.emit.tensors import Indices, Memory, vector_type
from workbench.gpu.kernels.kernel import Builder, Launch, Place, blocks_of, work_item

_SHORTEST = 8
"""Elements of a row on a CPU below which rows do not pay."""
_LONGEST = 4096
"""Most elements of a row that a block computes at a time."""
_BLOCKS, _LEAST = 64, 512
"""Blocks that are enough for a CPU's cores, and elements of a block at least."""


def elementwise(
    dialect: Dialect,
    purpose: str,
    root: Instruction,
    inputs: Sequence[tuple[Instruction, Place]],
    outputs: Sequence[Place],
) -> Launch:
    """A kernel that computes each element of an instruction's results from the inputs.

    Args:
        dialect: The dialect of the device.
        purpose: A few words for the kernel's name.
        root: The instruction; if its result is a tuple, all elements have the same lens.
        inputs: The instructions whose values are in memory, with their places.
        outputs: The places of the results.
    """
    places = [*(p for _, p in inputs), *outputs]
    lens = outputs[0].shape.lens
    count = prod(lens)
    lanes = lanes_for(dialect, count, places)
    b = Builder(dialect, purpose, places, lanes)
    for instruction, place in inputs:
        b.tensors.bind(instruction, b.memory(place))
    targets = [b.memory(p, writes=True) for p in outputs]
    order = memory_order(outputs[0].shape)
    alone = dialect.machine.is_cpu and not dialect.machine.access
    if alone and order and lens[order[-1]] >= _SHORTEST:
        return _by_rows(b, root, targets, order)
    base = work_item(b, count // lanes) * lanes
    indices = [index_of(base + lane, lens, order, b.w) for lane in range(lanes)]
    for part, target in enumerate(targets):
        made = [b.tensors.at(root, index, part) for index in indices]
        store(b, target, indices, made)
    return b.launch(blocks_of(count // lanes))


def _by_rows(
    b: Builder, root: Instruction, targets: Sequence[Memory], order: Sequence[int]
) -> Launch:
    """The kernel for a CPU: a block is one work item with some rows, or with a piece of a long one."""
    w, lens = b.w, targets[0].shape.lens
    *outer, inner = (lens[a] for a in order)
    length = min(inner, _LONGEST)
    rows = (*outer, -(-inner // length))
    each = max(-(-prod(rows) // _BLOCKS), -(-_LEAST // length))
    blocks = -(-prod(rows) // each)
    block = w.define(w.integer_type, f"({w.integer_type})GROUP(0)", "g")
    with w.loop(min(each, prod(rows))) as turn:
        text = (Index.of(Variable(block, 0, blocks - 1)) * each + turn).text()
        if blocks * each > prod(rows):
            w.line(f"if ({text} >= {prod(rows)}) break;")
        row = Index.of(Variable(w.integer(text), 0, prod(rows) - 1))
        *parts, piece = split(row, rows, w)
        start = (piece * length).text()
        left = f"({inner} - {start} < {length} ? {inner} - {start} : {length})"
        name = w.name("l")
        count = length if inner % length == 0 else left
        with w.block(f"for ({w.integer_type} {name} = 0; {name} < {count}; ++{name})"):
            place = [*parts, piece * length + Index.of(Variable(name, 0, length - 1))]
            index = tuple(place[list(order).index(a)] for a in range(len(lens)))
            for part, target in enumerate(targets):
                store(b, target, [index], [b.tensors.at(root, index, part)])
    return b.launch(blocks, 1)


def lanes_for(dialect: Dialect, count: int, places: Sequence[Place]) -> int:
    """The number of adjacent elements per work item: 16 bytes of the widest type, if that divides."""
    if not dialect.machine.access:
        return 1
    lanes = dialect.machine.access // max(p.shape.type.size for p in places)
    while lanes > 1 and (count % lanes or count // lanes < dialect.machine.busy):
        lanes //= 2
    return max(lanes, 1)


def memory_order(shape: Shape) -> list[int]:
    """The axes from the largest stride to the smallest, after those of length 1."""
    ones = [a for a in range(shape.ndim) if shape.lens[a] == 1]
    rest = [a for a in range(shape.ndim) if shape.lens[a] != 1]
    return [*ones, *sorted(rest, key=lambda a: -shape.strides[a])]


def index_of(flat: Index, lens: Sequence[int], order: Sequence[int], w: object) -> Indices:
    """The index of an element from its position in an order of axes."""
    parts = split(flat, [lens[a] for a in order], w)  # pyright: ignore[reportArgumentType]
    return tuple(parts[list(order).index(a)] for a in range(len(lens)))


def store(b: Builder, target: Memory, indices: Sequence[Indices], values: Sequence[Scalar]) -> None:
    """Store adjacent elements, as one vector if they are adjacent in memory."""
    offsets = [linear(i, target.shape.strides, target.offset) for i in indices]
    texts = [stored(b.w, v) for v in values]
    lanes, first = len(offsets), offsets[0]
    together = all(o == first + k for k, o in enumerate(offsets))
    if lanes > 1 and together and not first.divisor % lanes and not first.constant % lanes:
        kind = memory_type(target.shape.type)
        vector = vector_type(b.w, kind, lanes)
        name = b.w.name("o")
        b.w.line(f"{vector} {name};")
        for lane, text in enumerate(texts):
            b.w.line(f"{name}.v[{lane}] = {text};")
        b.w.line(f"*(GLOBAL {vector} *)({target.name} + {first.text()}) = {name};")
        return
    for offset, text in zip(offsets, texts, strict=True):
        b.w.line(f"{target.name}[{offset.text()}] = {text};")
