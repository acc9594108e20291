"""Kernels that copy a tensor, possibly to another layout or element type."""

from __future__ import annotations

from math import prod

from workbench.compiler.ir.dtypes import DType
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.scalar import cast
from workbench.gpu.emit.tensors import Tensors
from workbench.gpu.kernels.elementwise import index_of, lanes_for, memory_order, store
from workbench.gpu.kernels.kernel import Builder, Launch, Place, blocks_of, work_item


def raw(place: Place) -> Place:
    """A place with narrow floats read as integers, so that a copy moves bits without rounding."""
    type = place.shape.type
    bits = DType.of(f"uint{8 * type.size}") if type.is_narrow_float else type
    return Place(place.root, place.shape.with_type(bits), place.offset)


def copy(dialect: Dialect, source: Place, target: Place) -> Launch:
    """A kernel that copies a tensor, and converts it if the element types differ."""
    if source.shape.type is target.shape.type:
        source, target = raw(source), raw(target)
    count = prod(target.shape.lens)
    lanes = lanes_for(dialect, count, [source, target])
    b = Builder(dialect, "copy", [source, target], lanes)
    read, written = b.memory(source), b.memory(target, writes=True)
    base = work_item(b, count // lanes) * lanes
    order = memory_order(target.shape)
    indices = [index_of(base + lane, target.shape.lens, order, b.w) for lane in range(lanes)]
    tensors: Tensors = b.tensors
    found = [cast(b.w, tensors.load(read, index), target.shape.type) for index in indices]
    store(b, written, indices, found)
    return b.launch(blocks_of(count // lanes))
