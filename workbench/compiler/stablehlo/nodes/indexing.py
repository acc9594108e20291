"""Gathers, scatters and slices whose places are data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.regions import functions
from workbench.compiler.stablehlo.registry import stablehlo_op

WIDE = 1 << 31
"""Values of so many elements or more are indexed by 64 bits."""


class Places:
    """The places that indices give in a value: for each of some batch axes a window of elements.

    Args:
        node: The operation.
        lens: The lens of the value.
        index: The indices; the coordinates of a place are along ``vector_axis``.
        vector_axis: That axis; the rank of the indices if they have one coordinate and no such axis.
        axes: The axes of the value that the coordinates are for.
        window: The lens of the window, one for each axis of the value.
        kept: The axes of the value that windows have.
        batching: Pairs of an axis of the value and one of the indices that go together.
    """

    def __init__(
        self, node: Context, lens: Sequence[int], index: Instruction, vector_axis: int,
        axes: Sequence[int], window: Sequence[int], kept: Sequence[int],
        batching: Sequence[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        self.node, self.lens, self.axes = node, tuple(lens), list(axes)
        self.window, self.kept = list(window), list(kept)
        rank = index.shape.ndim
        if vector_axis == rank:
            index = node.unsqueeze(index, rank)
        order = [a for a in range(index.shape.ndim) if a != vector_axis]
        self.index = node.permuted(index, [*order, vector_axis])
        self.batch = self.index.shape.lens[:-1]
        self.batching = [(a, b - (b > vector_axis)) for a, b in batching]
        self.type = DType.INT64 if prod(self.lens) >= WIDE else DType.INT32

    @property
    def axis(self) -> int | None:
        """The axis whose slices the indices choose, where they do no more; else None."""
        if len(self.axes) != 1 or self.batching or self.axes[0] in self.kept:
            return None
        axis = self.axes[0]
        whole = all(
            w == n for a, (w, n) in enumerate(zip(self.window, self.lens, strict=True)) if a != axis
        )
        return axis if whole and len(self.kept) == len(self.lens) - 1 else None

    def coordinate(self, number: int) -> Instruction:
        """One coordinate of each place, as a signed integer."""
        node, last = self.node, len(self.batch)
        part = node.cut(self.index, last, number, number + 1)
        return node.convert(node.squeeze(part, last), DType.INT64 if self._is_wide else DType.INT32)

    @property
    def _is_wide(self) -> bool:
        small = {DType.INT8, DType.INT16, DType.INT32, DType.UINT8, DType.UINT16}
        return self.type is DType.INT64 or self.index.shape.type not in small

    def last_start(self, number: int) -> int:
        """The last coordinate at which a window lies inside."""
        axis = self.axes[number]
        return self.lens[axis] - self.window[axis]

    def clamped(self, number: int) -> Instruction:
        """One coordinate of each place, moved so far that its window lies inside."""
        return within(self.node, self.coordinate(number), self.last_start(number))

    def inside(self) -> Instruction | None:
        """Whether the window of each place lies inside; None if there are no coordinates."""
        node, found = self.node, None
        for number in range(len(self.axes)):
            at = self.coordinate(number)
            low = node.add("not", node.test("less", at, 0))
            high = node.add("not", node.test("greater", at, self.last_start(number)))
            both = node.add("logical_and", low, high)
            found = both if found is None else node.add("logical_and", found, both)
        return found

    def flat(self, clamped: bool) -> Instruction:
        """The place of each element of each window among all elements of the value."""
        node, strides = self.node, _strides(self.lens)
        lens = (*self.batch, *(self.window[a] for a in self.kept))
        kind = DType.INT64 if self._is_wide else DType.INT32
        total = self._within_windows(kind, lens, strides)
        for number, axis in enumerate(self.axes):
            at = self.clamped(number) if clamped else self.coordinate(number)
            total = node.add("add", total, self._spread(node.apply("mul", at, strides[axis]), lens))
        return total

    def _within_windows(
        self, kind: DType, lens: Sequence[int], strides: Sequence[int]
    ) -> Instruction:
        """The places for coordinates of 0, which are known."""
        ranges = [(len(self.batch) + k, a) for k, a in enumerate(self.kept)]
        ranges += [(b, a) for a, b in self.batching]
        found = np.zeros([1] * len(lens), np.int64)
        for where, axis in ranges:
            shape = [lens[where] if k == where else 1 for k in range(len(lens))]
            found = found + (np.arange(lens[where]) * strides[axis]).reshape(shape)
        return self.node.fit(self.node.literal(found.astype(kind.numpy)), lens)

    def _spread(self, value: Instruction, lens: Sequence[int]) -> Instruction:
        """A value for each place as one for each element of its window."""
        behind = range(len(self.batch), len(lens))
        return self.node.fit(self.node.unsqueeze(value, *behind) if behind else value, lens)

    def where_inside(self, found: Instruction) -> Instruction:
        """Places of elements, but beyond the end for windows that do not lie inside."""
        inside = self.inside()
        if inside is None:
            return found
        return self.node.choose(self._spread(inside, found.shape.lens), found, prod(self.lens))


def _strides(lens: Sequence[int]) -> list[int]:
    return [prod(lens[a + 1 :]) for a in range(len(lens))]


def within(node: Context, at: Instruction, last: int) -> Instruction:
    """Indices from 0 to ``last``: those beyond are moved to the ends."""
    known = node.constant(at)
    if known is not None:
        return node.literal(np.clip(known, 0, last))
    return node.add("clip", at, node.like(at, 0), node.like(at, last))


@stablehlo_op("gather")
def gather(node: Context, x: Instruction, index: Instruction) -> Instruction:
    """Windows of a value at places that are data; windows that would reach beyond it are moved inside."""
    numbers = node.numbers_of("dimension_numbers", "GatherDimensionNumbers")
    lens, gone = x.shape.lens, {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [a for a in range(len(lens)) if a not in gone]
    pairs = list(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    at = Places(
        node, lens, index, numbers.index_vector_dim, numbers.start_index_map,
        node.ints("slice_sizes"), kept, pairs,
    )  # fmt: skip
    offsets, batch = list(numbers.offset_dims), len(at.batch)
    axis = at.axis
    if axis is not None:
        found, window = (
            node.add("gather", x, at.clamped(0), axis=axis),
            _around(axis, batch, len(kept)),
        )
        places = [axis + k for k in range(batch)]
    else:
        found = node.add("gather", node.reshape(x, -1), at.flat(clamped=True), axis=0)
        window, places = [batch + k for k in range(len(kept))], list(range(batch))
    rest = iter(places)
    order = [
        window[offsets.index(o)] if o in offsets else next(rest) for o in range(batch + len(kept))
    ]
    return node.permuted(found, order)


def _around(axis: int, batch: int, count: int) -> list[int]:
    """The axes of windows in the result of a gather along one axis."""
    return [k if k < axis else k + batch for k in range(count)]


@stablehlo_op("scatter")
def scatter(node: Context, *operands: Instruction) -> list[Instruction]:
    """Windows of a value changed at places that are data; windows that reach beyond it are left out."""
    count = len(operands) // 2
    index, updates = operands[count], operands[count + 1 :]
    kinds = functions(node.op.regions[0].blocks[0], count)
    if not all(kinds):
        raise node.fail(
            "a scatter with a function of its own; expected the update itself, a sum, difference, product, "
            "minimum or maximum"
        )
    cases = zip(operands[:count], updates, kinds, strict=True)
    return [_scattered(node, x, index, update, kind) for x, update, kind in cases]


_SCATTERS = {"second": "none", "add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max"}


def _scattered(
    node: Context, x: Instruction, index: Instruction, update: Instruction, kind: str
) -> Instruction:
    type = x.shape.type
    if kind in {"and", "or"} or (type is DType.BOOL and kind in {"add", "mul", "min", "max"}):
        if type is not DType.BOOL:
            raise node.fail(f"a scatter that joins {type.type_name} by bits; expected bools")
        kind = "min" if kind in {"and", "mul", "min"} else "max"
        x, update = (node.convert(v, DType.UINT8) for v in (x, update))
    if kind == "sub":
        update = node.add("neg", update)
    found = _placed(node, x, index, update, f"scatter_{_SCATTERS[kind]}")
    return node.convert(found, type)


def _placed(
    node: Context, x: Instruction, index: Instruction, update: Instruction, op: str
) -> Instruction:
    numbers = node.numbers_of("scatter_dimension_numbers", "ScatterDimensionNumbers")
    lens, gone = x.shape.lens, {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = [a for a in range(len(lens)) if a not in gone]
    windows = list(numbers.update_window_dims)
    window = [1] * len(lens)
    for axis, own in zip(kept, windows, strict=True):
        window[axis] = update.shape.lens[own]
    pairs = zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    at = Places(
        node, lens, index, numbers.index_vector_dim, numbers.scattered_dims_to_operand_dims,
        window, kept, list(pairs),
    )  # fmt: skip
    order = [*(a for a in range(update.shape.ndim) if a not in windows), *windows]
    update = node.permuted(update, order)
    if at.axis is not None:
        return _slices_placed(node, at, x, update, op)
    places = node.reshape(at.where_inside(at.flat(clamped=False)), -1)
    flat, given = node.reshape(x, -1), node.reshape(update, -1)
    found = node.add(op, flat, places, given, axis=0, skip_out_of_bounds=True)
    return node.reshape(found, *lens)


def _slices_placed(
    node: Context, at: Places, x: Instruction, update: Instruction, op: str
) -> Instruction:
    """Whole slices along one axis placed by their number."""
    axis, count = at.axes[0], prod(at.batch)
    index = node.shaped(at.coordinate(0), (count,))
    index = node.choose(node.test("less", index, 0), x.shape.lens[axis], index)
    lens = [n for a, n in enumerate(x.shape.lens) if a != axis]
    rows = node.shaped(update, (count, *lens))
    rows = node.permuted(rows, [*range(1, axis + 1), 0, *range(axis + 1, len(lens) + 1)])
    places = node.fit(node.shaped(index, (count, *[1] * (len(lens) - axis))), rows.shape.lens)
    return node.add(op, x, places, rows, axis=axis, skip_out_of_bounds=True)


@stablehlo_op("dynamic_slice")
def dynamic_slice(node: Context, x: Instruction, *starts: Instruction) -> Instruction:
    """A window of a value at a place that is data, moved inside."""
    sizes = node.ints("slice_sizes")
    for axis, (size, start) in enumerate(zip(sizes, starts, strict=True)):
        if size < x.shape.lens[axis]:
            x = _window(node, x, axis, start, size)
    return x


def _window(node: Context, x: Instruction, axis: int, start: Instruction, size: int) -> Instruction:
    known = node.constant(start)
    if known is not None:
        at = min(max(int(known.reshape(-1)[0]), 0), x.shape.lens[axis] - size)
        return node.cut(x, axis, at, at + size)
    return node.add("gather", x, _counted(node, start, size, x.shape.lens[axis]), axis=axis)


def _counted(node: Context, start: Instruction, size: int, length: int) -> Instruction:
    """The indices of a window of an axis, moved inside."""
    first = node.reshape(within(node, start, length - size), 1)
    if size == 1:
        return first
    steps = node.vector(first.shape.type, range(size))
    return node.add("add", node.fit(first, (size,)), steps)


@stablehlo_op("dynamic_update_slice")
def dynamic_update_slice(
    node: Context, x: Instruction, update: Instruction, *starts: Instruction
) -> Instruction:
    """A value with a window replaced at a place that is data, moved inside."""
    lens, sizes = x.shape.lens, update.shape.lens
    partial = [a for a, (n, m) in enumerate(zip(lens, sizes, strict=True)) if m < n]
    if not partial or 0 in sizes:
        return x if 0 in sizes else update
    counted = {a: _counted(node, starts[a], sizes[a], lens[a]) for a in partial}
    if len(partial) == 1:
        places = _along(node, counted[partial[0]], partial[0], sizes)
        return node.add("scatter_none", x, places, update, axis=partial[0])
    return _replaced(node, x, update, counted)


def _along(node: Context, value: Instruction, axis: int, lens: Sequence[int]) -> Instruction:
    shape = [lens[axis] if a == axis else 1 for a in range(len(lens))]
    return node.fit(node.shaped(value, shape), lens)


def _replaced(
    node: Context, x: Instruction, update: Instruction, counted: dict[int, Instruction]
) -> Instruction:
    """The same where the window is smaller along several axes: by places among all elements."""
    lens, sizes, strides = x.shape.lens, update.shape.lens, _strides(x.shape.lens)
    kind = DType.INT64 if prod(lens) >= WIDE else DType.INT32
    known: Any = np.zeros([1] * len(lens), np.int64)
    for axis in set(range(len(lens))) - set(counted):
        shape = [-1 if a == axis else 1 for a in range(len(lens))]
        known = known + (np.arange(sizes[axis]) * strides[axis]).reshape(shape)
    total = node.fit(node.literal(known.astype(kind.numpy)), sizes)
    for axis, value in counted.items():
        steps = node.apply("mul", node.convert(value, kind), strides[axis])
        total = node.add("add", total, _along(node, steps, axis, sizes))
    flat, places, given = (node.reshape(v, -1) for v in (x, total, update))
    return node.reshape(node.add("scatter_none", flat, places, given, axis=0), *lens)
