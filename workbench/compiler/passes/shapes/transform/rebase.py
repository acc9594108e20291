"""The same chain for a source of other lens: broadcast parts may now come from the source.

Pieces of a repeated axis that belong to another axis of the new source are moved first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from math import prod

from workbench.compiler.passes.shapes.transform.normal_form import places_of, renumber
from workbench.compiler.passes.shapes.transform.parts import Dim, Dims, Ints, Part, lens_of

_LAST = sys.maxsize
"""The number of a piece that comes after all others of its axis."""


def rebased(dims: Sequence[Dim], lens: Ints, broadcast: bool) -> Dims | None:
    """The dimensions for a source of these lens; None if there are none."""
    found = [[p if not p.path or p.path[0] < len(lens) else Part(p.len) for p in d] for d in dims]
    found = _adjusted(found, lens)
    before = [list(dim) for dim in found]
    for axis, places in places_of(found).items():
        parts = _resized([found[d][s] for d, s in places], lens[axis], broadcast)
        if parts is None:
            return None
        for (d, s), part in zip(places, parts, strict=True):
            found[d][s] = part
    return None if broadcast and not all(map(_widens, before, found)) else found


def _widens(before: Sequence[Part], after: Sequence[Part]) -> bool:
    """Whether a dimension keeps its length, or grows only by parts that had length 1."""
    if prod(p.len for p in before) == prod(p.len for p in after):
        return True
    return all(p.len in (1, q.len) for p, q in zip(before, after, strict=True))


def _resized(parts: list[Part], n: int, broadcast: bool) -> list[Part] | None:
    """The parts of one axis if its length in the source is ``n``; None if there are none."""
    if prod(p.len for p in parts) == n:
        return parts if broadcast else [p._replace(hidden=False) for p in parts]
    if n == 1:
        return [p if p.hidden else p._replace(len=1) for p in parts]
    if len(parts) == 1:
        return [Part(n, parts[0].path, broadcast)]
    if prod(p.len for p in parts if not p.hidden) == n:
        return [p._replace(len=1, hidden=False) if p.hidden else p for p in parts]
    return None


def _adjusted(dims: Dims, lens: Ints) -> Dims:
    """The dimensions with repeated pieces moved to the axes of the new source that need them."""
    sizes = {a: prod(dims[d][s].len for d, s in at) for a, at in places_of(dims).items()}
    short = {a: lens[a] // n for a, n in sizes.items() if lens[a] > n and lens[a] % n == 0}
    if not short:
        return dims
    if _is_in_place(dims, lens):
        return [[Part(n, (d,))] for d, n in enumerate(lens)]
    moved = False
    for axis, n in sizes.items():
        if n > lens[axis] and n % lens[axis] == 0:
            factor = n // lens[axis]
            target = _nearest(short, factor, axis)
            if target is not None and _moves(dims, axis, target, factor, lens[axis]):
                del short[target]
                moved = True
    moved = _place_bare(dims, short) or moved
    if not moved:
        return dims
    _order_hidden(dims)
    renumber(dims)
    return [[p for p in dim if p.path or p.len != 1] or dim[:1] for dim in dims]


def _is_in_place(dims: Dims, lens: Ints) -> bool:
    """Whether each dimension can be one axis of the new source: alone, and in the same order."""
    if lens_of(dims) != lens:
        return False
    axes = [p.path[0] for dim in dims for p in dim if p.path]
    if axes != sorted(axes):
        return False
    for d, dim in enumerate(dims):
        parts = [p for p in dim if p.len != 1]
        if len(parts) > 1:
            return False
        if parts and parts[0].path and not parts[0].hidden:
            axis = parts[0].path[0]
            if parts[0].len == lens[axis] and axis != d:
                return False
    return True


def _nearest(short: dict[int, int], factor: int, axis: int) -> int | None:
    """The axis nearest to ``axis`` that lacks this factor."""
    found = [a for a, f in short.items() if f == factor]
    return min(found, key=lambda a: abs(a - axis)) if found else None


def _moves(dims: Dims, axis: int, target: int, factor: int, base: int) -> bool:
    """Move a surplus factor of one axis to another; whether that was possible."""
    places = places_of(dims)[axis]
    for d, s in places:
        if dims[d][s].hidden and dims[d][s].len == factor:
            dims[d][s] = Part(factor, (target, _LAST), True)
            if len(places) == 1:  # the axis, now of length 1, keeps a place
                dims[d].insert(s + (target < axis), Part(1, (axis,)))
            return True
    taken = places_of(dims).get(target, [])
    if len(places) != 1 or len(taken) != 1:
        return False
    (d, s), (td, ts) = places[0], taken[0]
    one = dims[td][ts]
    if one.len != 1 or one.hidden or len(dims[td]) < 2:
        return False
    dims[td][ts] = Part(1)
    dims[d][s] = dims[d][s]._replace(len=base)
    dims[d].insert(s + 1, Part(factor, (target,), True))
    return True


def _place_bare(dims: Dims, short: dict[int, int]) -> bool:
    """Assign parts without an axis to axes that lack them; whether any was assigned."""
    moved, left = False, 0
    for dim in dims:
        for s, part in enumerate(dim):
            left = part.path[0] if part.path else left
            if part.path or part.len < 2:
                continue
            target = _nearest(short, part.len, left)
            if target is not None:
                dim[s] = Part(part.len, (target, _LAST), True)
                del short[target]
                moved = True
    return moved


def _order_hidden(dims: Dims) -> None:
    """Sort the pieces in each run of hidden parts, as far as lengths and dimensions allow."""
    for run in _hidden_runs(dims):
        for n in {dims[d][s].len for d, s in run}:
            _sort_paths(dims, [(d, s) for d, s in run if dims[d][s].len == n])
        for _, within in groupby(run, key=lambda at: at[0]):
            places = list(within)
            parts = sorted((dims[d][s] for d, s in places), key=lambda p: p.path)
            for (d, s), part in zip(places, parts, strict=True):
                dims[d][s] = part
        for _, same in groupby(run, key=lambda at: dims[at[0]][at[1]].path[0]):
            _sort_paths(dims, list(same))


def _hidden_runs(dims: Dims) -> list[list[tuple[int, int]]]:
    flat = [(d, s) for d, dim in enumerate(dims) for s in range(len(dim))]
    runs = groupby(flat, key=lambda at: dims[at[0]][at[1]].hidden)
    return [list(run) for hidden, run in runs if hidden]


def _sort_paths(dims: Dims, places: list[tuple[int, int]]) -> None:
    paths = sorted(dims[d][s].path for d, s in places)
    for (d, s), path in zip(places, paths, strict=True):
        dims[d][s] = dims[d][s]._replace(path=path)
