"""The kernel of depthwise convolutions with channels last on a CPU: a strip of adjacent places at a time.

A vector holds the sums of as many channels. Places of a strip share the loads of weights, and those of the
elements that lie under several of their windows. Strips at both ends of a line leave out what is padding;
lines that are not there are read from zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.ops.convolve import Convolution
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.kernels.kernel import Builder, Place
from workbench.gpu.kernels.panels import vector_of, whole_vectors
from workbench.gpu.kernels.product import Product, Source, Store

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_MOST_PLACES = 8
_MOST_TERMS = 200
"""Most multiplications of a strip, which are written one by one."""
_MOST_ZEROS = 1 << 15
_BLOCKS = 32
_LEAST = 1 << 14
"""Multiplications of a block at least."""


def suits(product: Product) -> bool:
    """Whether rows of a product of adjacent matrices are places of lines that have several."""
    places = product.a.own
    is_window = isinstance(product.heart.op, Convolution) and bool(places)
    return is_window and places[-1] > 1 and _zeros(product) <= _MOST_ZEROS


def zeros_for(lowering: Lowering, product: Product) -> Place:
    """Zeros for all elements of a line."""
    return lowering.constant(product.heart, 0, np.zeros(_zeros(product), np.float32))


def _zeros(product: Product) -> int:
    return product.heart.inputs[0].shape.lens[-1] * product.batch


def _places(width: int, terms: int) -> int:
    """Places of a strip: if possible, such that lines have a whole number of them."""
    most = max(1, min(width, _MOST_PLACES, _MOST_TERMS // terms))
    even = (n for n in range(most, most // 2, -1) if width % n == 0)
    return next(even, most)


@dataclass
class _Stretch:
    """Elements at constant distances, of which all are there or none is."""

    source: Source
    """The place of one of them."""
    terms: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Place of the strip, term, and offset in elements."""


class Strips:
    """Writes the kernel.

    Args:
        b: The builder, with the operands bound.
        product: The product.
        zeros: Zeros for all elements of a line.
    """

    threads = 1

    def __init__(self, b: Builder, product: Product, zeros: Place) -> None:
        """Compute this block's lines."""
        self.b, self.w, self.product, self.zeros = b, b.w, product, zeros
        self.width = product.a.own[-1]
        self.places = _places(self.width, product.k)
        self.lines = product.m // self.width
        work = product.m * product.batch * product.k
        wanted = min(_BLOCKS, work // _LEAST)
        self.each = -(-self.lines // max(1, wanted + wanted % 2))  # even, as cores mostly are
        self.blocks = -(-self.lines // self.each)
        lanes = b.dialect.machine.vector // 4
        self.lanes = min(lanes, 1 << (product.batch.bit_length() - 1))
        self.part = Index()

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w = self.w
        number = Variable(w.define(w.integer_type, "GROUP(0)", "g"), 0, self.blocks - 1)
        w.line(f"ALIGN(64) f32 p[{self.width * self.product.batch}];")
        with w.loop(self.each) as turn:
            text = (Index.of(number) * self.each + turn).text()
            if self.blocks * self.each > self.lines:
                w.line(f"if ({text} >= {self.lines}) break;")
            line = Index.of(Variable(w.integer(text), 0, self.lines - 1))
            for first, count in self._runs(line):
                with w.loop(count) as strip:
                    self._sums(line * self.width, strip * self.places + first)
            self._finish(store, line * self.width)
        return self.blocks

    def _runs(self, line: Index) -> list[tuple[int, int]]:
        """The first place of strips that are written as one loop, and their number."""
        found: list[tuple[int, int]] = []
        is_inner = False
        for place in range(0, self.width, self.places):
            first = min(place, self.width - self.places)
            was_inner, is_inner = is_inner, self._is_inner(line * self.width + first)
            if was_inner and is_inner and first == place:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((first, 1))
        return found

    def _is_inner(self, row: Index) -> bool:
        """Whether no window of a strip, the first and the last ones above all, is partly beyond an end."""
        ends = {0, self.places - 1}
        terms = range(self.product.k)
        return all(self._source(0, row + i, k).inside != "0" for i in ends for k in terms)

    def _source(self, side: int, row: Index, k: int) -> Source:
        address = (self.product.a, self.product.b)[side].address
        assert address is not None
        found = address(self.b.tensors, (Index(),), row, Index((), k))
        assert found is not None
        return found

    def _sums(self, start: Index, place: Index) -> None:
        """Put the sums of a strip into an array, a vector at a time; the last one may overlap another.

        Args:
            start: The first row of the line.
            place: The first place of the strip.
        """
        w, lanes, count = self.w, self.lanes, self.product.batch
        vector = vector_of(self.b, lanes)
        terms = self._terms(start + place)
        into = (place * count).text()
        with w.loop(-(-count // lanes), prefix="c") as turn:
            first = (turn * lanes).text()
            last = count - lanes
            at = w.integer(f"{first} < {last} ? {first} : {last}" if count % lanes else first)
            w.line(f"{vector} {', '.join(f's{i} = 0' for i in range(self.places))};")
            for k in range(self.product.k):
                found = self._source(1, Index(), k)
                weight = f"{found.pointer} + {found.offset.text()} + {at}"
                sums = [
                    f"s{i} += *(GLOBAL const {vector} *)({x} + {at}) * u;"
                    for i, x in terms.get(k, ())
                ]
                w.line(f"{{ const {vector} u = *(GLOBAL const {vector} *)({weight});")
                w.line(f"  {' '.join(sums)} }}")
            for i in range(self.places):
                w.line(f"*({vector} *)(p + {into} + {i * count} + {at}) = s{i};")

    def _terms(self, row: Index) -> dict[int, list[tuple[int, str]]]:
        """For each term, the places that have it, with the text of a pointer to its first channel."""
        found: dict[int, list[tuple[int, str]]] = {}
        for stretch in self._stretches(row).values():
            least = min(offset for *_, offset in stretch.terms)
            name = self._pointer(stretch.source, least)
            for i, k, offset in stretch.terms:
                found.setdefault(k, []).append((i, f"{name} + {offset - least}"))
        return found

    def _stretches(self, row: Index) -> dict[object, _Stretch]:
        found: dict[object, _Stretch] = {}
        for k in range(self.product.k):
            for i in range(self.places):
                source = self._source(0, row + i, k)
                if source.inside != "0":
                    key = (source.inside, source.offset.terms)
                    stretch = found.setdefault(key, _Stretch(source))
                    stretch.terms.append((i, k, source.offset.constant))
        return found

    def _pointer(self, source: Source, least: int) -> str:
        """A pointer to the first of a stretch's elements, or to zeros."""
        text = f"{source.pointer} + {Index(source.offset.terms, least).text()}"
        if source.inside != "1":
            text = f"{source.inside} ? {text} : {self.b.memory(self.zeros).name}"
        name = self.w.name("q")
        self.w.line(f"GLOBAL const f32 *{name} = {text};")
        return name

    def _finish(self, store: Store, start: Index) -> None:
        """Store the sums of a line, in loops that compilers make vectors of."""
        w, count = self.w, self.product.batch
        with w.loop(self.width) as i:
            if (hint := whole_vectors(self.b.dialect.machine, count)) is not None:
                w.line(hint)
            with w.loop(count) as matrix:
                sum = f"p[{(i * count + matrix).text()}]"
                store([((matrix,), start + i, Index())], [sum])
