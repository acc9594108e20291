"""The work items that share rows of a reduction: their elements, and how they combine partial results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.reductions import Fold, Parts
from workbench.gpu.kernels.kernel import Builder
from workbench.gpu.kernels.reduce_tiling import Tiling

Element: TypeAlias = Callable[[Index, Index], Parts]
"""A function for the partial result of the element at a row and a column."""
Chunk: TypeAlias = tuple[list[Index], str]
"""Adjacent columns, and the condition that they exist; empty if they always do."""
_READ_BY_ALL = 8
"""Most warps for which every work item reads the results of all."""


class Team:
    """One work item's position in its block, and its work together with the others.

    Args:
        b: The builder of the kernel.
        tiling: The division of the elements.
        in_loops: Compute the elements that are folded at once in a loop of their own.
    """

    def __init__(self, b: Builder, tiling: Tiling, in_loops: bool = False) -> None:
        """Compute this work item's rows and its lane."""
        self.w, self.warp, self.tiling = b.w, b.dialect.warp, tiling
        self.in_loops = in_loops and tiling.lanes == 1
        w, t = self.w, tiling
        self.item = w.define(w.integer_type, "LOCAL(0)", "t")
        inner, outer = (t.lanes, t.across) if t.along else (t.across, t.lanes)
        low = self._bits(f"{self.item} & {inner - 1}", inner, alone=outer == 1)
        high = self._bits(f"{self.item} >> {inner.bit_length() - 1}", outer, alone=inner == 1)
        self.lane, across = (low, high) if t.along else (high, low)
        group = w.define(w.integer_type, "GROUP(0)", "g")
        if t.across > 1:
            group = w.define(w.integer_type, f"{group} * {t.across} + {across.text()}", "g")
        self.is_row, first = self._clamped(group, t.groups, t.blocks * t.across)
        self.rows = [first * t.row_vector + v for v in range(t.row_vector)]
        self.part = Index()
        if t.parts > 1:
            part = w.define(w.integer_type, "GROUP(1)", "p")
            self.part = Index.of(Variable(part, 0, t.parts - 1))
        self._shared: dict[tuple[str, int], str] = {}
        self._chunks: list[Chunk] | None = None

    def _bits(self, text: str, count: int, alone: bool) -> Index:
        """A number below ``count``, from some bits of the work item's number."""
        if count == 1:
            return Index()
        name = self.item if alone else self.w.define(self.w.integer_type, text, "t")
        return Index.of(Variable(name, 0, count - 1))

    def _clamped(self, name: str, count: int, most: int) -> tuple[str, Index]:
        """The condition that a number is below ``count``, and the number clamped to that range."""
        if most <= count:
            return "", Index.of(Variable(name, 0, count - 1)) if count > 1 else Index()
        condition = f"{name} < {count}"
        if count == 1:
            return condition, Index()
        kept = self.w.define(self.w.integer_type, f"{condition} ? {name} : {count - 1}", "k")
        return condition, Index.of(Variable(kept, 0, count - 1))

    # Columns

    def chunks(self) -> list[Chunk]:
        """All columns of this work item, if it keeps them in registers."""
        if self._chunks is None:
            t = self.tiling
            found = [self._chunk(j) for j in range(t.each)]
            self._chunks = found + [([Index((), c)], "") for c in self._rest()]
        return self._chunks

    def _chunk(self, j: int) -> Chunk:
        t = self.tiling
        number, condition = self.lane + j * t.lanes, ""
        if (j + 1) * t.lanes > t.chunks and t.lanes > 1:
            name = self.w.define(self.w.integer_type, number.text(), "j")
            condition, number = self._clamped(name, t.chunks, (j + 1) * t.lanes)
        return self._columns(number), condition

    def _columns(self, number: Index) -> list[Index]:
        vector = self.tiling.column_vector
        return [number * vector + c for c in range(vector)]

    def _rest(self) -> range:
        """The columns after the last whole vector; only if a work item has a row to itself."""
        t = self.tiling
        return range(t.chunks * t.column_vector, t.columns)

    @contextmanager
    def loop(self) -> Generator[list[Chunk]]:
        """A loop over the whole vectors of this work item's columns, a few per iteration."""
        t, w = self.tiling, self.w
        share = t.each * t.lanes
        end = str(t.chunks)
        if t.parts > 1:
            end = w.integer((self.part * share + share).text())
            if share * t.parts > t.chunks:
                end = w.integer(f"{end} < {t.chunks} ? {end} : {t.chunks}")
        start = (self.lane + self.part * share).text()
        name, step = w.name("l"), t.lanes * t.at_once
        with w.block(f"for ({w.integer_type} {name} = {start}; {name} < {end}; {name} += {step})"):
            number = Index.of(Variable(name, 0, t.chunks - 1 - t.lanes * (t.at_once - 1)))
            yield [(self._columns(number + k * t.lanes), "") for k in range(t.at_once)]

    def rest(self) -> list[Chunk]:
        """The columns after the loop's."""
        last = f"{self.part.text()} == {self.tiling.parts - 1}" if self.tiling.parts > 1 else ""
        return [([Index((), c)], last) for c in self._rest()]

    @contextmanager
    def each(self) -> Generator[list[Chunk]]:
        """This work item's columns: all that are kept in registers, or those of one iteration of the loop."""
        if self.tiling.is_kept:
            yield self.chunks()
        else:
            with self.loop() as chunks:
                yield chunks

    @contextmanager
    def when(self, *conditions: str) -> Generator[None]:
        """Statements for work items whose row exists and for which conditions hold."""
        condition = " && ".join(c for c in (self.is_row, *conditions) if c)
        if not condition:
            yield
            return
        with self.w.block(f"if ({condition})"):
            yield

    # Folding

    def folded(self, fold: Fold, element: Element) -> list[Parts]:
        """The fold of each row of this work item; every lane of the row gets it."""
        if self.tiling.is_kept:
            own = [self._tree(fold, element, row, self.chunks()) for row in self.rows]
        else:
            own = self._looped(fold, element)
        return self._joined(fold, own)

    def _tree(self, fold: Fold, element: Element, row: Index, chunks: Sequence[Chunk]) -> Parts:
        parts = [
            self._guarded(fold, element(row, column), condition)
            for columns, condition in chunks
            for column in columns
        ]
        return fold.tree(self.w, parts)

    def _guarded(self, fold: Fold, parts: Parts, condition: str) -> Parts:
        """A partial result, or the identity if a condition fails."""
        if not condition:
            return parts
        choices = zip(fold.kinds, parts, fold.identity, strict=True)
        return tuple(self.w.define(k, f"{condition} ? {p} : {e}", "r") for k, p, e in choices)

    def _looped(self, fold: Fold, element: Element) -> list[Parts]:
        w, count = self.w, self.tiling.column_vector * self.tiling.at_once
        sums = [[fold.growing(w) for _ in range(count)] for _ in self.rows]
        with self.loop() as chunks:
            columns = [c for found, _ in chunks for c in found]
            cells = [(row, column) for row in self.rows for column in columns]
            variables = [one for own in sums for one in own]
            for one, parts in zip(variables, self._elements(fold, element, cells), strict=True):
                fold.grow(w, one, parts)
        rest = self.rest()
        return [
            fold.tree(w, [*own, *([self._tree(fold, element, row, rest)] if rest else [])])
            for row, own in zip(self.rows, sums, strict=True)
        ]

    def _elements(
        self, fold: Fold, element: Element, cells: Sequence[tuple[Index, Index]]
    ) -> list[Parts]:
        """The elements at some rows and columns; a loop becomes vectors where statements are too many to."""
        w, count = self.w, len(cells)
        (row, column), (last_row, last_column) = cells[0], cells[-1]
        is_line = column == last_column or row == last_row
        if not self.in_loops or count == 1 or not is_line:
            return [element(*cell) for cell in cells]
        arrays = [w.array(k, count, "e") for k in fold.kinds]
        w.line('_Pragma("nounroll")')
        with w.loop(count) as number:
            cell = (row, column + number) if row == last_row else (row + number, column)
            for array, part in zip(arrays, element(*cell), strict=True):
                w.line(f"{array}[{number.text()}] = {part};")
        return [tuple(f"{array}[{k}]" for array in arrays) for k in range(count)]

    # Combining lanes

    def _joined(self, fold: Fold, own: list[Parts]) -> list[Parts]:
        t = self.tiling
        if t.lanes == 1:
            return own
        if not self.warp or not t.along:
            return self._by_halves(fold, own)
        found = [self._shuffled(fold, parts, min(t.lanes, self.warp)) for parts in own]
        if t.lanes > self.warp:
            found = [self._across_warps(fold, parts) for parts in found]
        return found

    def _shuffled(self, fold: Fold, parts: Parts, lanes: int) -> Parts:
        """Combine the results of ``lanes`` adjacent work items of a warp."""
        step = 1
        while step < lanes:
            other = tuple(
                self.w.define(k, f"SHUFFLE_XOR({p}, {step})", "m")
                for k, p in zip(fold.kinds, parts, strict=True)
            )
            parts = fold.tree(self.w, [parts, other])
            step *= 2
        return parts

    def _across_warps(self, fold: Fold, parts: Parts) -> Parts:
        """Combine the results of a row's warps through shared memory."""
        w, t, warp = self.w, self.tiling, self.warp
        count = t.lanes // warp
        arrays = [w.array(k, t.block // warp, "s", "SHARED") for k in fold.kinds]
        with w.block(f"if (({self.item} & {warp - 1}) == 0)"):
            for array, part in zip(arrays, parts, strict=True):
                w.line(f"{array}[{self.item} >> {warp.bit_length() - 1}] = {part};")
        w.line("BARRIER();")
        first = f"({self.item} >> {t.lanes.bit_length() - 1}) * {count} + " if t.across > 1 else ""
        if count > _READ_BY_ALL:
            place = f"{first}({self.item} & {count - 1})"
            return self._shuffled(fold, self._read(fold, arrays, place), count)
        return fold.tree(w, [self._read(fold, arrays, f"{first}{k}") for k in range(count)])

    def _read(self, fold: Fold, arrays: Sequence[str], place: str) -> Parts:
        found = zip(fold.kinds, arrays, strict=True)
        return tuple(self.w.define(k, f"{array}[{place}]", "m") for k, array in found)

    def _by_halves(self, fold: Fold, own: list[Parts]) -> list[Parts]:
        """Combine the lanes' results in shared memory, halving their number at each step."""
        w, t = self.w, self.tiling
        arrays = self._arrays(fold, len(own))
        for names, parts in zip(arrays, own, strict=True):
            for name, part in zip(names, parts, strict=True):
                w.line(f"{name}[{self.item}] = {part};")
        w.line("BARRIER();")
        half = t.lanes // 2
        while half:
            with w.block(f"if ({self.lane.text()} < {half})"):
                self._join_halves(fold, arrays, half * (1 if t.along else t.across))
            w.line("BARRIER();")
            half //= 2
        mask = ~(t.lanes - 1) if t.along else t.across - 1
        return [self._read(fold, names, f"{self.item} & {mask}") for names in arrays]

    def _join_halves(self, fold: Fold, arrays: Sequence[Sequence[str]], distance: int) -> None:
        for names in arrays:
            mine = tuple(f"{name}[{self.item}]" for name in names)
            other = tuple(f"{name}[{self.item} + {distance}]" for name in names)
            for target, text in zip(mine, fold.joined(self.w, mine, other), strict=True):
                self.w.line(f"{target} = {text};")

    def _arrays(self, fold: Fold, rows: int) -> list[list[str]]:
        """Shared arrays for every row's partial results; stages share them."""
        keys = [
            [(k, len(fold.kinds) * row + n) for n, k in enumerate(fold.kinds)]
            for row in range(rows)
        ]
        if any(key in self._shared for one in keys for key in one):
            self.w.line("BARRIER();")
        return [[self._array(*key) for key in one] for one in keys]

    def _array(self, kind: str, number: int) -> str:
        key = (kind, number)
        if key not in self._shared:
            self._shared[key] = self.w.array(kind, self.tiling.block, "s", "SHARED")
        return self._shared[key]

    @property
    def is_first(self) -> str:
        """The condition that this work item is the first of its row."""
        return "" if self.tiling.lanes == 1 else f"{self.lane.text()} == 0"
