"""The common dimensions of both ends of a chain of reshapes, transposes and broadcasts.

The axes of this space are the parts of the chain's descriptor, each a dimension of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from workbench.compiler.passes.shapes.transform.descriptor import Descriptor
from workbench.compiler.passes.shapes.transform.parts import Ints, Part, Transform, Transforms

Axes = tuple[Ints, ...]


@dataclass(frozen=True)
class CommonSpace:
    """The common dimensions of a chain's source and destination."""

    descriptor: Descriptor

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(descriptor: Descriptor) -> CommonSpace:
        """The common space of a chain's descriptor, in normal form or rebased from it."""
        return CommonSpace(descriptor)

    @property
    def dims(self) -> Ints:
        """The lens of the space: one for each part."""
        return tuple(p.len for p in self.descriptor.parts)

    @property
    def axes_of_source(self) -> Axes:
        """For each axis of the source, the axes of the space that it splits into."""
        found: list[list[tuple[Ints, int]]] = [[] for _ in range(self.descriptor.rank)]
        for number, part in enumerate(self.descriptor.parts):
            if part.path and part.path[0] < len(found):
                found[part.path[0]].append((part.path, number))
        return tuple(tuple(number for _, number in sorted(axis)) for axis in found)

    @property
    def axes_of_destination(self) -> Axes:
        """For each dimension of the destination, the axes of the space that it joins."""
        found: list[Ints] = []
        start = 0
        for dim in self.descriptor.dims:
            found.append(tuple(range(start, start + len(dim))))
            start += len(dim)
        return tuple(found)

    def from_source(self, lens: Ints, no_broadcast: bool = False) -> Transforms | None:
        """The chain from a value with the source's axes, some perhaps of length 1, to the space."""
        return self._into(self._of_source, lens, no_broadcast)

    @cached_property
    def _of_source(self) -> Descriptor:
        made = Descriptor.made(self.descriptor.rank, ([p] for p in self.descriptor.parts))
        return made.simplified()

    def from_destination(self, lens: Ints, no_broadcast: bool = False) -> Transforms | None:
        """The chain from a value with the destination's axes to the space; broadcasts only if allowed."""
        return self._into(self._of_destination, lens, no_broadcast)

    @cached_property
    def _of_destination(self) -> Descriptor:
        dims: list[list[Part]] = []
        for d, dim in enumerate(self.descriptor.dims):
            visible = any(p.path and not p.hidden for p in dim)
            for number, part in enumerate(dim):
                path = (d,) if len(dim) == 1 else (d, number)
                dims.append([Part(part.len, path, part.hidden and visible)])
        return Descriptor.made(len(self.descriptor.dims), dims)

    def to_source(self, lens: Ints | None = None) -> Transforms | None:
        """The chain from a value in the space, of these lens or the space's own, to the source's axes."""
        return _chain(self._to_source, lens)

    @cached_property
    def _to_source(self) -> Descriptor:
        return self._joined(self.axes_of_source)

    def to_destination(self, lens: Ints | None = None) -> Transforms | None:
        """The chain from a value in the space, of these lens or its own, to the destination's axes."""
        return _chain(self._to_destination, lens)

    @cached_property
    def _to_destination(self) -> Descriptor:
        return self._joined(self.axes_of_destination)

    def _into(self, made: Descriptor, lens: Ints, no_broadcast: bool) -> Transforms | None:
        if lens == (1,) and made.rank != 1:
            ones = (1,) * len(made.dims)
            return (Transform("multibroadcast", ones if no_broadcast else self.dims),)
        found = made.rebase(lens)
        if found is None:
            return None
        if no_broadcast:
            dims = [[Part(1) if p.hidden or not p.path else p for p in dim] for dim in found.dims]
            found = Descriptor.made(found.rank, dims)
        return found.generate()

    def _joined(self, axes: Axes) -> Descriptor:
        """The chain from the space to dimensions that each join some of its axes."""
        parts = self.descriptor.parts
        dims = [[Part(parts[k].len, (k,)) for k in joined] for joined in axes]
        return Descriptor.made(len(parts), dims).simplified()


def _chain(made: Descriptor, lens: Ints | None) -> Transforms | None:
    """The operations of a chain, on a source of other lens if they are given."""
    found = made if lens is None else made.rebase(lens)
    return None if found is None else found.generate()
