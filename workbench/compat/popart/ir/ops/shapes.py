"""Operations that change shapes or choose parts: reshape, transpose, concat, split, slice."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import View, record
from workbench.compat.popart.ir.ops.checks import axes_of, check, check_all, check_same_type
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value

Numbers = int | None | Sequence[int | None]
Range = tuple[int, int, int, int]
"""The axis, the first element, the end, and the step of a slice, which is 1 or -1."""


@api
def reshape(t: Tensor, shape: Iterable[int]) -> Tensor:
    """The elements with other lengths, one of which may be -1.

    Raises:
        ValueError: A length is 0 or less than -1, several are -1, or the number of elements changes.
    """
    return _reshaped("Reshape", t, shape, False)


@api
def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """The same memory with other lengths.

    Raises:
        ValueError: As for `reshape`.
    """
    return _reshaped("ReshapeInplace", t, shape, True)


@api
def flatten(t: Tensor) -> Tensor:
    """The elements along one axis."""
    return _reshaped("Reshape", t, (-1,), False)


@api
def flatten_(t: Tensor) -> Tensor:
    """The same memory along one axis."""
    return _reshaped("ReshapeInplace", t, (-1,), True)


def _reshaped(op_type: str, t: Tensor, shape: Iterable[int], in_place: bool) -> Tensor:
    check(t=t)
    lens = _lens(t, tuple(map(int, shape)))
    before = t.shape
    view = View(write=lambda _k, _old, new: shaped(new, before)) if in_place else None
    attributes = {"shape": lens}
    return record(
        op_type, [t], partial(shaped, lens=lens), view=view, attributes=attributes
    ).outputs[0]


def _lens(t: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths with -1 replaced."""
    for n in shape:
        if n == 0 or n < -1:
            raise ValueError(f"Invalid shape value in reshape: {n} in {shape}.")
    if shape.count(-1) > 1:
        raise ValueError(f"Reshape shape can contain at most one '-1' value. Provided {shape}.")
    rest = prod(n for n in shape if n != -1)
    lens = tuple(t.nelms // rest if n == -1 else n for n in shape)
    if prod(lens) != t.nelms:
        raise ValueError(f"Cannot reshape {t!r}, which has {t.nelms} elements, to {shape}.")
    return lens


@api
def transpose(t: Tensor, permutation: Sequence[int] | None = None) -> Tensor:
    """The axes in another order; reversed by default.

    Raises:
        ValueError: The numbers are not those of the axes.
    """
    return _transposed("Transpose", t, permutation, False)


@api
def transpose_(t: Tensor, permutation: Sequence[int] | None = None) -> Tensor:
    """The same memory with its axes in another order.

    Raises:
        ValueError: The numbers are not those of the axes.
    """
    return _transposed("TransposeInplace", t, permutation, True)


def _transposed(
    op_type: str, t: Tensor, permutation: Sequence[int] | None, in_place: bool
) -> Tensor:
    check(t=t)
    given = tuple(reversed(range(t.rank))) if permutation is None else tuple(permutation)
    order = tuple(a + t.rank if a < 0 else a for a in given)
    if any(a >= t.rank for a in order):
        raise ValueError(
            f"Values in permutation must be less than the rank of the tensor, rank {t.rank}: {given}."
        )
    if sorted(order) != list(range(t.rank)):
        raise ValueError(f"A permutation of {t!r} has each of the axes once; found {given}.")
    back = [order.index(a) for a in range(t.rank)]

    def turned(x: Value, by: Sequence[int]) -> Value:
        return x.transpose(by) if by else x

    view = View(write=lambda _k, _old, new: turned(new, back)) if in_place else None
    attributes = {"permutation": order}
    return record(
        op_type, [t], partial(turned, by=order), view=view, attributes=attributes
    ).outputs[0]


@api
def squeeze(t: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The elements without axes of length 1; by default without all of them.

    Raises:
        ValueError: An axis is named twice, is out of range, or is not of length 1.
    """
    check(t=t)
    given = [a for a, n in enumerate(t.shape) if n == 1] if axes is None else list(axes)
    dropped = axes_of(t, given)
    for a in dropped:
        if t.shape[a] != 1:
            raise ValueError(f"Invalid value for axis {a}: the length is {t.shape[a]}; expected 1.")
    lens = tuple(n for a, n in enumerate(t.shape) if a not in dropped)
    return record(
        "Reshape",
        [t],
        partial(shaped, lens=lens),
        attributes={"shape": lens},
    ).outputs[0]


def shaped(x: Value, lens: tuple[int, ...]) -> Value:
    """The elements of a value with other lengths; without axes for none."""
    if lens:
        return x.reshape(lens)
    return x.apply("squeeze", axes=tuple(range(x.ndim))) if x.ndim else x


@api
def concat(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along an axis."""
    return _concatenated("Concat", list(ts), axis, False)


@api
def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """The memory of the tensors seen one after another along an axis."""
    return _concatenated("ConcatInplace", list(ts), axis, True)


def _concatenated(op_type: str, ts: list[Tensor], axis: int, in_place: bool) -> Tensor:
    check_all("ts", ts)
    if not ts:
        raise ValueError(f"{op_type}: expected at least one tensor")
    check_same_type(op_type, *ts)
    (at,) = axes_of(ts[0], axis)
    ends = [0]
    for t in ts:
        ends.append(ends[-1] + t.shape[at])

    def meaning(*values: Value) -> Value:
        return joined(values, at)

    def write(k: int, _old: Value, new: Value) -> Value:
        return part(new, (at, ends[k], ends[k + 1], 1))

    view = View(tuple(range(len(ts))), write) if in_place else None
    return record(op_type, ts, meaning, view=view, attributes={"axis": at}).outputs[0]


@api
def split(t: Tensor, splits: int | list[int], axis: int = 0) -> list[Tensor]:
    """Parts along an axis: a number of equal ones, or parts of these lengths.

    Raises:
        ValueError: A number does not divide the length of the axis.
        popart_exception: Lengths do not add up to it.
    """
    check(t=t)
    (at,) = axes_of(t, axis)
    length = t.shape[at]
    if isinstance(splits, int):
        if splits < 1 or length % splits:
            raise ValueError(
                f"Split {splits} does not evenly divide the axis {at} of length {length}."
            )
        splits = [length // splits] * splits
    if length != _total(splits):
        raise popart_exception(
            f"splits {splits} do not add up to {length}, the length of axis {at}."
        )
    starts = [_total(splits[:k]) for k in range(len(splits))]

    def meaning(x: Value) -> tuple[Value, ...]:
        return tuple(part(x, (at, s, s + n, 1)) for s, n in zip(starts, splits, strict=True))

    return list(record("Split", [t], meaning, attributes={"axis": at, "splits": splits}).outputs)


def _total(lens: Sequence[int]) -> int:
    count = 0
    for n in lens:
        count += n
    return count


@api
def slice(
    t: Tensor,
    start: Numbers = None,
    stop: Numbers = None,
    step: Numbers = None,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """A part of each axis, as Python slices it; steps are 1 or -1.

    Args:
        t: The tensor.
        start: The first element, for one axis or for several.
        stop: The end.
        step: 1, or -1 to go backward.
        axis: The axes; by default the first ones.

    Raises:
        ValueError: The lists have different lengths, or a step is neither 1 nor -1.
    """
    return _sliced("Slice", t, start, stop, step, axis, False)


@api
def slice_(
    t: Tensor,
    start: Numbers = None,
    stop: Numbers = None,
    step: Numbers = None,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """A part of the memory of a tensor; arguments and errors as for `slice`."""
    return _sliced("SliceInplace", t, start, stop, step, axis, True)


def _sliced(
    op_type: str, t: Tensor, start: Numbers, stop: Numbers, step: Numbers,
    axis: int | Sequence[int] | None, in_place: bool,
) -> Tensor:  # fmt: skip
    check(t=t)
    ranges = [r for r in _ranges(t, start, stop, step, axis) if r[1:] != (0, t.shape[r[0]], 1)]
    if start is None and stop is None and step is None:
        return t

    def meaning(x: Value) -> Value:
        for r in ranges:
            x = part(x, r)
        return x

    def write(_: int, old: Value, new: Value) -> Value:
        return replaced(old, new, ranges)

    names = ("axes", "starts", "ends", "steps")
    attributes: dict[str, Any] = {n: tuple(r[k] for r in ranges) for k, n in enumerate(names)}
    view = View(write=write) if in_place else None
    return record(op_type, [t], meaning, view=view, attributes=attributes).outputs[0]


def _ranges(
    t: Tensor, start: Numbers, stop: Numbers, step: Numbers, axis: int | Sequence[int] | None
) -> list[Range]:
    given = [_listed(n) for n in (start, stop, step)]
    at = _listed(axis)
    counts = {len(n) for n in (*given, at) if n is not None}
    if len(counts) > 1:
        raise ValueError(
            f"slice: start={start}, stop={stop}, step={step}, axis={axis}; expected lists of one length"
        )
    count = counts.pop() if counts else 0
    axes = axes_of(t, range(count) if at is None else [int(a or 0) for a in at])
    columns: list[list[int | None]] = [[None] * count if n is None else n for n in given]
    found: list[Range] = []
    for k, a in enumerate(axes):
        first, end, step_given = (column[k] for column in columns)
        by = 1 if step_given is None else step_given
        if by not in (1, -1):
            raise ValueError(f"slice: step {by} of axis {a}; expected 1 or -1")
        low, high = _ends(t.shape[a], first, end, by)
        found.append((a, low, high, by))
    return found


def _ends(length: int, first: int | None, end: int | None, step: int) -> tuple[int, int]:
    """The first element and the end of a slice of an axis, from the front."""
    low, high, _ = builtins.slice(first, end, step).indices(length)
    return low, high


def _listed(given: Numbers) -> list[int | None] | None:
    if given is None:
        return None
    return [given] if isinstance(given, int) else list(given)


def part(x: Value, r: Range) -> Value:
    """The part of a value that a range of one axis chooses."""
    axis, first, end, step = r
    low, high = (first, end) if step == 1 else (end + 1, first + 1)
    found = x.apply("slice", axes=(axis,), starts=(low,), ends=(max(low, high),))
    return found if step == 1 else found.apply("reverse", axes=(axis,))


def replaced(old: Value, new: Value, ranges: Sequence[Range]) -> Value:
    """A value with the part that ranges choose replaced."""
    if not ranges:
        return new
    axis, first, end, step = ranges[0]
    low, high = (first, end) if step == 1 else (end + 1, first + 1)
    inner = replaced(part(old, (axis, low, high, 1)), _forward(new, ranges[0]), ranges[1:])
    length = int(old.shape[axis])  # pyright: ignore[reportArgumentType] - lengths are fixed
    parts = [
        *([part(old, (axis, 0, low, 1))] if low else []),
        inner,
        *([part(old, (axis, high, length, 1))] if high < length else []),
    ]
    return joined(parts, axis)


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Values one after another along an axis; one as it is."""
    return parts[0].apply("concat", *parts[1:], axis=axis) if len(parts) > 1 else parts[0]


def _forward(x: Value, r: Range) -> Value:
    return x if r[3] == 1 else x.apply("reverse", axes=(r[0],))
