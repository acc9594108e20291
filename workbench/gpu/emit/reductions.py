"""Values of reductions, and how elements become one, for a work item alone and for many together."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, TypeAlias, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.accumulate import highest, lowest
from workbench.gpu.emit import scalar
from workbench.gpu.emit.functions import definition, kind_of
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar, c_type, number
from workbench.gpu.emit.tensors import Indices, Tensors, has_value, value_of
from workbench.gpu.emit.writer import Writer

Parts: TypeAlias = tuple[str, ...]
"""A partial result: names or constants, one for most reductions, an element and its place for argmax."""

SUMS = ("reduce_sum", "reduce_mean")
REDUCTIONS = (
    *SUMS, "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any", "argmin", "argmax",
)  # fmt: skip
_UNROLLED = 16
"""Elements up to which one work item's loop is written out."""
_STANDS_FOR = {
    "f32": DType.FLOAT, "f64": DType.DOUBLE, "i32": DType.INT32, "i64": DType.INT64,
    "u32": DType.UINT32, "u64": DType.UINT64,
}  # fmt: skip
_JOINED = {
    "reduce_sum": "{} + {}", "reduce_mean": "{} + {}", "reduce_prod": "{} * {}",
    "reduce_all": "{} & {}", "reduce_any": "{} | {}",
}  # fmt: skip
_WINS = "DEVICE i32 {name}({T} a, {I} i, {T} b, {I} j) {{ return {text}; }}"
_BETTER = "(b {better} a || (b == a && j {before} i))"
_BETTER_OR_NAN = f"b != b ? a == a || j {{before}} i : a == a && {_BETTER}"


@dataclass(frozen=True)
class Fold:
    """How the elements of a reduction become one: f32 at least, integers in 64 bits; NaN wins."""

    name: str
    """The operation's."""
    type: DType
    """Of the elements."""
    count: int
    """Elements that become one; a mean divides by it."""
    last: bool = False
    """Of equal extremes, whether argmin and argmax give the last."""
    places: str = "i32"
    """The C type of an element's place."""

    @property
    def kinds(self) -> Parts:
        """The C types of a partial result."""
        kind = c_type(self.type)
        whole = kind_of(kind) != "f"
        if self.name in ("reduce_all", "reduce_any"):
            return ("i32",)
        if whole and self.name in (*SUMS, "reduce_prod"):
            return ("u64",)
        if kind in ("i8", "u8", "i16", "u16"):
            kind = "i32"
        return (kind, self.places) if self.finds_place else (kind,)

    @property
    def types(self) -> tuple[DType, ...]:
        """The element types that hold a partial result in memory."""
        return tuple(_STANDS_FOR[k] for k in self.kinds)

    @property
    def finds_place(self) -> bool:
        """Whether the result is where an element stands."""
        return self.name.startswith("arg")

    @property
    def identity(self) -> Parts:
        """The partial result of no elements."""
        kind = _STANDS_FOR[self.kinds[0]]
        if self.name in (*SUMS, "reduce_prod", "reduce_all", "reduce_any"):
            return (number(self.name in ("reduce_prod", "reduce_all"), kind).text,)
        limit = lowest if self.name in ("reduce_max", "argmax") else highest
        least = number(limit(self.type.numpy), kind).text
        return (least, str(-1 if self.last else self.count)) if self.finds_place else (least,)

    def one(self, w: Writer, element: Scalar, place: Index) -> Parts:
        """The partial result of one element, which stands at a place along the reduced axis."""
        kind, text = self.kinds[0], element.text
        if self.name in ("reduce_all", "reduce_any"):
            text = w.let(kind, f"{text} != 0")
        elif c_type(element.type) != kind:
            text = w.let(kind, f"({kind}){text}")
        return (text, w.integer(place.text())) if self.finds_place else (text,)

    def joined(self, w: Writer, a: Parts, b: Parts) -> Parts:
        """The expressions of two partial results' joint one; they may name what changes later."""
        if self.finds_place:
            wins = w.define("i32", f"{self._wins(w)}({a[0]}, {a[1]}, {b[0]}, {b[1]})", "b")
            return tuple(f"{wins} ? {y} : {x}" for x, y in zip(a, b, strict=True))
        if self.name in _JOINED:
            return (_JOINED[self.name].format(a[0], b[0]),)
        function = self.name.removeprefix("reduce_")
        w.need(definition(function, self.kinds[0]))
        return (f"{function}_{self.kinds[0]}({a[0]}, {b[0]})",)

    def _wins(self, w: Writer) -> str:
        kind, place = self.kinds
        name = f"{self.name}_{'last' if self.last else 'first'}_{kind}_{place}"
        before, better = ">" if self.last else "<", ">" if self.name == "argmax" else "<"
        text = _BETTER_OR_NAN if kind_of(kind) == "f" else _BETTER
        text = text.format(before=before, better=better)
        w.need(_WINS.format(name=name, T=kind, I=place, text=text))
        return name

    def tree(self, w: Writer, parts: Sequence[Parts]) -> Parts:
        """All partial results as one, joined in pairs so that few wait for each other."""
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
        """Variables that hold the partial result of no elements yet."""
        return tuple(w.variable(k, t) for k, t in zip(self.kinds, self.identity, strict=True))

    def grow(self, w: Writer, variables: Parts, parts: Parts) -> None:
        """Join a partial result to variables."""
        for name, text in zip(variables, self.joined(w, variables, parts), strict=True):
            w.line(f"{name} = {text};")

    def result(self, w: Writer, parts: Parts) -> Scalar:
        """The reduction's element."""
        if self.finds_place:
            return Scalar(w.let("i64", f"(i64){parts[1]}"), DType.INT64)
        kind, text = self.kinds[0], parts[0]
        if kind == "u64" and kind_of(c_type(self.type)) == "i":
            kind, text = "i64", w.let("i64", f"(i64){text}")
        if self.name == "reduce_mean":
            count = self.count if kind_of(kind) == "f" else max(self.count, 1)
            text = w.let(kind, f"{text} / {number(count, _STANDS_FOR[kind]).text}")
        if kind == c_type(self.type):
            return scalar.rounded(w, Scalar(text, self.type))
        return scalar.cast(w, Scalar(text, _STANDS_FOR[kind]), self.type)


def is_reduction(instruction: Instruction) -> bool:
    """Whether an instruction reduces its only input along axes that are known."""
    return (
        instruction.name in REDUCTIONS
        and len(instruction.inputs) == 1
        and DType.FP4X2 is not instruction.inputs[0].shape.type
    )


def reduced_axes(instruction: Instruction) -> tuple[int, ...]:
    """The axes along which an instruction reduces, in ascending order."""
    op = cast("Any", instruction.op.normalized([instruction.inputs[0].shape]))
    return (op.axis,) if instruction.name.startswith("arg") else tuple(sorted(op.axes))


def fold_of(instruction: Instruction, places: str = "i32") -> Fold:
    """How the elements of a reduction become one."""
    x = instruction.inputs[0].shape
    count = prod(x.lens[a] for a in reduced_axes(instruction))
    last = bool(getattr(instruction.op, "select_last_index", False))
    return Fold(instruction.name, x.type, count, last, places)


@value_of(*REDUCTIONS, when=is_reduction)
def reduced(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """A loop over the elements that become one; a short one is written out."""
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


@value_of("fused_reduce", "split_fused_reduce", when=_has_serial_body)
def body_of_tensors(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The body's result, for which one work item goes along the reduced axes by itself."""
    module = i.modules[0]
    named = [p for _, p in sorted(module.parameters.items())]
    given: Mapping[Instruction, Any] = {
        p: partial(_as_given, t, x) for p, x in zip(named, i.inputs, strict=True)
    }
    with t.call((i.id, index), given):
        return t.at(module.outputs[part], index)


def _as_given(t: Tensors, x: Instruction, index: Indices) -> Scalar:
    return t.at(x, index)
