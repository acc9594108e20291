"""Gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ops.accumulate import is_narrow
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor, ints
from workbench.compiler.stablehlo.write.operations.movement import cast_index, taken
from workbench.compiler.stablehlo.write.registry import writes


def _axis(call: Call) -> int:
    return int(call.op.axis)


@writes("gather")
def gather(call: Call) -> Tensor:
    """Slices along an axis."""
    x, index = call.inputs
    return taken(call.to, x, cast_index(call.to, index, x.lens[_axis(call)]), _axis(call))


@writes("gather_elements")
def gather_elements(call: Call) -> Tensor:
    """Elements at places along an axis: the other coordinates are those of the place itself."""
    x, index = call.inputs
    axis = _axis(call)
    places = coordinates(call.to, cast_index(call.to, index, x.lens[axis]), axis)
    return _elements(call.to, x, places)


def coordinates(to: Lines, index: Tensor, axis: int) -> Tensor:
    """The coordinates of places along a last axis, of which one is data and the others their own."""
    lens = (*index.lens, 1)
    parts = [
        to.reshape(index if a == axis else to.iota(DType.INT64, index.lens, a), lens)
        for a in range(len(index.lens))
    ]
    return to.concat(parts, len(index.lens)) if len(parts) > 1 else parts[0]


def _elements(to: Lines, x: Tensor, places: Tensor) -> Tensor:
    rank = len(x.lens)
    every = ", ".join(map(str, range(rank)))
    numbers = (
        f"dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [{every}], start_index_map = "
        f"[{every}], index_vector_dim = {len(places.lens) - 1}>"
    )
    attributes = f"{numbers}, slice_sizes = {ints([1] * rank)}, indices_are_sorted = false"
    return to.add("gather", x, places, lens=places.lens[:-1], attributes=attributes)


@writes("gathernd")
def gathernd(call: Call) -> Tensor:
    """Slices at tuples of places, for each index of some batch axes."""
    x, index = call.inputs
    batch, count, last = call.op.batch_dims, index.lens[-1], len(index.lens) - 1
    index = _wrapped(call.to, index, x.lens[batch : batch + count])
    axes = ", ".join(map(str, range(batch, batch + count)))
    batching = ", ".join(map(str, range(batch)))
    offsets = ", ".join(map(str, range(last, last + len(x.lens) - batch - count)))
    numbers = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = [{offsets}], collapsed_slice_dims = [{axes}], "
        f"operand_batching_dims = [{batching}], start_indices_batching_dims = [{batching}], "
        f"start_index_map = [{axes}], index_vector_dim = {last}>"
    )
    sizes = [1 if a < batch + count else n for a, n in enumerate(x.lens)]
    attributes = f"{numbers}, slice_sizes = {ints(sizes)}, indices_are_sorted = false"
    lens = (*index.lens[:-1], *x.lens[batch + count :])
    return call.to.add("gather", x, index, lens=lens, attributes=attributes)


def _wrapped(to: Lines, index: Tensor, lens: Sequence[int]) -> Tensor:
    """Tuples of places as int64, negative ones counted from the end of each axis."""
    index = to.convert(index, DType.INT64)
    ends = to.broadcast(to.constant(np.array(lens, np.int64)), index.lens)
    below = to.compare("LT", index, to.like(index, 0))
    return to.select(below, to.add("add", index, ends), index)


_JOINS = {"none": "", "add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}


@writes(*(f"scatter_{how}" for how in _JOINS))
def scatter(call: Call) -> Tensor:
    """Elements changed at places along an axis; places beyond it are left out, as they are here anyway."""
    x, index, updates = call.inputs
    axis = _axis(call)
    starts = [0] * len(index.lens)
    updates = call.to.slice(updates, starts, index.lens)
    places = coordinates(call.to, cast_index(call.to, index, x.lens[axis]), axis)
    every = ", ".join(map(str, range(len(x.lens))))
    numbers = (
        f"inserted_window_dims = [{every}], scatter_dims_to_operand_dims = [{every}], "
        f"index_vector_dim = {len(index.lens)}"
    )
    return _scattered(call, x, places, updates, numbers)


@writes(*(f"scatternd_{how}" for how in _JOINS))
def scatternd(call: Call) -> Tensor:
    """Slices changed at tuples of places."""
    x, index, updates = call.inputs
    count, last = index.lens[-1], len(index.lens) - 1
    windows = ", ".join(map(str, range(last, last + len(x.lens) - count)))
    axes = ", ".join(map(str, range(count)))
    numbers = (
        f"update_window_dims = [{windows}], inserted_window_dims = [{axes}], "
        f"scatter_dims_to_operand_dims = [{axes}], index_vector_dim = {last}"
    )
    return _scattered(call, x, _wrapped(call.to, index, x.lens[:count]), updates, numbers)


def _scattered(call: Call, x: Tensor, places: Tensor, updates: Tensor, numbers: str) -> Tensor:
    how = call.op.name.partition("_")[2]
    own, to = x.type, call.to
    if how != "none" and is_narrow(own.numpy):  # rounded once, when all updates are joined
        x, updates = (to.convert(v, DType.FLOAT) for v in (x, updates))
    attributes = (
        f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, indices_are_sorted = false, "
        "unique_indices = false"
    )
    regions = [to.reducer(_JOINS[how], x.type)]
    found = to.add("scatter", x, places, updates, attributes=attributes, regions=regions)
    return to.convert(found, own)
