"""Chains of reshapes, transposes and broadcasts as one descriptor, and the canonical chain it generates.

A descriptor lists the dimensions of a chain's result, each a list of parts. A part comes from an axis of
the source, from a piece of an axis, or from none: then elements repeat along it. A descriptor generates at
most five operations: split axes, permute, broadcast, join axes, broadcast whole dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from workbench.compiler.passes.shapes.transform.generate import generate
from workbench.compiler.passes.shapes.transform.normal_form import meaning, normal_form
from workbench.compiler.passes.shapes.transform.parts import (
    Dim,
    Dims,
    Ints,
    Part,
    Transform,
    Transforms,
    after,
    lens_of,
)
from workbench.compiler.passes.shapes.transform.rebase import rebased

__all__ = [
    "Descriptor",
    "Part",
    "Transform",
    "Transforms",
    "canonical",
    "cost",
    "equal",
    "simplified_chain",
]


@dataclass(frozen=True)
class Descriptor:
    """The effect of a chain of operations on a source's axes."""

    rank: int
    """The number of the source's axes."""
    dims: tuple[Dim, ...]

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(lens: Ints, transforms: Transforms) -> Descriptor | None:
        """The normal form of the descriptor of a chain on a source of these lens; None if there is none."""
        found = Descriptor.recorded(lens, transforms)
        return None if found is None else found.simplified()

    @staticmethod
    def recorded(lens: Ints, transforms: Iterable[Transform]) -> Descriptor | None:
        """The descriptor recorded from a chain, not in normal form; None if there is none.

        A value of rank 0 has no dimension that could hold the source's axes of length 1.
        """
        if 0 in lens:
            return None
        dims: Dims | None = [[Part(n, (i,))] for i, n in enumerate(lens)]
        for transform in transforms:
            if (dims := after(dims, transform)) is None:
                return None
        return Descriptor.made(len(lens), dims) if dims or not lens else None

    @staticmethod
    def made(rank: int, dims: Iterable[Iterable[Part]]) -> Descriptor:
        """A descriptor of dimensions as lists of parts."""
        return Descriptor(rank, tuple(map(tuple, dims)))

    @property
    def lens(self) -> Ints:
        """Lens of the result."""
        return lens_of(self.dims)

    @property
    def elements(self) -> int:
        """The number of elements of the result."""
        return prod(self.lens)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts in order."""
        return tuple(p for dim in self.dims for p in dim)

    @property
    def hidden_axes(self) -> frozenset[int]:
        """The source's axes of length 1 that the chain broadcasts."""
        return frozenset(p.path[0] for p in self.parts if p.hidden)

    def simplified(self) -> Descriptor:
        """The normal form: no part can be dropped or joined to its neighbour."""
        return Descriptor.made(self.rank, normal_form(self.rank, self.dims))

    def generate(self) -> Transforms:
        """The operations that produce these dimensions from their source."""
        return generate(self.dims)

    def rebase(self, lens: Ints, broadcast: bool = False) -> Descriptor | None:
        """The same chain on a source of other lens, not in normal form; None if there is none.

        An axis of length 1 that this chain broadcasts may have its full length in the new source. Then it
        is read from there or, with ``broadcast``, stays marked as repeated.
        """
        if len(lens) != self.rank or 0 in lens:
            return None
        found = rebased(self.dims, tuple(lens), broadcast)
        return None if found is None else Descriptor.made(self.rank, found)


@lru_cache(maxsize=8192)
def simplified_chain(lens: Ints, chain: Transforms) -> Transforms:
    """The canonical chain, or the chain itself if the canonical one costs more or does not exist.

    A result of several operations is a fixpoint: its own simplified chain.
    """
    found = chain
    for _ in range(4):
        made = canonical(lens, found)
        if made is None or made == found or cost(lens, made) > cost(lens, found):
            return found
        if len(made) < 2:
            return made
        found = made
    return chain


def cost(lens: Ints, chain: Iterable[Transform]) -> tuple[int, int]:
    """The elements that the reshapes of a chain may copy, then the number of its operations."""
    copied, count, size = 0, 0, prod(lens)
    for kind, values, _ in chain:
        count += 1
        if kind in ("multibroadcast", "broadcast"):
            size = prod(values)
        elif kind == "reshape" and size > 1:
            copied += size
    return copied, count


@lru_cache(maxsize=8192)
def canonical(lens: Ints, chain: Transforms) -> Transforms | None:
    """The chain that the descriptor generates, proven equal; None if the chain cannot be described."""
    recorded = Descriptor.recorded(lens, chain)
    if recorded is None:
        return None
    if prod(lens) == 1 == recorded.elements and len(chain) > 1:
        return () if lens == recorded.lens else (Transform("reshape", recorded.lens),)
    once = recorded.simplified()
    found = [once.generate(), once.simplified().generate(), _ones_only(lens, recorded.lens)]
    made = min((f for f in found if f is not None), key=lambda f: cost(lens, f))
    if made != found[0] and not equal(lens, made, chain):
        made = found[0] or ()
    return made if equal(lens, made, chain) else None


def _ones_only(lens: Ints, end: Ints) -> Transforms | None:
    """The empty chain, or the squeeze or unsqueeze from ``lens`` to ``end``; None if neither does it."""
    if lens == end:
        return ()
    less, more = _dropped(lens, end), _dropped(end, lens)
    if less is not None:
        return (Transform("squeeze", less),)
    return None if more is None else (Transform("unsqueeze", more),)


def _dropped(lens: Ints, end: Ints) -> Ints | None:
    """The axes of length 1 whose removal turns ``lens`` into ``end``; None if that is impossible."""
    axes: list[int] = []
    at = 0
    for axis, n in enumerate(lens):
        if at < len(end) and n == end[at]:
            at += 1
        elif n == 1:
            axes.append(axis)
        else:
            return None
    return tuple(axes) if at == len(end) else None


def equal(lens: Ints, one: Transforms, other: Transforms) -> bool:
    """Whether two chains are proven equal on a source of these lens."""
    a, b = Descriptor.recorded(lens, one), Descriptor.recorded(lens, other)
    if a is None or b is None or a.lens != b.lens:
        return False
    return meaning(a.dims) == meaning(b.dims)
