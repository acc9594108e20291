"""Interval arithmetic at import: the range of each integer that the program computes from lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import UNBOUNDED, dims_of, over, plus, product, total
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx.constants import Constants

MOST_ELEMENTS = 1024
"""Vectors with more elements are assumed to hold no lengths."""


@dataclass(frozen=True)
class Span:
    """The integers from ``low`` to ``high``; values with the same name are equal."""

    low: int
    high: int
    name: str = ""

    @property
    def exact(self) -> int | None:
        """The value, if it is the only one."""
        return self.low if self.low == self.high else None

    @property
    def dim(self) -> Dim:
        """The values that are valid lengths, as a dimension."""
        low = max(self.low, 0)
        return Dim(low, UNBOUNDED if self.high >= _MOST else max(self.high, low), (), self.name)

    def __add__(self, other: Span) -> Span:
        """The sums."""
        if self.low >= 0 and other.low >= 0:
            return _of(total([self.dim, other.dim]))
        by, low = other.exact, self.low + other.low
        if by is not None and self.low >= 0 and low >= 0:
            return _of(plus(self.dim, by))
        return Span(low, self.high + other.high)

    def __sub__(self, other: Span) -> Span:
        """The differences."""
        if other.exact is not None:
            return self + Span(-other.exact, -other.exact)
        if self.name and self.name == other.name:
            return Span(0, 0)
        return Span(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Span) -> Span:
        """The products."""
        if self.low >= 0 and other.low >= 0:
            return _of(product([self.dim, other.dim]))
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Span(min(ends), max(ends))

    def __floordiv__(self, other: Span) -> Span:
        """The quotients of values that are not negative."""
        by = other.exact
        if by is None or by <= 0 or self.low < 0:
            if self.low < 0 or other.low < 0:
                return ANYTHING
            return Span(self.low // max(other.high, 1), self.high // max(other.low, 1))
        return _of(over(self.dim, by))


Spans: TypeAlias = "Sequence[Span]"
_MOST = (1 << 63) - 1
ANYTHING = Span(-_MOST, _MOST)


def _of(dim: Dim) -> Span:
    return Span(dim.min, min(dim.max, _MOST), dim.name)


def _either(a: Span, b: Span) -> Span:
    return a if a == b else Span(min(a.low, b.low), max(a.high, b.high))


def _larger(a: Span, b: Span) -> Span:
    found = Span(max(a.low, b.low), max(a.high, b.high))
    return next((s for s, o in ((a, b), (b, a)) if s.low >= o.high), found)


def _smaller(a: Span, b: Span) -> Span:
    found = Span(min(a.low, b.low), min(a.high, b.high))
    return next((s for s, o in ((a, b), (b, a)) if s.high <= o.low), found)


def _equal(a: Span, b: Span) -> Span:
    if a.high < b.low or b.high < a.low:
        return Span(0, 0)
    same = a.exact is not None and a.exact == b.exact
    return Span(1, 1) if same or (a.name and a.name == b.name) else Span(0, 1)


def _less(a: Span, b: Span) -> Span:
    if a.high < b.low:
        return Span(1, 1)
    return Span(0, 0) if a.low >= b.high else Span(0, 1)


_BINARY: dict[str, Callable[[Span, Span], Span]] = {
    "add": Span.__add__,
    "sub": Span.__sub__,
    "mul": Span.__mul__,
    "div": Span.__floordiv__,
    "max": _larger,
    "min": _smaller,
    "equal": _equal,
    "less": _less,
    "greater": lambda a, b: _less(b, a),
}
_MOVED = {"gather", "slice", "concat", "squeeze", "unsqueeze", "reshape", "multibroadcast",
          "transpose", "step", "reverse", "contiguous", "broadcast"}  # fmt: skip
_KEPT = {"convert", "identity", "expect_dims"}


class Lengths:
    """Finds the ranges of the elements of small integer tensors, each tensor once."""

    def __init__(self, constants: Constants) -> None:
        """Start without any ranges."""
        self.constants = constants
        self._known: dict[Instruction, Spans | None] = {}

    def of(self, value: Instruction) -> Spans | None:
        """The range of each element, in row-major order; None if it is not a small integer tensor."""
        stack = [value]
        while stack:
            current = stack[-1]
            waiting = [] if current in self._known else self._waiting(current)
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if current not in self._known:
                self._known[current] = self._found(current)
        return self._known[value]

    def exact(self, value: Instruction) -> Array | None:
        """The elements, if each is known exactly."""
        spans = self.of(value)
        if spans is None or any(s.exact is None for s in spans):
            return None
        shape = value.shape
        return np.array([s.low for s in spans]).astype(shape.type.numpy).reshape(shape.array_lens)

    def _waiting(self, value: Instruction) -> list[Instruction]:
        if not _holds_lengths(value) or value.op.name not in _READ or self._constant(value):
            return []
        return [i for i in value.inputs if i not in self._known]

    def _constant(self, value: Instruction) -> bool:
        return self.constants.is_constant(value)

    def _found(self, value: Instruction) -> Spans | None:
        if not _holds_lengths(value):
            return None
        if self._constant(value):
            known = self.constants.value(value)
            return None if known is None else [Span(int(v), int(v)) for v in known.reshape(-1)]
        name, op = value.op.name, value.op
        if name == "dimensions_of":
            start, end = op.attributes()["start"], op.attributes()["end"]
            return [_of(d) for d in dims_of(value.inputs[0].shape)[start:end]]
        inputs = [self._known.get(i) for i in value.inputs]
        given = [i for i in inputs if i is not None]
        if name not in _READ or len(given) < len(inputs):
            return [_limits(value)] * value.shape.elements
        return _computed(value, given)


_READ = _BINARY.keys() | _MOVED | _KEPT | {"where", "neg", "reduce_prod", "reduce_sum"}


def _holds_lengths(value: Instruction) -> bool:
    shape = value.shape
    static = shape.dims is None and shape.is_tensor
    return static and not shape.type.is_float and shape.elements <= MOST_ELEMENTS


def _limits(value: Instruction) -> Span:
    """The range of the element type."""
    kind = value.shape.type.numpy
    if kind.kind not in "iu":
        return Span(0, 1)
    info = np.iinfo(kind)
    return Span(int(info.min), int(info.max))


def _computed(value: Instruction, inputs: Sequence[Spans]) -> Spans:
    name = value.op.name
    if name in _BINARY:
        found = [_BINARY[name](a, b) for a, b in zip(*inputs, strict=True)]
    elif name == "where":
        spread = [i if len(i) > 1 else list(i) * value.shape.elements for i in inputs]
        found = [_chosen(*s) for s in zip(*spread, strict=True)]
    elif name == "neg":
        found = [Span(-s.high, -s.low) for s in inputs[0]]
    elif name in _KEPT:
        found = list(inputs[0])
    elif name in _MOVED:
        return _moved(value, inputs)
    else:
        return _reduced(value, inputs[0])
    within = _limits(value)
    return [_within(s, within) for s in found]


def _within(span: Span, limits: Span) -> Span:
    """A span within the range of the element type; sums and products of lengths do not overflow."""
    if not limits.low <= span.low <= limits.high:
        return limits
    return span if span.high <= limits.high else Span(span.low, limits.high, span.name)


def _chosen(condition: Span, a: Span, b: Span) -> Span:
    if condition.exact is not None:
        return a if condition.exact else b
    return _either(a, b)


def _places(value: Instruction, inputs: Sequence[Spans]) -> tuple[list[Array], list[Span]]:
    """For each input, an array of indices into the list of all their elements; and that list."""
    every: list[Span] = []
    arrays: list[Array] = []
    for given, spans in zip(value.inputs, inputs, strict=True):
        count = len(spans)
        arrays.append(np.arange(len(every), len(every) + count).reshape(given.shape.array_lens))
        every += spans
    return arrays, every


def _moved(value: Instruction, inputs: Sequence[Spans]) -> Spans:
    """The spans after an operation that moves elements, found by running it on indices."""
    arrays, every = _places(value, inputs)
    operands: list[Any] = list(arrays)
    if value.op.name in ("gather", "slice"):
        exact = [[s.exact for s in spans] for spans in inputs[1:]]
        if any(v is None for values in exact for v in values):
            hull = Span(min(s.low for s in inputs[0]), max(s.high for s in inputs[0]))
            return [hull] * value.shape.elements
        operands[1:] = [
            np.array(v, np.int64).reshape(i.shape.array_lens)
            for v, i in zip(exact, value.inputs[1:], strict=True)
        ]
    op = value.op.normalized([i.shape for i in value.inputs])
    places: Array = np.asarray(op.compute(*operands))
    return [every[int(i)] for i in places.reshape(-1)]


def _reduced(value: Instruction, spans: Spans) -> Spans:
    """The product or sum of all elements; for other reductions, the range of the type."""
    if value.shape.elements != 1 or not spans:
        return [_limits(value)] * value.shape.elements
    total = spans[0]
    for span in spans[1:]:
        total = total * span if value.op.name == "reduce_prod" else total + span
    return [total]
