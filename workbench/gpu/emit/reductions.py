"""Values of reductions, and the fold of elements into one, by a single work item or by several."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, TypeAlias

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.structure import Choice, Monoid
from workbench.compiler.ops.fused import FusedReduce, SplitFusedReduce
from workbench.compiler.ops.reduce import ArgExtreme, Reduction, is_reduction, reduced_axes
from workbench.gpu.emit import scalar
from workbench.gpu.emit.functions import kind_of
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar, c_type, number
from workbench.gpu.emit.tensors import Indices, Tensors, has_value, value_of
from workbench.gpu.emit.writer import Writer

Parts: TypeAlias = tuple[str, ...]
"""A partial result, as names or constants: usually one; for argmax an element and its position."""

_UNROLLED = 16
"""Most elements for which a work item's loop is unrolled."""
_WINS = "DEVICE i32 {name}({T} a, {I} i, {T} b, {I} j) {{ return {text}; }}"
_BETTER = "(b {better} a || (b == a && j {before} i))"
_BETTER_OR_NAN = f"b != b ? a == a || j {{before}} i : a == a && {_BETTER}"


@dataclass(frozen=True)
class Fold:
    """The fold of a reduction's elements into one: f32 at least, integers in 64 bits; NaN wins."""

    monoid: Monoid
    type: DType
    """The element type."""
    count: int
    """The number of elements that are folded into one; a mean divides by it."""
    last: bool = False
    """Whether argmin and argmax give the last of equal extremes."""
    places: str = "i32"
    """The C type of an element's position."""

    @property
    def kinds(self) -> Parts:
        """The C types of a partial result."""
        kind = c_type(self._held)
        return (kind, self.places) if isinstance(self.monoid, Choice) else (kind,)

    @property
    def types(self) -> tuple[DType, ...]:
        """The element types that hold a partial result in memory."""
        place = DType.INT64 if self.places == "i64" else DType.INT32
        return (self._held, place) if isinstance(self.monoid, Choice) else (self._held,)

    @property
    def _held(self) -> DType:
        """The type that elements are combined in."""
        return self.monoid.accumulator(self.type)

    @property
    def identity(self) -> Parts:
        """The partial result of no elements."""
        least = number(self.monoid.identity(self.type), self._held).text
        if not isinstance(self.monoid, Choice):
            return (least,)
        return least, str(-1 if self.last else self.count)

    def one(self, w: Writer, element: Scalar, place: Index) -> Parts:
        """The partial result of one element at a position along the reduced axis."""
        kind, text = self.kinds[0], element.text
        if self.monoid.lift:
            text = w.let(kind, scalar.called(w, self.monoid.lift.format(text), kind))
        elif c_type(element.type) != kind:
            text = w.let(kind, f"({kind}){text}")
        choice = isinstance(self.monoid, Choice)
        return (text, w.integer(place.text())) if choice else (text,)

    def joined(self, w: Writer, a: Parts, b: Parts) -> Parts:
        """Expressions that combine two partial results; they may name variables that change later."""
        if isinstance(self.monoid, Choice):
            wins = w.define(
                "i32", f"{self._wins(w, self.monoid)}({a[0]}, {a[1]}, {b[0]}, {b[1]})", "b"
            )
            return tuple(f"{wins} ? {y} : {x}" for x, y in zip(a, b, strict=True))
        return (scalar.called(w, self.monoid.join.format(a[0], b[0]), self.kinds[0]),)

    def _wins(self, w: Writer, choice: Choice) -> str:
        kind, place = self.kinds
        arg = "argmax" if choice.beats == ">" else "argmin"
        name = f"{arg}_{'last' if self.last else 'first'}_{kind}_{place}"
        before = ">" if self.last else "<"
        text = _BETTER_OR_NAN if kind_of(kind) == "f" else _BETTER
        text = text.format(before=before, better=choice.beats)
        w.need(_WINS.format(name=name, T=kind, I=place, text=text))
        return name

    def tree(self, w: Writer, parts: Sequence[Parts]) -> Parts:
        """All partial results as one, combined as a balanced tree to keep the dependence chains short."""
        if not parts:
            return self.identity
        while len(parts) > 1:
            pairs = [self._pair(w, a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = [*pairs, *parts[len(pairs) * 2 :]]
        return parts[0]

    def _pair(self, w: Writer, a: Parts, b: Parts) -> Parts:
        texts = self.joined(w, a, b)
        return tuple(w.define(k, t, "r") for k, t in zip(self.kinds, texts, strict=True))

    def growing(self, w: Writer) -> Parts:
        """Accumulator variables, initialised to the identity."""
        return tuple(w.variable(k, t) for k, t in zip(self.kinds, self.identity, strict=True))

    def grow(self, w: Writer, variables: Parts, parts: Parts) -> None:
        """Combine a partial result into accumulator variables."""
        for name, text in zip(variables, self.joined(w, variables, parts), strict=True):
            w.line(f"{name} = {text};")

    def result(self, w: Writer, parts: Parts) -> Scalar:
        """The reduction's result."""
        if isinstance(self.monoid, Choice):
            return Scalar(w.let("i64", f"(i64){parts[1]}"), DType.INT64)
        held, text = self._held, parts[0]
        if held is DType.UINT64 and kind_of(c_type(self.type)) == "i":
            held, text = DType.INT64, w.let("i64", f"(i64){text}")
        kind = c_type(held)
        if self.monoid.finish:
            count = self.count if held.is_float else max(self.count, 1)
            finish = self.monoid.finish.format(text, n=number(count, held).text)
            text = w.let(kind, scalar.called(w, finish, kind))
        if kind == c_type(self.type):
            return scalar.rounded(w, Scalar(text, self.type))
        return scalar.cast(w, Scalar(text, held), self.type)


def is_reducible(instruction: Instruction) -> bool:
    """Whether kernels support the type of the elements that an instruction reduces."""
    return is_reduction(instruction) and instruction.inputs[0].shape.type is not DType.FP4X2


def fold_of(instruction: Instruction, places: str = "i32") -> Fold:
    """The fold of a reduction."""
    x, monoid = instruction.inputs[0].shape, instruction.op.monoid
    assert monoid is not None
    count = prod(x.lens[a] for a in reduced_axes(instruction))
    last = bool(getattr(instruction.op, "select_last_index", False))
    return Fold(monoid, x.type, count, last, places)


@value_of(Reduction, ArgExtreme, when=is_reducible)
def reduced(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """A loop over the elements that are reduced to one; a short loop is unrolled."""
    w, x, axes = t.w, i.inputs[0], reduced_axes(i)
    fold = fold_of(i, w.integer_type)
    lens = [x.shape.lens[a] for a in axes]

    def element(place: Sequence[Index]) -> Parts:
        whole = list(index)
        for axis, at in zip(axes, place, strict=True):
            whole[axis] = at
        return fold.one(w, t.at(x, whole), place[0])

    if prod(lens) <= _UNROLLED:
        places = product(*[[Index((), k) for k in range(n)] for n in lens])
        return fold.result(w, fold.tree(w, [element(p) for p in places]))
    sums = fold.growing(w)
    with _loops(w, lens) as place:
        fold.grow(w, sums, element(place))
    return fold.result(w, sums)


@contextmanager
def _loops(w: Writer, lens: Sequence[int]) -> Generator[list[Index]]:
    with ExitStack() as stack:
        yield [stack.enter_context(w.loop(n)) for n in lens]


def _has_serial_body(i: Instruction) -> bool:
    return all(
        (j.name.startswith("@") and (j.literal is None or j.shape.elements == 1)) or has_value(j)
        for m in i.modules
        for j in m
    )


@value_of(FusedReduce, SplitFusedReduce, when=_has_serial_body)
def body_of_tensors(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The body's result; one work item loops over the reduced axes by itself."""
    module = i.modules[0]
    named = [p for _, p in sorted(module.parameters.items())]
    given: Mapping[Instruction, Any] = {
        p: partial(_as_given, t, x) for p, x in zip(named, i.inputs, strict=True)
    }
    with t.call((i.id, index), given):
        return t.at(module.outputs[part], index)


def _as_given(t: Tensors, x: Instruction, index: Indices) -> Scalar:
    return t.at(x, index)
