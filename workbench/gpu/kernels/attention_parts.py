"""The common part of attention's kernels: operands, the running softmax, and storing results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import Indices, Memory, Tensors, vector_type
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.attention_pattern import Attention, first_batch
from workbench.gpu.kernels.elementwise import store
from workbench.gpu.kernels.kernel import Builder, Place

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

LANES = 4
"""Adjacent elements that are loaded, kept and multiplied as one vector."""
LOWEST = "BITS_F32(0xff800000u)"
_NAN = "BITS_F32(0x7fc00000u)"


@dataclass(frozen=True)
class Operands:
    """The places of the body's parameters and large constants, or the constants themselves."""

    places: tuple[tuple[Instruction, Place], ...]
    constants: tuple[tuple[Instruction, Instruction], ...]

    def bind(self, b: Builder) -> None:
        """Bind them in a kernel."""
        for one, place in self.places:
            b.tensors.bind(one, b.memory(place))
        for one, outside in self.constants:
            b.tensors.bind(one, partial(b.tensors.at, outside))


def operands(lowering: Lowering, a: Attention, without: Instruction | None = None) -> Operands:
    """The places of a group's inputs, but for a constant or parameter that the kernel does not read."""
    named = dict(zip(sorted(a.body.parameters), a.group.inputs, strict=True))
    pairs = [(one, named[name]) for name, one in sorted(a.body.parameters.items())]
    pairs = [(one, outside) for one, outside in pairs if one is not without]
    places = [(p, lowering.place(i)) for p, i in pairs if not lowering.is_folded(i)]
    constants = tuple((p, i) for p, i in pairs if lowering.is_folded(i))
    for one in a.body:
        if one is not without and one.literal is not None and one.shape.elements != 1:
            place = lowering.constant(one, 0, one.literal.numpy())
            places.append((one, Place(place.root, Shape(one.shape.type, one.shape.lens))))
    return Operands(tuple(places), constants)


def vectors(length: int) -> int:
    """The number of vectors that hold a length."""
    return -(-length // LANES)


def vector(w: Writer) -> str:
    """The vector type."""
    return vector_type(w, "f32", LANES)


def clamped(w: Writer, index: Index, length: int) -> Index:
    """An index, clamped to the last element."""
    low, high = index.range
    if high < length:
        return index
    name = w.integer(f"{index.text()} < {length} ? {index.text()} : {length - 1}")
    return Index.of(Variable(name, max(low, 0), length - 1))


def within(index: Index, length: int) -> str:
    """The condition that an index is below a length; empty if it always is."""
    return f"{index.text()} < {length}" if index.range[1] >= length else ""


def element(t: Tensors, operand: Instruction, index: Indices, axis: int, valid: str = "") -> str:
    """An element of an operand; 0 past the end of an axis, or if it is not valid."""
    length = operand.shape.lens[axis]
    conditions = [c for c in (valid, within(index[axis], length)) if c]
    place = list(index)
    place[axis] = clamped(t.w, index[axis], length)
    text = t.at(operand, place).text
    return t.w.let("f32", f"{' && '.join(conditions)} ? {text} : 0.0f") if conditions else text


class Context:
    """One kernel of attention: how indices of the products correspond, and what is computed from scores.

    Args:
        b: The kernel, in which operands are bound.
        a: The attention group.
        targets: The places of the results; empty in a kernel that leaves storing to another.
        batch: The batch's index in the second product.
    """

    def __init__(self, b: Builder, a: Attention, targets: Sequence[Memory], batch: Indices) -> None:
        """Find the batch's index in the first product."""
        self.w, self.t, self.b, self.a = b.w, b.tensors, b, a
        self.targets = targets
        self.batch = batch
        lens = a.scores.shape.lens
        row, key = (Index.of(Variable(f"none{k}", 0, n - 1)) for k, n in enumerate(lens[-2:]))
        first = first_batch(b.tensors, a, batch, row, key)
        assert first is not None, a.group
        self.first = first

    # From a product to a weight

    def score(self, product: str, row: Index, key: Index) -> str:
        """The score computed from the product of a query and a key."""
        a = self.a
        name = self.w.define("f32", product, "p")
        self.t.bind(a.first, lambda _: Scalar(name, a.first.shape.type))
        return self.t.at(a.scores, (*self.batch, row, key)).text

    def weight(self, power: str, row: Index, key: Index) -> str:
        """The weight of a value in the second product, before the division by the row's sum."""
        a = self.a
        if a.second.inputs[0] is a.softmax:
            return power
        self.t.bind(a.softmax, lambda _: Scalar(power, a.softmax.shape.type))
        return self.t.at(a.second.inputs[0], (*self.batch, row, key)).text

    # Results

    def finish(self, top: str, total: str) -> tuple[str, str]:
        """The row's sum in the softmax, and its reciprocal.

        A row without a finite score has no softmax: its sum is NaN.
        """
        w = self.w
        whole = w.define("f32", f"{top} == {LOWEST} ? {_NAN} : {total}")
        return whole, w.define("f32", f"1.0f / {whole}")

    def elements(
        self, row: Index, columns: Sequence[Index], sums: Sequence[str], sum: tuple[str, str]
    ) -> None:
        """Store results for adjacent elements of the second product.

        Args:
            row: The query.
            columns: Their indices along the values.
            sums: The weighted sums of values.
            sum: The result of ``finish``.
        """
        a, w = self.a, self.w
        whole, scale = sum
        texts = [f"{s} * {scale}" for s in sums]
        if a.guarded:
            texts = [f"{whole} == {whole} ? {t} : 0.0f" for t in texts]
        made = {c: w.define("f32", t) for c, t in zip(columns, texts, strict=True)}
        for result, target in zip(a.results, self.targets, strict=True):
            if not result.wide:
                continue
            indices = [result.index((*self.batch, row, c), w) for c in columns]
            values = [
                self._result(result.value, i, made[c])
                for i, c in zip(indices, columns, strict=True)
            ]
            store(self.b, target, indices, values)

    def _result(self, value: Instruction, index: Indices, sum: str) -> Scalar:
        a = self.a
        self.t.bind(a.second, lambda _: Scalar(sum, a.second.shape.type))
        return self.t.at(value, index)

    def rows(self, row: Index, top: str, whole: str) -> None:
        """Store the results that have one element per row."""
        a = self.a
        largest = Scalar(self.w.define("f32", top), a.top.shape.type)
        sum = Scalar(self.w.define("f32", whole), a.total.shape.type)
        self.t.bind(a.top, lambda _: largest)
        self.t.bind(a.total, lambda _: sum)
        for result, target in zip(a.results, self.targets, strict=True):
            if not result.wide:
                index = result.index((*self.batch, row, Index()), self.w)
                store(self.b, target, [index], [self.t.at(result.value, index)])

    @property
    def has_row_results(self) -> bool:
        """Whether any result has one element per row."""
        return any(not r.wide for r in self.a.results)


def grown(w: Writer, top: str, candidates: Sequence[str]) -> tuple[str, str]:
    """Update a running maximum with more numbers.

    Args:
        w: The writer of the kernel's code.
        top: The variable of the running maximum.
        candidates: The numbers.

    Returns:
        The factor that rescales the sums so far, and the number to subtract from scores: the new
            maximum, or 0 if there is none yet.
    """
    text = top
    for one in candidates:
        text = f"fmax({text}, {one})"
    found = w.define("f32", text, "n")
    base = w.define("f32", f"{found} == {LOWEST} ? 0.0f : {found}", "z")
    factor = w.define("f32", f"exp({top} - {base})", "k")
    w.line(f"{top} = {found};")
    return factor, base
