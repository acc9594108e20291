"""Chains of reshapes, transposes and broadcasts as one descriptor, and the shortest chain that it takes.

A chain's result is described by its dimensions, each a list of parts. A part comes from an axis of the
source, or from a piece of one, or from none: then it repeats. From the description, at most five
operations follow: split axes, permute, repeat, join axes, repeat whole dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

Ints = tuple[int, ...]


class Transform(NamedTuple):
    """One operation of a chain: its kind, and its permutation (transpose), lens, or axes.

    Kinds are ``reshape``, ``squeeze``, ``unsqueeze``, ``transpose``, ``multibroadcast``, ``broadcast``.
    """

    kind: str
    values: Ints
    axis: int = 0
    """Where ``broadcast`` lays the input along the result."""


@dataclass(frozen=True)
class Part:
    """A factor of a dimension."""

    len: int
    path: Ints = ()
    """The source's axis, then which piece of it; empty for a part that comes from nowhere."""
    hidden: bool = False
    """Whether the source's axis has length 1 and is repeated here."""

    @property
    def repeats(self) -> bool:
        """Whether elements repeat along this part."""
        return self.len != 1 and (self.hidden or not self.path)

    def piece(self, number: int, len: int) -> Part:
        """A piece of this part."""
        return Part(len, (*self.path, number) if self.path else (), self.hidden)


Dims = list[list[Part]]


def common_dims(one: Sequence[int], other: Sequence[int]) -> list[int] | None:
    """Lens that both lists of lens are joins of; None if there are none."""
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
    """How many leading lens multiply to ``target``; 0 if they pass it by."""
    total = 1
    for count, n in enumerate(lens, 1):
        total *= n
        if total >= target:
            return count if total == target else 0
    return 0


def _regroup(parts: Sequence[Part], lens: Sequence[int]) -> Dims | None:
    """The parts split and joined to dimensions of these lens; None where they do not line up."""
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
    """The dimensions with ``count`` more of length 1 behind them."""
    if count and dims:
        last = dims[-1][-1]
        if count > 1:
            dims[-1][-1] = last.piece(0, last.len)
        return dims + [[last.piece(j + 1, 1)] for j in range(count)]
    return dims + [[Part(1)] for _ in range(count)]


class Descriptor:
    """What a chain of operations makes of a source's axes."""

    def __init__(self, lens: Sequence[int]) -> None:
        """The empty chain on a source of these lens."""
        self.rank = len(lens)
        self.dims: Dims = [[Part(n, (i,))] for i, n in enumerate(lens)]

    @property
    def lens(self) -> Ints:
        """Lens of the result."""
        return tuple(prod(p.len for p in dim) for dim in self.dims)

    def apply(self, transform: Transform) -> bool:
        """Append an operation to the chain; False if it cannot be described."""
        kind, values, axis = transform
        if kind == "transpose":
            self.dims = [self.dims[i] for i in values]
        elif kind == "broadcast":
            self._repeat(values, axis)
        elif kind == "multibroadcast":
            self._repeat(values, len(values) - len(self.dims))
        elif kind == "squeeze":
            return self._reshape([n for i, n in enumerate(self.lens) if i not in values])
        elif kind == "unsqueeze":
            rest = iter(self.lens)
            rank = len(values) + len(self.dims)
            return self._reshape([1 if i in values else next(rest) for i in range(rank)])
        else:
            return self._reshape(values)
        return True

    def _reshape(self, lens: Sequence[int]) -> bool:
        if self.lens == tuple(lens):
            return True
        parts = _flat(self.dims)
        if (common := common_dims([p.len for p in parts], lens)) is not None:
            fine = _regroup(parts, common)
            if fine is None:
                return False
            parts = _flat(fine)
        dims = _regroup(parts, lens)
        if dims is None:
            return False
        self.dims = dims
        return True

    def _repeat(self, lens: Sequence[int], offset: int) -> None:
        found: Dims = [[Part(n)] for n in lens[:offset]]
        for dim, n in zip(self.dims, lens[offset:], strict=False):
            if prod(p.len for p in dim) == n:
                found.append(dim)
            else:
                first, *rest = dim
                hidden = [replace(p, hidden=bool(p.path)) for p in rest]
                found.append([Part(n, first.path, bool(first.path)), *hidden])
        self.dims = found + [[Part(n)] for n in lens[len(found) :]]

    def meaning(self) -> Dims:
        """What the chain does to elements: the dimensions without parts of length 1, which say nothing."""
        parts = [[Part(p.len) if p.repeats else p for p in dim if p.len != 1] for dim in self.dims]
        _renumber(parts)
        joined = [_simple(dim) for dim in parts]
        _renumber(joined)
        return joined

    def simplified(self) -> Dims:
        """The dimensions in normal form: no part that could be left out or joined to its neighbour."""
        dims = [_simple(dim) for dim in self.dims]
        _settle_hidden(dims, self.rank)
        _renumber(dims)
        _reinsert(dims, self.rank)
        _fill_place(dims)
        _renumber(dims)
        return dims


def _flat(dims: Dims) -> list[Part]:
    return [p for dim in dims for p in dim]


def _simple(dim: list[Part]) -> list[Part]:
    """Parts of length 1 dropped, and consecutive pieces of an axis joined."""
    if len(dim) < 2:
        return list(dim)
    found: list[Part] = []
    for part in dim:
        if part.len == 1:
            continue
        if found and _joins(found[-1], part):
            found[-1] = replace(part, len=part.len * found[-1].len)
        else:
            found.append(part)
    return found or [Part(1)]


def _joins(a: Part, b: Part) -> bool:
    if not a.path and not b.path:
        return True
    if a.hidden != b.hidden or len(a.path) != len(b.path) or len(a.path) < 2:
        return False
    return a.path[:-1] == b.path[:-1] and a.path[-1] + 1 == b.path[-1]


def _places(dims: Dims) -> dict[int, list[tuple[int, int]]]:
    """Where the parts of each axis are, in the order of its pieces; axes in ascending order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for d, dim in enumerate(dims):
        for s, part in enumerate(dim):
            if part.path:
                found.setdefault(part.path[0], []).append((d, s))
    for places in found.values():
        places.sort(key=lambda at: dims[at[0]][at[1]].path)
    return dict(sorted(found.items()))


def _renumber(dims: Dims) -> None:
    """Paths anew: an axis in one part is whole, in several its pieces count from 0."""
    for axis, places in _places(dims).items():
        for number, (d, s) in enumerate(places):
            path = (axis,) if len(places) == 1 else (axis, number)
            dims[d][s] = replace(dims[d][s], path=path)


def _settle_hidden(dims: Dims, rank: int) -> None:
    """One part at most stands for an axis of length 1: its other parts come from nowhere."""
    places_of = _places(dims)
    for axis, places in list(places_of.items()):
        parts = [dims[d][s] for d, s in places]
        if not any(p.hidden for p in parts) or len(parts) < 2:
            continue
        if all(p.hidden for p in parts):
            following = axis + 1
            for d, s in places[1:]:
                taken = following >= rank or following in places_of
                path = () if taken else (following,)
                dims[d][s] = replace(dims[d][s], path=path, hidden=bool(path))
                following += not taken
        else:
            for d, s in places:
                if dims[d][s].hidden:
                    dims[d][s] = Part(dims[d][s].len)


def _runs_of_repeats(dims: Dims, rank: int) -> dict[int, list[int]]:
    """Runs of dimensions that begin with a part from nowhere, by the axis of what follows the run."""
    runs: dict[int, list[int]] = {}
    current: list[int] = []
    for d, dim in enumerate(dims):
        if not dim[0].path:
            current.append(d)
        elif current:
            runs[dim[0].path[0]] = current
            current = []
    if current:
        runs[rank] = current
    return runs


def _reinsert(dims: Dims, rank: int) -> None:
    """Give every axis of length 1 that vanished a place again: where something repeats, or beside others."""
    present = list(_places(dims))
    missing = [a for a in range(rank) if a not in present]
    runs = _runs_of_repeats(dims, rank)
    for axis in missing:
        later = [a for a in present if a > axis]
        run = runs[min(k for k in runs if k > axis)] if any(k > axis for k in runs) else []
        if later:
            d, s = _places(dims)[later[0]][0]
            if run and not _comes_behind(dims, d, s, axis - 1):
                _stand_in(dims, run.pop(0), axis)
            else:
                dims[d].insert(s, Part(1, (axis,)))
        elif run:
            _stand_in(dims, run.pop(0), axis)
        else:
            _append_behind(dims, axis)


def _comes_behind(dims: Dims, d: int, s: int, axis: int) -> bool:
    before = dims[d][s - 1] if s else dims[d - 1][-1] if d else None
    return before is not None and bool(before.path) and before.path[0] == axis


def _stand_in(dims: Dims, d: int, axis: int) -> None:
    first, *rest = dims[d]
    dims[d] = [Part(first.len, (axis,), first.len != 1), *rest]


def _append_behind(dims: Dims, axis: int) -> None:
    """Insert an axis of length 1 behind the highest axis' last part."""
    places = _places(dims)
    if not places:
        dims[-1].append(Part(1, (axis,)))
        return
    d, s = places[max(places)][-1]
    s += 1
    while s < len(dims[d]):
        part = dims[d][s]
        if part.len != 1 or not part.path or part.path[0] > axis:
            break
        s += 1
    dims[d].insert(s, Part(1, (axis,)))


def _fill_place(dims: Dims) -> None:
    """Move a trailing whole axis of length 1 into a following dimension that is a piece of length 1."""
    for d in range(len(dims) - 1):
        last, following = dims[d][-1], dims[d + 1]
        whole = last.len == 1 and len(last.path) == 1 and len(dims[d]) > 1
        if whole and len(following) == 1 and following[0].len == 1 and len(following[0].path) > 1:
            dims[d].pop()
            dims[d + 1] = [last]


def generate(dims: Dims) -> list[Transform]:
    """The operations that make these dimensions (in normal form) of their source."""
    found: list[Transform] = []
    dims = [list(dim) for dim in dims]
    lens = tuple(prod(p.len for p in dim) for dim in dims)
    if any(len(dim) == 1 and dim[0].repeats for dim in dims):
        dims = _generate_outer(dims, lens, found)
    joined = tuple(prod(p.len for p in dim) for dim in dims)
    parts = _flat(dims)
    if any(len(dim) != 1 for dim in dims):
        found.append(_join(dims, joined))
    if any(p.repeats for p in parts):
        found.append(Transform("multibroadcast", tuple(p.len for p in parts)))
        parts = [replace(p, len=1) if p.repeats else p for p in parts]
    order = _axis_order(parts)
    if order != sorted(order):
        inverse = tuple(order.index(i) for i in range(len(order)))
        found.append(Transform("transpose", inverse))
        parts = [parts[i] for i in order]
    if any(len(p.path) != 1 for p in parts):
        found.append(_split(parts))
    return found[::-1]


def _generate_outer(dims: Dims, lens: Ints, found: list[Transform]) -> Dims:
    """Repeat whole dimensions as the last step."""
    bare = [not any(p.path for p in dim) for dim in dims]
    start = next((i for i, b in enumerate(bare) if not b), len(bare))
    end = len(bare) - next((i for i, b in enumerate(reversed(bare)) if not b), 0)
    middle = dims[start:end]
    within = any(bare[start:end]) or any(len(dim) == 1 and dim[0].repeats for dim in middle)
    if start < end and not within and (start or end < len(dims)):
        found.append(Transform("broadcast", lens, start))
        return middle
    found.append(Transform("multibroadcast", lens))
    return [[replace(d[0], len=1)] if len(d) == 1 and d[0].repeats else d for d in dims]


def _join(dims: Dims, lens: Ints) -> Transform:
    if any(sum(p.len != 1 for p in dim) > 1 for dim in dims):
        return Transform("reshape", lens)
    axes: list[int] = []
    at = 0
    for dim in dims:
        kept = next((i for i, p in enumerate(dim) if p.len != 1), 0)
        axes += [at + i for i in range(len(dim)) if i != kept]
        at += len(dim)
    return Transform("squeeze", tuple(axes))


def _axis_order(parts: Sequence[Part]) -> list[int]:
    """The parts in the order of their axes; one from nowhere stays behind its left neighbour."""
    keys: list[Ints] = []
    for part in parts:
        left = keys[-1] if keys else (-1,)
        keys.append(part.path or (*left, 1))
    return sorted(range(len(parts)), key=lambda i: keys[i])


def _split(parts: Sequence[Part]) -> Transform:
    pieces: dict[int, list[int]] = {}
    for i, part in enumerate(parts):
        if len(part.path) > 1:
            pieces.setdefault(part.path[0], []).append(i)
    if any(sum(parts[i].len != 1 for i in places) > 1 for places in pieces.values()):
        return Transform("reshape", tuple(p.len for p in parts))
    axes = [i for i, p in enumerate(parts) if not p.path]
    for places in pieces.values():
        kept = next((i for i in places if parts[i].len != 1), places[0])
        axes += [i for i in places if i != kept]
    return Transform("unsqueeze", tuple(sorted(axes)))


def describe(lens: Ints, chain: Iterable[Transform]) -> Descriptor | None:
    """The descriptor of a chain, or None if it cannot be described."""
    found = Descriptor(lens)
    return found if all(found.apply(t) for t in chain) else None


@lru_cache(maxsize=4096)
def shortest(lens: Ints, chain: tuple[Transform, ...]) -> tuple[Transform, ...]:
    """The shortest chain known that does the same to a source of these lens; the chain itself at worst.

    What it returns is a fixpoint: its own shortest chain.
    """
    while (made := canonical(lens, chain)) is not None and len(made) < len(chain):
        chain = made
    settled = made is not None and len(made) == len(chain) and canonical(lens, made) == made
    return made if made is not None and settled else chain


def canonical(lens: Ints, chain: tuple[Transform, ...]) -> tuple[Transform, ...] | None:
    """The chain that the descriptor gives, proven equal; None if the chain cannot be described."""
    found = describe(lens, chain)
    if found is None or 0 in lens:
        return None
    out, meaning = found.lens, found.meaning()
    if prod(lens) == 1:
        return _of_one(lens, out)
    parts = _flat(meaning)
    if not any(p.repeats for p in parts) and [p.path for p in parts] == sorted(
        p.path for p in parts
    ):
        return reshaped(lens, out)
    made = tuple(generate(found.simplified()))
    again = describe(lens, made)
    # The proof that the chains are equal: they mean the same.
    if again is None or again.lens != out or again.meaning() != meaning:
        return None
    return made


def reshaped(lens: Ints, out: Ints) -> tuple[Transform, ...]:
    """The one operation that puts the same elements under other lens; none for equal ones."""
    if lens == out:
        return ()
    ones, new = [tuple(i for i, n in enumerate(x) if n == 1) for x in (lens, out)]
    if len(out) < len(lens) and _without(lens, ones) == out:
        return (Transform("squeeze", ones),)
    if len(out) > len(lens) and _without(out, new) == lens:
        return (Transform("unsqueeze", new),)
    return (Transform("reshape", out),)


def _without(lens: Ints, axes: Ints) -> Ints:
    return tuple(n for i, n in enumerate(lens) if i not in axes)


def _of_one(lens: Ints, out: Ints) -> tuple[Transform, ...]:
    """The chain from one element."""
    if prod(out) == 1:
        return () if lens == out else (Transform("reshape", out),)
    if len(out) >= len(lens):
        return (Transform("multibroadcast", out),)
    return (
        Transform("squeeze", tuple(range(len(lens) - len(out)))),
        Transform("multibroadcast", out),
    )
