"""Parts of the source's axes, which make up the dimensions of a chain's result.

Each operation of a chain regroups, permutes or repeats them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

Ints = tuple[int, ...]


class Transform(NamedTuple):
    """One operation of a chain: its kind, with its permutation, lens or axes as ``values``.

    Kinds are ``reshape``, ``squeeze``, ``unsqueeze``, ``transpose``, ``multibroadcast``, ``broadcast``.
    """

    kind: str
    values: Ints
    axis: int = 0
    """The axis of the result at which ``broadcast`` places the input."""


Transforms = tuple[Transform, ...]


class Part(NamedTuple):
    """A factor of a dimension."""

    len: int
    path: Ints = ()
    """The source's axis, then the number of the piece; empty for a part without an axis."""
    hidden: bool = False
    """Whether the source's axis has length 1 and is broadcast here."""

    @property
    def repeats(self) -> bool:
        """Whether elements repeat along this part."""
        return self.len != 1 and (self.hidden or not self.path)

    def piece(self, number: int, len: int) -> Part:
        """A piece of this part."""
        return Part(len, (*self.path, number) if self.path else (), self.hidden)


Dim = tuple[Part, ...]
Dims = list[list[Part]]


def common_dims(one: Sequence[int], other: Sequence[int]) -> list[int] | None:
    """The coarsest lens that both lists of lens can be split into; None if there are none."""
    found: list[int] = []
    a, b = list(reversed(one)), list(reversed(other))
    while a and b:
        low, high = (a, b) if a[-1] <= b[-1] else (b, a)
        n, m = low.pop(), high.pop()
        if n == 0 or m % n:
            return None
        found.append(n)
        if m != n:
            high.append(m // n)
    rest = a + b
    return None if any(n != 1 for n in rest) else found + rest


def _run(lens: Iterable[int], target: int) -> int:
    """The number of leading lens whose product is ``target``; 0 if there is none."""
    total = 1
    for count, n in enumerate(lens, 1):
        total *= n
        if total >= target:
            return count if total == target else 0
    return 0


def _regroup(parts: Sequence[Part], lens: Sequence[int]) -> Dims | None:
    """The parts split and joined to dimensions of these lens; None if they do not line up."""
    dims: Dims = []
    i = 0
    while i < len(parts) and len(dims) < len(lens):
        part, wanted = parts[i], lens[len(dims)]
        if part.len == wanted:
            dims.append([part])
            i += 1
        elif part.len < wanted:
            count = _run((p.len for p in parts[i:]), wanted)
            if not count:
                return None
            dims.append(list(parts[i : i + count]))
            i += count
        else:
            count = _run(lens[len(dims) :], part.len)
            if not count:
                return None
            pieces = lens[len(dims) : len(dims) + count]
            dims += [[part.piece(j, n)] for j, n in enumerate(pieces)]
            i += 1
    if any(p.len != 1 for p in parts[i:]) or any(n != 1 for n in lens[len(dims) :]):
        return None
    return _with_trailing(dims, len(lens) - len(dims))


def _with_trailing(dims: Dims, count: int) -> Dims:
    """The dimensions followed by ``count`` more of length 1, pieces of the last part."""
    if not count or not dims:
        return dims + [[Part(1)] for _ in range(count)]
    last = dims[-1][-1]
    if count > 1:
        dims[-1][-1] = last.piece(0, last.len)
    ones = [Part(1) if last.hidden else last.piece(j + 1, 1) for j in range(count)]
    return dims + [[one] for one in ones]


def _reshaped(dims: Sequence[Sequence[Part]], lens: Sequence[int]) -> Dims | None:
    parts = [p for dim in dims for p in dim]
    if (common := common_dims([p.len for p in parts], lens)) is not None:
        fine = _regroup(parts, common)
        if fine is None:
            return None
        parts = [p for dim in fine for p in dim]
    return _regroup(parts, lens)


def _repeated(dims: Dims, lens: Sequence[int], offset: int) -> Dims:
    found: Dims = [[Part(n)] for n in lens[:offset]]
    for dim, n in zip(dims, lens[offset:], strict=False):
        if prod(p.len for p in dim) == n:
            found.append(dim)
        else:
            first = Part(n, dim[0].path, bool(dim[0].path))
            found.append([first, *(Part(p.len, p.path, bool(p.path)) for p in dim[1:])])
    return found + [[Part(n)] for n in lens[len(found) :]]


def lens_of(dims: Iterable[Iterable[Part]]) -> Ints:
    """The length of each dimension."""
    return tuple(prod(p.len for p in dim) for dim in dims)


def after(dims: Dims, transform: Transform) -> Dims | None:
    """The dimensions after one more operation; None if they cannot be described."""
    kind, values, axis = transform
    if kind == "transpose":
        return [dims[i] for i in values]
    if kind == "broadcast":
        return _repeated(dims, values, axis)
    if kind == "multibroadcast":
        return _repeated(dims, values, len(values) - len(dims))
    lens = lens_of(dims)
    if kind == "squeeze":
        values = [n for i, n in enumerate(lens) if i not in values]
    elif kind == "unsqueeze":
        rest = iter(lens)
        rank = len(values) + len(dims)
        values = [1 if i in values else next(rest) for i in range(rank)]
    return dims if tuple(values) == lens else _reshaped(dims, values)
