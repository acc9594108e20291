"""Attention on a CPU: a block is one work item, which keeps copies of the keys and values of its queries.

The inner loops are over adjacent numbers of a fixed count, so that the compiler makes vectors of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.kernels.attention_parts import (
    LOWEST,
    Context,
    clamped,
    element,
    operands,
    within,
)
from workbench.gpu.kernels.attention_pattern import Attention
from workbench.gpu.kernels.kernel import Builder, Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_ROWS = 8
"""Queries that are multiplied at a time."""
_LANES = 16
"""Adjacent numbers of a vector."""
_MOST = 1 << 15
"""Numbers of keys and values that a block keeps, at most: they should stay in its core's cache."""
_FEWEST_BLOCKS, _MOST_QUERIES = 4, 256


@dataclass(frozen=True)
class _Sizes:
    """Lengths padded to whole vectors, and the queries of a block."""

    keys: int
    width: int
    queries: int


def _padded(length: int, step: int) -> int:
    return -(-length // step) * step


def _sizes(a: Attention) -> _Sizes:
    parts = max(
        -(-a.rows // _MOST_QUERIES), min(-(-_FEWEST_BLOCKS // a.count), -(-a.rows // _ROWS))
    )
    queries = _padded(-(-a.rows // parts), _ROWS)
    return _Sizes(_padded(a.keys, _LANES), _padded(a.width, _LANES), queries)


def suits(a: Attention) -> bool:
    """Whether a block can keep its keys and values."""
    sizes = _sizes(a)
    return a.depth * sizes.keys + a.keys * sizes.width <= _MOST


def on_cpu(lowering: Lowering, a: Attention) -> Launch:
    """The kernel that computes attention on a CPU."""
    sizes = _sizes(a)
    given, outputs = operands(lowering, a), lowering.outputs(a.group)
    places = [*(p for _, p in given.places), *outputs]
    b = Builder(lowering.dialect, "attention", places, 1)
    given.bind(b)
    targets = [b.memory(p, writes=True) for p in outputs]
    parts = -(-a.rows // sizes.queries)
    blocks = a.count * parts
    block = Index.of(Variable(b.w.define(b.w.integer_type, "GROUP(0)", "g"), 0, blocks - 1))
    batch, number = block.divmod(parts, b.w)
    context = Context(b, a, targets, split(batch, a.batch, b.w))
    _OnCpu(context, sizes, number * sizes.queries).write()
    return b.launch(blocks, 1)


class _OnCpu:
    """Writes the kernel.

    Args:
        context: The kernel.
        sizes: Its sizes.
        start: The first query of the block.
    """

    def __init__(self, context: Context, sizes: _Sizes, start: Index) -> None:
        self.c, self.sizes, self.start = context, sizes, start
        self.a, self.w, self.t = context.a, context.w, context.t
        a, w = self.a, self.w
        self.k = w.array("f32", a.depth * sizes.keys, "k")
        self.v = w.array("f32", a.keys * sizes.width, "v")
        self.q = w.array("f32", _ROWS * a.depth, "q")
        self.s = w.array("f32", _ROWS * sizes.keys, "s")
        self.o = w.array("f32", _ROWS * sizes.width, "o")

    def write(self) -> None:
        """The whole kernel."""
        a, w = self.a, self.w
        self._keep_keys(a.first.inputs[1])
        self._keep_values(a.second.inputs[1])
        with w.loop(self.sizes.queries // _ROWS, prefix="r") as turn:
            first = self.start + turn * _ROWS
            rows = [first + i for i in range(_ROWS)]
            places = [clamped(w, row, a.rows) for row in rows]
            self._keep_queries(a.first.inputs[0], places)
            self._multiply((self.s, self.sizes.keys), (self.q, a.depth), self.k)
            found = [self._softmax(i, place) for i, place in enumerate(places)]
            self._multiply((self.o, self.sizes.width), (self.s, a.keys), self.v)
            for i, (row, place) in enumerate(zip(rows, places, strict=True)):
                with w.block(f"if ({within(row, a.rows) or 1})"):
                    self._store(i, place, found[i])

    # What a block keeps

    def _keep_keys(self, keys: Instruction) -> None:
        """Copy the keys, with an axis of the depth before theirs."""
        w, count = self.w, self.sizes.keys
        with w.loop(self.a.depth * count) as at:
            w.line(f"{self.k}[{at.text()}] = 0;")
        with w.loop(self.a.keys) as key, w.loop(self.a.depth) as d:
            text = element(self.t, keys, (*self.c.first, d, key), -2)
            w.line(f"{self.k}[{(d * count + key).text()}] = {text};")

    def _keep_values(self, values: Instruction) -> None:
        w, width = self.w, self.sizes.width
        with w.loop(self.a.keys * width) as at:
            w.line(f"{self.v}[{at.text()}] = 0;")
        with w.loop(self.a.keys) as key, w.loop(self.a.width) as column:
            text = element(self.t, values, (*self.c.batch, key, column), -1)
            w.line(f"{self.v}[{(key * width + column).text()}] = {text};")

    def _keep_queries(self, queries: Instruction, places: list[Index]) -> None:
        w, depth = self.w, self.a.depth
        for i, place in enumerate(places):
            with w.loop(depth) as d:
                text = element(self.t, queries, (*self.c.first, place, d), -1)
                w.line(f"{self.q}[{(d + i * depth).text()}] = {text};")

    # Products and the softmax

    def _multiply(self, target: tuple[str, int], left: tuple[str, int], right: str) -> None:
        """Multiply a few rows by a matrix, and keep the sums of a vector of columns in registers.

        Args:
            target: The products, and the length of their rows.
            left: The rows, and the number of terms; of scores, rows are as long as those of keys.
            right: The matrix, whose rows are as long as the target's.
        """
        w, (made, length), (rows, terms) = self.w, target, left
        apart = terms if rows == self.q else self.sizes.keys
        each = f"UNROLL for (i32 i = 0; i < {_ROWS}; ++i) UNROLL for (i32 j = 0; j < {_LANES}; ++j)"
        with w.loop(length // _LANES, prefix="c") as part:
            column = (part * _LANES).text()
            w.line(f"f32 p[{_ROWS * _LANES}];")
            w.line(f"{each} p[i * {_LANES} + j] = 0;")
            with w.loop(terms, prefix="d") as d:
                term = f"{rows}[i * {apart} + {d.text()}] * {right}[{(d * length).text()} + {column} + j]"
                w.line(f"{each} p[i * {_LANES} + j] += {term};")
            w.line(f"{each} {made}[i * {length} + {column} + j] = p[i * {_LANES} + j];")

    def _softmax(self, i: int, place: Index) -> tuple[str, str]:
        """Turn a row's products into weights; returns its largest score and its sum of exponentials."""
        w, a, padded = self.w, self.a, self.sizes.keys
        first = i * padded
        with w.loop(a.keys) as key:
            at = f"{self.s}[{(key + first).text()}]"
            w.line(f"{at} = {self.c.score(at, place, key)};")
        with w.loop(padded - a.keys) as rest:
            w.line(f"{self.s}[{(rest + (first + a.keys)).text()}] = {LOWEST};")
        top = self._joined(first, LOWEST, "{0} < {1} ? {1} : {0}", "m")
        base = w.define("f32", f"{top} == {LOWEST} ? 0.0f : {top}", "z")
        with w.loop(padded) as key:
            at = f"{self.s}[{(key + first).text()}]"
            w.line(f"{at} = exp({at} - {base});")
        total = self._joined(first, "0.0f", "{0} + {1}", "l")
        if a.second.inputs[0] is not a.softmax:
            with w.loop(a.keys) as key:
                at = f"{self.s}[{(key + first).text()}]"
                power = w.define("f32", at, "e")
                w.line(f"{at} = {self.c.weight(power, place, key)};")
        return top, total

    def _joined(self, first: int, start: str, text: str, prefix: str) -> str:
        """All numbers of a row joined, those of each lane first."""
        w = self.w
        lanes = w.array("f32", _LANES, prefix)
        own = f"{lanes}[j]"
        w.line(f"UNROLL for (i32 j = 0; j < {_LANES}; ++j) {own} = {start};")
        with w.loop(self.sizes.keys // _LANES) as part:
            one = f"{self.s}[{(part * _LANES + first).text()} + j]"
            step = f"{own} = {text.format(own, one)};"
            w.line(f"UNROLL for (i32 j = 0; j < {_LANES}; ++j) {step}")
        found = w.variable("f32", start, prefix)
        step = f"{found} = {text.format(found, own)};"
        w.line(f"UNROLL for (i32 j = 0; j < {_LANES}; ++j) {step}")
        return found

    # Results

    def _store(self, i: int, place: Index, found: tuple[str, str]) -> None:
        w, c = self.w, self.c
        done = c.finish(*found)
        if c.has_row_results:
            c.rows(place, found[0], done[0])
        with w.loop(self.a.width) as column:
            sum = f"{self.o}[{(column + i * self.sizes.width).text()}]"
            c.elements(place, [column], [sum], done)
