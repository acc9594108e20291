"""Repeated blocks: runs of equal neighbours, wired alike, such as the twelve layers of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

LEAST_TIMES, LEAST_SIZE = 3, 3
"""Fewer blocks, or smaller ones, are drawn one by one."""
TRIES = 4
"""The next equal items, and the next equal windows, that are tried as the start of the next block."""


class Repeat(NamedTuple):
    """A run of equal blocks in a sequence."""

    first: int
    length: int
    """The number of items of each block."""
    times: int

    @property
    def end(self) -> int:
        """The position after the last block."""
        return self.first + self.length * self.times

    def bounds(self) -> list[tuple[int, int]]:
        """The first position of each block, and the one after its last."""
        return [(k, k + self.length) for k in range(self.first, self.end, self.length)]


Check = Callable[[Repeat, int], Repeat | None]
"""The part of a run that counts, given the end of the stretch in which items equal those a block before."""


class Periods:
    """A sequence of kinds, in which equal neighbours are found."""

    def __init__(self, kinds: Sequence[int]) -> None:
        """Find the next equal items and windows of each item."""
        self.kinds = kinds
        self._next = [_following(ranks) for ranks in _windows(kinds)]
        self._ends: dict[int, int] = {}
        """The end of the stretch that was looked at last, by the length of its blocks."""

    def repeats(self, check: Check) -> Iterator[Repeat]:
        """Runs of equal neighbours from left to right, none in another; each stretch is checked once."""
        at, refused = 0, set[tuple[int, int]]()
        while at < len(self.kinds):
            found = None
            for run, end in self._at(at):
                if (run.length, end) not in refused and (found := check(run, end)) is not None:
                    yield found
                    break
                refused.add((run.length, end))
            at = at + 1 if found is None else found.end

    def _at(self, first: int) -> list[tuple[Repeat, int]]:
        """The runs that start at an item, those with short blocks first, and where their stretches end."""
        found: list[tuple[Repeat, int]] = []
        for length in sorted(self._lengths(first)):
            end = self._end(first, length)
            times = (end - first) // length
            shorter = (run.length for run, last in found if last >= first + length)
            if times >= LEAST_TIMES and all(length % other for other in shorter):
                found.append((Repeat(first, length, times), end))
        return found

    def _lengths(self, first: int) -> set[int]:
        """The distances to the next items that begin alike."""
        found: set[int] = set()
        most = (len(self.kinds) - first) // LEAST_TIMES
        for following in self._next:
            after = first
            for _ in range(TRIES):
                after = following[after] if after < len(following) else -1
                if after < 0 or after - first > most:
                    break
                found.add(after - first)
        return found

    def _end(self, first: int, length: int) -> int:
        """The position after the last item that is equal to the one a block before it."""
        kinds, end = self.kinds, self._ends.get(length, 0)
        if end < first + length:
            end = first + length
            while end < len(kinds) and kinds[end] == kinds[end - length]:
                end += 1
            self._ends[length] = end
        return end


def _windows(kinds: Sequence[int]) -> Iterator[Any]:
    """A number for each item, then for the 4 and the 16 items from each one on; equal ones are equal."""
    ranks = np.unique(np.asarray(kinds, np.int64), return_inverse=True)[1].ravel()
    yield ranks
    for width in (1, 2, 4, 8):
        if len(ranks) <= width:
            return
        pairs = ranks[:-width] * len(kinds) + ranks[width:]
        ranks = np.unique(pairs, return_inverse=True)[1].ravel()
        if width in (2, 8):
            yield ranks


def _following(ranks: Any) -> list[int]:
    """The next position of an equal item for each one, or -1."""
    order = np.argsort(ranks, kind="stable")
    found = np.full(len(ranks), -1)
    same = ranks[order[1:]] == ranks[order[:-1]]
    found[order[:-1][same]] = order[1:][same]
    return found.tolist()


@dataclass
class Wiring:
    """The operations of slots and their edges, by which blocks are compared."""

    kinds: list[int | None] = field(default_factory=list[int | None])
    """The kind of each slot, by which blocks are equal; None for one that only later steps have."""
    inputs: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """The slots that are the arguments of each slot."""

    def alike(self, blocks: Sequence[Sequence[int]]) -> tuple[int, int]:
        """The longest run of blocks that are wired alike, each a user of the one before it.

        Returns:
            The first of them, and their number.
        """
        best, start = (0, 1), 0
        form: Any = None
        link: list[int] | None = None
        before: Mapping[int, int] = {}
        for k, block in enumerate(blocks):
            inside = {slot: place for place, slot in enumerate(block)}
            own, outside = self._form(block, inside)
            taken = [before.get(source, -1) for source in outside]
            if own != form or max(taken, default=-1) < 0:
                start, link = k, None
            elif taken != link:
                start, link = k - 1, taken
            best = max(best, (start, k + 1 - start), key=lambda run: run[1])
            form, before = own, inside
        return best

    def _form(self, block: Sequence[int], inside: Mapping[int, int]) -> tuple[Any, list[int]]:
        """The inputs of each slot by their places in the block, and the slots from outside as they come."""
        outside: dict[int, int] = {}
        form: list[list[int]] = []
        for slot in block:
            sources = self.inputs.get(slot, ())
            form.append(
                [
                    inside[s] if s in inside else -1 - outside.setdefault(s, len(outside))
                    for s in sources
                ]
            )
        return form, list(outside)

    def narrowest(self, length: int, spare: int, items: Sequence[Sequence[int]]) -> int:
        """The item with which to begin a run, so that the fewest values pass from block to block.

        Args:
            length: The number of items of each block.
            spare: The number of items that are left over.
            items: The slots of each item.
        """
        at = {slot: k for k, slots in enumerate(items[: 3 * length]) for slot in slots}
        last: dict[int, int] = {}
        for user, place in at.items():
            for source in self.inputs.get(user, ()):
                if source in at:
                    last[source] = max(last.get(source, 0), place)
        steps = [0] * (3 * length + 2)
        for source, user in last.items():
            steps[at[source] + 1] += 1
            steps[user + 1] -= 1
        passing = list(accumulate(steps))
        return min(range(min(length - 1, spare) + 1), key=lambda k: (passing[length + k], k))
