"""The operands of products on a CPU: read where they lie, or copied into panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.report.result import kernel_text
from workbench.gpu.emit.index import Index, Variable, joined
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import Indices, Memory, Tensors
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import Builder, Launch, Place
from workbench.gpu.kernels.product import Product, Source, as_work, split_over, start_of
from workbench.gpu.kernels.sources import Sources, bind_named, sources

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_ACROSS, _TERM = "across", "term"
_MOST_ZEROS = 1 << 14
"""Most zeros that stand for elements that are not there."""
_TERMS = 64
"""Terms of a panel that a block copies."""


@dataclass(frozen=True)
class Direct:
    """An operand that is read where it lies."""

    product: Product
    side: int
    source: tuple[Instruction, Place]
    """The value in memory, and its place."""
    step: int
    """The distance between terms."""
    zeros: Place | None
    """Zeros in place of elements that are not there; None if all are."""

    @property
    def sources(self) -> Sources:
        """The values that are read where they lie."""
        return [self.source]

    @property
    def places(self) -> list[Place]:
        """The places of what is read besides."""
        return [] if self.zeros is None else [self.zeros]

    def _at(self, b: Builder, batch: Indices, across: Index, k: Index) -> str:
        operand = (self.product.a, self.product.b)[self.side]
        assert operand.address is not None
        found = operand.address(b.tensors, batch, across, k)
        assert found is not None
        text = f"{found.pointer} + {found.offset.text()}"
        if self.zeros is None:
            return text
        return f"{found.inside} ? {text} : {b.memory(self.zeros).name}"

    def row(
        self, b: Builder, batch: Indices, group: Index, row: Index, number: int, k: Index
    ) -> tuple[str, int]:
        """The text of a pointer to a row's term, and the distance to the next term."""
        del group
        return self._at(b, batch, row + number, k), self.step

    def panel(
        self, b: Builder, batch: Indices, panel: Index, column: Index, k: Index
    ) -> tuple[str, int]:
        """The text of a pointer to a panel's term, and the distance to the next term."""
        del panel
        return self._at(b, batch, column, k), self.step


@dataclass(frozen=True)
class Packed:
    """An operand in panels of some width: first by batch, then by panel, then by term."""

    product: Product
    place: Place

    @property
    def sources(self) -> Sources:
        """The values that are read where they lie: none."""
        return []

    @property
    def places(self) -> list[Place]:
        """The places of what is read besides."""
        return [self.place]

    def row(
        self, b: Builder, batch: Indices, group: Index, row: Index, number: int, k: Index
    ) -> tuple[str, int]:
        """The text of a pointer to a row's term, and the distance to the next term."""
        text, step = self.panel(b, batch, group, row, k)
        return f"{text} + {number}", step

    def panel(
        self, b: Builder, batch: Indices, panel: Index, column: Index, k: Index
    ) -> tuple[str, int]:
        """The text of a pointer to a panel's term, and the distance to the next term."""
        del column
        _, _, _, width = self.place.shape.lens
        index = (joined(batch, self.product.lens), panel, k, Index())
        offset = sum((i * s for i, s in zip(index, self.place.shape.strides, strict=True)), Index())
        return f"{b.memory(self.place).name} + {offset.text()}", width


Side: TypeAlias = Direct | Packed


def read(
    lowering: Lowering, product: Product, side: int, width: int, number: int
) -> tuple[Side, list[Launch]]:
    """An operand as a kernel reads it, and the kernel that copies it into panels first, if there is one.

    Args:
        lowering: Holds the places of values.
        product: The product.
        side: 0 for the rows, 1 for the columns.
        width: Rows or columns of a tile.
        number: The number of the first scratch memory or table that is still free.
    """
    found = _Found(lowering, product, side)
    if (array := found.constant()) is not None:
        return Packed(product, lowering.constant(product.heart, number, packed(array, width))), []
    if (direct := found.direct(width, number)) is not None:
        return direct, []
    whole = (product.m, product.n)[side]
    lens = (product.batch, -(-whole // width), product.k, width)
    place = lowering.scratch(product.heart, number, Shape(DType.FLOAT, lens))
    return Packed(product, place), [_copied(lowering, product, side, place, found.sources())]


def is_copied(lowering: Lowering, product: Product, side: int, width: int) -> bool:
    """Whether a kernel has to copy an operand into panels."""
    found = _Found(lowering, product, side)
    return found.literal() is None and found.evenly(width) is None


def packed(array: Array, width: int) -> Array:
    """An operand [batch, terms, across] in panels [batch, panels, terms, width].

    The last panel overlaps the one before it; a single one that is too wide ends with zeros.
    """
    batch, terms, whole = array.shape
    starts = [min(s, max(whole - width, 0)) for s in range(0, whole, width)]
    made = np.zeros((batch, len(starts), terms, width), np.float32)
    for panel, start in enumerate(starts):
        part = array[:, :, start : start + width]
        made[:, panel, :, : part.shape[2]] = part
    return made


class _Found:
    """The memory of an operand's elements, found by asking for one at variable indices."""

    def __init__(self, lowering: Lowering, product: Product, side: int) -> None:
        self.lowering, self.product, self.side = lowering, product, side
        self.operand = (product.a, product.b)[side]
        self.whole = (product.m, product.n)[side]
        known = sources(lowering, product.heart.inputs)
        self.tensors = _Reads(Writer())
        places = bind_named(self.tensors, known)
        self.named = dict(zip(places, known, strict=True))
        """The values in memory and their places, by the names of their pointers."""

    def place(self, found: Source) -> Place:
        """The place of the tensor that an element is in."""
        return self.named[found.pointer][1]

    def sources(self) -> Sources:
        """The values in memory that the operand is computed from."""
        lens = (*self.product.lens, self.whole, self.product.k)
        *batch, across, k = [Index.of(Variable(f"at{a}", 0, n - 1)) for a, n in enumerate(lens)]
        self.operand.value(self.tensors, tuple(batch), across, k)
        return [one for name, one in self.named.items() if name in self.tensors.read]

    def literal(self) -> tuple[Source, Array] | None:
        """The place of a constant's elements, and its memory; None if the operand is none."""
        found = self._at([self.product.k], _term(self.product.k))
        if found is None or found.inside != "1":
            return None
        flat = self.lowering.literals.get(self.place(found).root)
        return None if flat is None else (found, flat)

    def constant(self) -> Array | None:
        """The elements [batch, terms, across] of a constant; None if it is none."""
        there = self.literal()
        if there is None:
            return None
        (found, flat), lens = there, self.product.lens
        known = {_TERM: np.arange(self.product.k)[:, None], _ACROSS: np.arange(self.whole)}
        for a, n in enumerate(lens):
            known[f"batch{a}"] = np.arange(n).reshape(-1, *[1] * (len(lens) - a + 1))
        offsets = _numbers(found.offset, known)
        whole = np.broadcast_to(offsets, (*lens, self.product.k, self.whole))
        return flat[whole].reshape(-1, self.product.k, self.whole)

    def direct(self, width: int, number: int) -> Direct | None:
        """The operand where it lies; None if it cannot be read there."""
        there = self.evenly(width)
        if there is None:
            return None
        found, step = there
        zeros = None
        if found.inside != "1":
            terms = max(self.operand.inner or (self.product.k,))
            table = np.zeros((terms - 1) * step + 1, np.float32)
            zeros = self.lowering.constant(self.product.heart, number, table)
        return Direct(self.product, self.side, self.named[found.pointer], step, zeros)

    def evenly(self, width: int) -> tuple[Source, int] | None:
        """The place of elements, and the distance between terms; None if that is not even.

        Those of adjacent columns must be adjacent, too. Terms may be in several stretches, of which an
        element is in or out as a whole.
        """
        inner = [n for n in self.operand.inner if n > 1] or [self.product.k]
        last = inner[-1]
        found, *ends = (self._at(inner, t) for t in (_term(last), Index(), Index((), last - 1)))
        if found is None or self.place(found).shape.type is not DType.FLOAT:
            return None
        step, apart = (lies_along(found.offset, name) for name in (_TERM, _ACROSS))
        if step is None or found.inside == "0" or any(e and e.inside != found.inside for e in ends):
            return None
        if self.side and (
            len(inner) > 1 or apart != 1 or width > self.whole or found.inside != "1"
        ):
            return None
        return found, step

    def step(self) -> int | None:
        """The distance between the elements of adjacent matrices; None if it is not even."""
        found = self._at([self.product.k], _term(self.product.k))
        if found is None or self.place(found).shape.type is not DType.FLOAT:
            return None
        return lies_along(found.offset, f"batch{len(self.product.lens) - 1}")

    def _at(self, inner: Sequence[int], term: Index) -> Source | None:
        """The place of the element for a term of the innermost of the lengths that terms are split into."""
        taps = [Index.of(Variable(f"tap{a}", 0, n - 1)) for a, n in enumerate(inner[:-1])]
        lens = self.product.lens
        batch = tuple(Index.of(Variable(f"batch{a}", 0, n - 1)) for a, n in enumerate(lens))
        return self._source(batch, joined([*taps, term], inner))

    def _source(self, batch: Indices, k: Index) -> Source | None:
        if self.operand.address is None:
            return None
        across = Index.of(Variable(_ACROSS, 0, self.whole - 1))
        return self.operand.address(self.tensors, batch, across, k)


def step_of(lowering: Lowering, product: Product, side: int) -> int | None:
    """The distance in memory between an operand's elements of adjacent matrices; None if it is not even."""
    return _Found(lowering, product, side).step()


def _term(count: int) -> Index:
    return Index.of(Variable(_TERM, 0, count - 1))


class _Reads(Tensors):
    """Records the names of the pointers that are read."""

    def __init__(self, w: Writer) -> None:
        super().__init__(w)
        self.read: set[str] = set()

    def load(self, memory: Memory, index: Sequence[Index]) -> Scalar:
        self.read.add(memory.name)
        return super().load(memory, index)


def lies_along(index: Index, name: str) -> int | None:
    """The factor of a variable in an expression; None if it is in a quotient or a remainder, too."""
    factor = 0
    for v, k in index.terms:
        if v.name == name:
            factor = k
        elif _depends(v, name):
            return None
    return factor


def _depends(variable: Variable, name: str) -> bool:
    origins = [o for o in (variable.quotient_of, variable.remainder_of) if o is not None]
    return any(v.name == name or _depends(v, name) for o in origins for v, _ in o[0].terms)


def _numbers(index: Index, known: dict[str, Any]) -> Any:
    """The values of an expression for arrays of values of its variables."""
    total: Any = index.constant
    for v, k in index.terms:
        total = total + k * _number(v, known)
    return total


def _number(variable: Variable, known: dict[str, Any]) -> Any:
    if variable.quotient_of is not None:
        return _numbers(variable.quotient_of[0], known) // variable.quotient_of[1]
    if variable.remainder_of is not None:
        return _numbers(variable.remainder_of[0], known) % variable.remainder_of[1]
    return known[variable.name]


def _copied(
    lowering: Lowering, product: Product, side: int, target: Place, known: Sources
) -> Launch:
    """The kernel that copies an operand into panels."""
    heart, operand = product.heart, (product.a, product.b)[side]
    whole = (product.m, product.n)[side]
    b = Builder(lowering.dialect, f"{kernel_text(heart)}_panels", [target, *(p for _, p in known)])
    for instruction, place in known:
        b.tensors.bind(instruction, b.memory(place))
    w, memory = b.w, b.memory(target, writes=True)
    matrices, panels, terms, width = target.shape.lens
    pieces = -(-terms // _TERMS)
    number = Variable(w.define(w.integer_type, "GROUP(0)", "g"), 0, matrices * panels * pieces - 1)
    *batch, panel, piece = split_over(Index.of(number), (*product.lens, panels, pieces), w)
    start = start_of(w, panel, width, whole)
    with w.loop(min(_TERMS, terms)) as turn:
        k = piece * _TERMS + turn
        if terms % _TERMS and pieces > 1:
            w.line(f"if ({k.text()} >= {terms}) break;")
        with w.loop(min(width, whole)) as j:
            value = operand.value(b.tensors, tuple(batch), start + j, k)
            index = (joined(batch, product.lens), panel, k, j)
            place = sum((i * s for i, s in zip(index, target.shape.strides, strict=True)), Index())
            w.line(f"{memory.name}[{place.text()}] = {as_work(w, value, 'f32')};")
    return b.launch(prod((matrices, panels, pieces)), 1)
