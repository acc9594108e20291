"""The operations that produce dimensions from their source: split, permute, broadcast, join, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from workbench.compiler.passes.shapes.transform.parts import (
    Dim,
    Dims,
    Ints,
    Part,
    Transform,
    Transforms,
    lens_of,
)


@lru_cache(maxsize=4096)
def generate(dims: tuple[Dim, ...]) -> Transforms:
    """The operations in order, each only if needed; they are found from the last to the first."""
    found: list[Transform] = []
    lens = lens_of(dims)
    left = [list(dim) for dim in dims]
    if any(len(dim) == 1 and dim[0].repeats for dim in dims):
        left = _repeat_dims(left, lens, found)
    parts = [p for dim in left for p in dim]
    if any(len(dim) != 1 for dim in left):
        found.append(_join(left, lens_of(left)))
    if any(p.repeats for p in parts):
        found.append(Transform("multibroadcast", tuple(p.len for p in parts)))
        parts = [p._replace(len=1) if p.repeats else p for p in parts]
    order = _axis_order(parts)
    if order != sorted(order):
        inverse = tuple(order.index(i) for i in range(len(order)))
        found.append(Transform("transpose", inverse))
        parts = [parts[i] for i in order]
    if any(len(p.path) != 1 for p in parts):
        found.append(_split(parts))
    return tuple(found[::-1])


def _repeat_dims(dims: Dims, lens: Ints, found: list[Transform]) -> Dims:
    """Broadcast whole dimensions as the last step."""
    bare = [not any(p.path for p in dim) for dim in dims]
    start = next((i for i, b in enumerate(bare) if not b), len(bare))
    end = len(bare) - next((i for i, b in enumerate(reversed(bare)) if not b), 0)
    middle = dims[start:end]
    within = any(bare[start:end]) or any(len(dim) == 1 and dim[0].repeats for dim in middle)
    if start < end and not within and (start or end < len(dims)):
        found.append(Transform("broadcast", lens, start))
        return middle
    found.append(Transform("multibroadcast", lens))
    return [[d[0]._replace(len=1)] if len(d) == 1 and d[0].repeats else d for d in dims]


def _join(dims: Dims, lens: Ints) -> Transform:
    if any(sum(p.len != 1 for p in dim) > 1 for dim in dims):
        return Transform("reshape", lens)
    axes: list[int] = []
    at = 0
    for dim in dims:
        kept = next((i for i, p in enumerate(dim) if p.len != 1), len(dim) - 1)
        axes += [at + i for i in range(len(dim)) if i != kept]
        at += len(dim)
    return Transform("squeeze", tuple(axes))


def _axis_order(parts: Sequence[Part]) -> list[int]:
    """The parts in the order of their axes; a part without an axis stays after its left neighbour."""
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
