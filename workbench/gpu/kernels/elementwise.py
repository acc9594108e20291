"""Elementwise kernels: a work item computes one element of the result, or a few adjacent ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, linear, split
from workbench.gpu.emit.scalar import Scalar, memory_type, stored
from workbench.gpu.emit.tensors import Indices, Memory, vector_type
from workbench.gpu.kernels.kernel import Builder, Launch, Place, blocks_of, work_item


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
    base = work_item(b, count // lanes) * lanes
    order = memory_order(outputs[0].shape)
    indices = [index_of(base + lane, lens, order, b.w) for lane in range(lanes)]
    for part, target in enumerate(targets):
        made = [b.tensors.at(root, index, part) for index in indices]
        store(b, target, indices, made)
    return b.launch(blocks_of(count // lanes))


def lanes_for(dialect: Dialect, count: int, places: Sequence[Place]) -> int:
    """The number of adjacent elements per work item: 16 bytes of the widest type, if that divides."""
    if not dialect.machine.access:
        return 1
    lanes = dialect.machine.access // max(p.shape.type.size for p in places)
    while lanes > 1 and (count % lanes or count // lanes < dialect.machine.busy):
        lanes //= 2
    return max(lanes, 1)


def memory_order(shape: Shape) -> list[int]:
    """The axes from the largest stride to the smallest."""
    return sorted(range(shape.ndim), key=lambda a: -shape.strides[a] if shape.lens[a] > 1 else 0)


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
