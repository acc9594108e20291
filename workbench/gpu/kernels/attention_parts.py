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
"""Neighbours that are loaded, kept and multiplied together."""
LOWEST = "BITS_F32(0xff800000u)"
_NAN = "BITS_F32(0x7fc00000u)"


@dataclass(frozen=True)
class Operands:
    """The places of the body's parameters and large constants, or constants outside."""

    places: tuple[tuple[Instruction, Place], ...]
    constants: tuple[tuple[Instruction, Instruction], ...]

    def bind(self, b: Builder) -> None:
        """Let them be known in a kernel."""
        for one, place in self.places:
            b.tensors.bind(one, b.memory(place))
        for one, outside in self.constants:
            b.tensors.bind(one, partial(b.tensors.at, outside))


def operands(lowering: Lowering, a: Attention) -> Operands:
    """The places of a group's inputs."""
    named = dict(zip(sorted(a.body.parameters), a.group.inputs, strict=True))
    pairs = [(one, named[name]) for name, one in sorted(a.body.parameters.items())]
    places = [(p, lowering.place(i)) for p, i in pairs if not lowering.is_folded(i)]
    constants = tuple((p, i) for p, i in pairs if lowering.is_folded(i))
    for one in a.body:
        if one.literal is not None and one.shape.elements != 1:
            place = lowering.constant(one, 0, one.literal.numpy())
            places.append((one, Place(place.root, Shape(one.shape.type, one.shape.lens))))
    return Operands(tuple(places), constants)


def vectors(length: int) -> int:
    """The number of groups of neighbours in a length."""
    return -(-length // LANES)


def vector(w: Writer) -> str:
    """The type of a few neighbours."""
    return vector_type(w, "f32", LANES)


def clamped(w: Writer, index: Index, length: int) -> Index:
    """An index, or the last one if it lies behind that."""
    low, high = index.range
    if high < length:
        return index
    name = w.integer(f"{index.text()} < {length} ? {index.text()} : {length - 1}")
    return Index.of(Variable(name, max(low, 0), length - 1))


def within(index: Index, length: int) -> str:
    """The condition that an index is below a length; empty if it surely is."""
    return f"{index.text()} < {length}" if index.range[1] >= length else ""


def element(t: Tensors, operand: Instruction, index: Indices, axis: int, valid: str = "") -> str:
    """An element of an operand; 0 behind the end of an axis, or where it is not valid."""
    length = operand.shape.lens[axis]
    conditions = [c for c in (valid, within(index[axis], length)) if c]
    place = list(index)
    place[axis] = clamped(t.w, index[axis], length)
    text = t.at(operand, place).text
    return t.w.let("f32", f"{' && '.join(conditions)} ? {text} : 0.0f") if conditions else text


class Context:
    """One kernel of attention: which elements belong together, and what scores become.

    Args:
        b: The kernel, in which operands are bound.
        a: What it computes.
        targets: Where results go; none in a kernel that leaves that to another.
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
        """The score that a product of a query and a key is made to."""
        a = self.a
        name = self.w.define("f32", product, "p")
        self.t.bind(a.first, lambda _: Scalar(name, a.first.shape.type))
        return self.t.at(a.scores, (*self.batch, row, key)).text

    def weight(self, power: str, row: Index, key: Index) -> str:
        """The factor of values in the second product, not yet divided by the sum of a row."""
        a = self.a
        if a.second.inputs[0] is a.softmax:
            return power
        self.t.bind(a.softmax, lambda _: Scalar(power, a.softmax.shape.type))
        return self.t.at(a.second.inputs[0], (*self.batch, row, key)).text

    # Results

    def finish(self, top: str, total: str) -> tuple[str, str]:
        """The sum of a row as the softmax has it, and its reciprocal.

        A row without any finite score has no softmax: its sum is NaN.
        """
        w = self.w
        whole = w.define("f32", f"{top} == {LOWEST} ? {_NAN} : {total}")
        return whole, w.define("f32", f"1.0f / {whole}")

    def elements(
        self, row: Index, columns: Sequence[Index], sums: Sequence[str], sum: tuple[str, str]
    ) -> None:
        """Store results for neighbouring elements of the second product.

        Args:
            row: The query.
            columns: Their indices along the values.
            sums: The weighed sums of values.
            sum: What ``finish`` gave.
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
        """Store the results that are one number for each row."""
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
        """Whether any result is one number for each row."""
        return any(not r.wide for r in self.a.results)


def grown(w: Writer, top: str, candidates: Sequence[str]) -> tuple[str, str]:
    """Let a running maximum take in more numbers; gives what it was by factor, and what to subtract.

    Args:
        w: Where statements are written.
        top: The variable of the running maximum.
        candidates: The numbers.

    Returns:
        The factor that brings what was summed so far in line, and the maximum with 0 for none at all.
    """
    text = top
    for one in candidates:
        text = f"fmax({text}, {one})"
    found = w.define("f32", text, "n")
    base = w.define("f32", f"{found} == {LOWEST} ? 0.0f : {found}", "z")
    factor = w.define("f32", f"exp({top} - {base})", "k")
    w.line(f"{top} = {found};")
    return factor, base
