"""The normal form of a chain's dimensions: no part can be dropped or joined to its neighbour.

Every axis of the source has a place in it, so that the chain can be generated from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.passes.shapes.transform.parts import Dim, Dims, Part


def normal_form(rank: int, dims: Sequence[Dim]) -> Dims:
    """The dimensions in normal form; ``rank`` is the source's."""
    found = [_simple(dim) for dim in dims]
    _drop_lone_one(found)
    if not any(p.path for dim in found for p in dim):
        return _of_one_element(rank, found)
    _show_the_visible(found)
    _hand_on_hidden(found, rank)
    renumber(found)
    _reinsert(found, rank)
    _fill_place(found)
    renumber(found)
    return found


def _simple(dim: Sequence[Part]) -> list[Part]:
    """Parts of length 1 dropped, and consecutive pieces of an axis joined."""
    if len(dim) < 2:
        return list(dim)
    found: list[Part] = []
    for part in dim:
        if part.len == 1:
            continue
        if found and _joins(found[-1], part):
            found[-1] = part._replace(len=part.len * found[-1].len)
        else:
            found.append(part)
    return found or [Part(1)]


def _joins(a: Part, b: Part) -> bool:
    if not a.path and not b.path:
        return True
    if a.hidden != b.hidden or len(a.path) != len(b.path) or len(a.path) < 2:
        return False
    return a.path[:-1] == b.path[:-1] and a.path[-1] + 1 == b.path[-1]


def places_of(dims: Sequence[Sequence[Part]]) -> dict[int, list[tuple[int, int]]]:
    """The positions of each axis' parts, in the order of its pieces; axes in ascending order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for d, dim in enumerate(dims):
        for s, part in enumerate(dim):
            if part.path:
                found.setdefault(part.path[0], []).append((d, s))
    for places in found.values():
        if len(places) > 1:
            places.sort(key=lambda at: dims[at[0]][at[1]].path)
    return dict(sorted(found.items()))


def renumber(dims: Dims) -> None:
    """Renumber paths: an axis with one part is whole; the pieces of others count from 0."""
    for axis, places in places_of(dims).items():
        for number, (d, s) in enumerate(places):
            path = (axis,) if len(places) == 1 else (axis, number)
            dims[d][s] = dims[d][s]._replace(path=path)


def _drop_lone_one(dims: Dims) -> None:
    """If only one part comes from an axis and that axis has length 1, drop its path."""
    found = [(d, s) for d, dim in enumerate(dims) for s, p in enumerate(dim) if p.path]
    if len(found) == 1:
        d, s = found[0]
        part = dims[d][s]
        if part.hidden or part.len == 1:
            dims[d][s] = Part(part.len)


def _of_one_element(rank: int, dims: Dims) -> Dims:
    """The dimensions if none comes from the source: each stands for an axis of length 1."""
    lens = [1] * len(dims)
    for d, dim in enumerate(dims):
        for part in dim:
            lens[d] *= part.len
    repeats = any(n != 1 for n in lens)  # a broadcast adds its own new axes
    found = [[Part(n, (d,) if d < rank or repeats else (), n != 1)] for d, n in enumerate(lens)]
    for axis in range(len(dims), rank):
        found[-1].append(Part(1, (axis,)))
    return found


def _show_the_visible(dims: Dims) -> None:
    """Drop the paths of an axis' hidden parts if it also has visible ones."""
    for places in places_of(dims).values():
        hidden = [(d, s) for d, s in places if dims[d][s].hidden]
        if 0 < len(hidden) < len(places):
            for d, s in hidden:
                dims[d][s] = Part(dims[d][s].len)


def _hand_on_hidden(dims: Dims, rank: int) -> None:
    """Assign adjacent hidden parts of one axis to the vanished axes after it."""
    places_by_axis = places_of(dims)
    order = {
        at: i for i, at in enumerate((d, s) for d, dim in enumerate(dims) for s in range(len(dim)))
    }
    for axis, places in places_by_axis.items():
        numbers = [order[at] for at in places]
        adjacent = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if len(places) < 2 or not adjacent or not all(dims[d][s].hidden for d, s in places):
            continue
        free = 0
        while axis + free + 1 < rank and axis + free + 1 not in places_by_axis:
            free += 1
        for number, (d, s) in enumerate(places):
            taken = min(number, free)
            path = (axis + taken, number - taken)
            dims[d][s] = dims[d][s]._replace(path=path)


def _runs_of_repeats(dims: Dims, rank: int) -> dict[int, list[int]]:
    """Runs of dimensions that begin with a part without an axis, by the axis that follows the run."""
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
    """Give every vanished axis of length 1 a place: in a repeated dimension, or beside other parts."""
    present = list(places_of(dims))
    if len(present) == rank:
        return
    runs = _runs_of_repeats(dims, rank)
    for axis in [a for a in range(rank) if a not in present]:
        later = [a for a in present if a > axis]
        run = runs[min(k for k in runs if k > axis)] if any(k > axis for k in runs) else []
        if later:
            d, s = places_of(dims)[later[0]][0]
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
    """Insert an axis of length 1 after the highest axis' last part."""
    places = places_of(dims)
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


def meaning(dims: Sequence[Dim]) -> Dims:
    """The effect of a chain on elements: its dimensions without parts of length 1."""
    parts = [[Part(p.len) if p.repeats else p for p in dim if p.len != 1] for dim in dims]
    renumber(parts)
    joined = [_simple(dim) for dim in parts]
    renumber(joined)
    return joined
