"""Offsets in one arena for values, such that values with overlapping lifetimes do not overlap.

The interference graph is coloured with intervals: the values with the most conflicts first, each in the
first gap that its neighbours leave. Then all are placed a second time, as neighbours have moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from workbench.compiler.ir.shape import Shape
from workbench.compiler.memory.liveness import Lifetime, conflicts

_ROUNDS = 3

Segment = tuple[int, int]
"""The start and end of a value, in units of the alignment."""


def alignment(shapes: Iterable[Shape]) -> int:
    """The alignment of offsets in bytes: up to four elements of the widest type."""
    return max(map(_alignment, shapes), default=1)


def _alignment(shape: Shape) -> int:
    element = max(1, _element(shape))
    count = shape.bytes // element
    if count > 4 and count % 4 == 0:
        return 4 * element
    return 2 * element if count > 4 and count % 4 == 2 else element


def _element(shape: Shape) -> int:
    """Bytes of an element; of the widest element of a tuple."""
    if shape.subs is not None:
        return max(map(_element, shape.subs), default=1)
    return shape.type.size


def color(values: Sequence[Lifetime], unit: int) -> list[int]:
    """An offset in bytes for each of these values, sorted by ``first``; 0 for an empty value."""
    sized = [k for k, v in enumerate(values) if v.bytes]
    kept = [values[k] for k in sized]
    placed = _Coloring(kept, unit).segments
    offsets = [0] * len(values)
    for k, segment in zip(sized, placed, strict=True):
        offsets[k] = segment[0] * unit
    return offsets


class _Coloring:
    """The assignment of segments to values that are not empty."""

    def __init__(self, values: Sequence[Lifetime], unit: int) -> None:
        self.neighbours = conflicts(values)
        self.sizes = [-(-v.bytes // unit) for v in values]
        self.found: dict[int, Segment] = {}
        order = [
            (len(n), v.bytes, k)
            for k, (n, v) in enumerate(zip(self.neighbours, values, strict=True))
        ]
        queue = [k for _, _, k in sorted(order, reverse=True)]
        self.ends: Counter[int] = Counter()
        """Number of segments that end at each position."""
        self.most = 0
        """End of the last segment."""
        for k in queue:
            self._put(k, self._next(k))
        for _ in range(_ROUNDS):
            for k in queue:
                segment = self._next(k)
                if segment != self.found[k] and segment[1] <= self.most:
                    self._put(k, segment)

    @property
    def segments(self) -> list[Segment]:
        return [self.found[k] for k in range(len(self.sizes))]

    def _next(self, k: int) -> Segment:
        taken = sorted({self.found[n] for n in self.neighbours[k] if n in self.found})
        start = _start(taken, self.sizes[k])
        return start, start + self.sizes[k]

    def _put(self, k: int, segment: Segment) -> None:
        before = self.found.get(k)
        self.found[k] = segment
        self.ends[segment[1]] += 1
        self.most = max(self.most, segment[1])
        if before is not None:
            self.ends[before[1]] -= 1
            if not self.ends[before[1]]:
                del self.ends[before[1]]
                if before[1] == self.most:
                    self.most = max(self.ends)


def _start(taken: Sequence[Segment], size: int) -> int:
    """The offset of the first gap of that size between sorted segments."""
    if not taken or taken[0][0] > size:
        return 0
    reach = 0
    for (_, end), (following, _) in pairwise(taken):
        if end >= reach:
            reach = end
            if following - end >= size:
                return end
    return max(end for _, end in taken)


def overlapping(
    values: Sequence[Lifetime], offsets: Sequence[int]
) -> tuple[Lifetime, Lifetime] | None:
    """Two values with overlapping lifetimes that share bytes, or None."""
    for k, neighbours in enumerate(conflicts(values)):
        for n in neighbours:
            before = offsets[k] + values[k].bytes <= offsets[n]
            after = offsets[n] + values[n].bytes <= offsets[k]
            if not (before or after) and values[k].bytes and values[n].bytes:
                return values[k], values[n]
    return None
