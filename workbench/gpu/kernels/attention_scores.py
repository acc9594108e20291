"""Scores and weights as computed from products: constant factors, keys that a causal mask hides, guards."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.compare import Where
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.pointwise import Div, Mul
from workbench.compiler.rewrite import behind_broadcasts
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import Indices, Tensors
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.attention_pattern import Attention

_FLOATS = frozenset({DType.FLOAT, DType.HALF, DType.BF16})
_AT_ONCE = 1 << 22
"""Elements of a mask that are compared at once."""


@dataclass(frozen=True)
class Causal:
    """A mask that hides from each query the keys from some place on, which is one later for each query."""

    condition: Instruction
    """The mask, as an operand of ``where``."""
    source: Instruction
    """The constant in the body, or the parameter, that holds the mask."""
    hides: bool
    """Whether a key is hidden where the mask is true; otherwise where it is false."""
    kept: Instruction
    """The scores of the keys that are not hidden."""
    first: int
    """The first hidden key of the first query."""
    keys: int
    """All keys."""

    def bind(self, t: Tensors) -> None:
        """Let the mask be computed from the indices of row and key, instead of loaded."""
        sign = ">=" if self.hides else "<"

        def at(index: Indices) -> Scalar:
            row, key = index[-2:]
            return Scalar(f"({key.text()} {sign} {(row + self.first).text()})", DType.BOOL)

        t.bind(self.condition, at)

    def tiles(self, w: Writer, start: Index, rows: int, keys: int) -> str:
        """The number of tiles of keys, at least one, that some of the rows from a first one on see."""
        return self._tiles(w, start + (rows + keys - 2), keys, -(-self.keys // keys), 1)

    def whole_tiles(self, w: Writer, start: Index, keys: int) -> str:
        """The number of tiles of keys that all rows from a first one on see."""
        return self._tiles(w, start, keys, self.keys // keys, 0)

    def _tiles(self, w: Writer, place: Index, keys: int, most: int, least: int) -> str:
        text = (place + self.first).text()
        found = w.define("i32", f"(i32)({text}) / {keys}", "n")
        found = w.define("i32", f"{found} < {most} ? {found} : {most}", "n")
        return w.define("i32", f"{found} > {least} ? {found} : {least}", "n")


def causal(a: Attention) -> Causal | None:
    """The causal mask of the scores, if they have one whose hidden scores are minus infinity."""
    value = _unconverted(a.scores)
    if not isinstance(value.op, Where) or len(value.inputs) != 3:
        return None
    condition, *sides = value.inputs
    low = [_is_lowest(side) for side in sides]
    mask = None if low[0] == low[1] else _mask(a, condition)
    if mask is None:
        return None
    source, seen = mask[0], mask[1] ^ low[0]
    first = _diagonal(seen)
    kept = sides[1] if low[0] else sides[0]
    return None if first is None else Causal(condition, source, low[0], kept, first, a.keys)


def factor(a: Attention, mask: Causal | None) -> float | None:
    """The positive number by which products are multiplied to give the scores of keys that are not hidden."""
    value, found = a.scores if mask is None else mask.kept, 1.0
    while value is not a.first:
        if (
            isinstance(value.op, Convert)
            and {value.shape.type, value.inputs[0].shape.type} <= _FLOATS
        ):
            value = value.inputs[0]
        elif isinstance(value.op, Mul | Div) and (split := _by_constant(value)) is not None:
            value, found = split[0], found * split[1]
        else:
            return None
    return found if 0 < found < inf else None


def unscaled(operand: Instruction) -> tuple[Instruction, float]:
    """An operand without multiplications by constants, and their product; 1 if there are none."""
    value, found = operand, 1.0
    given: dict[Instruction, Instruction] = {}
    while True:
        if value in given:
            value = given[value]
        elif isinstance(value.op, PointwiseModule) and len(value.modules[0].outputs) == 1:
            body = value.modules[0]
            parameters = [body.parameters[name] for name in sorted(body.parameters)]
            given.update(zip(parameters, value.inputs, strict=True))
            value = body.outputs[0]
        elif isinstance(value.op, Convert) and value.inputs[0].shape.type in _FLOATS:
            value = value.inputs[0]
        elif isinstance(value.op, Mul | Div) and (split := _by_constant(value)) is not None:
            value, found = split[0], found * split[1]
        else:
            break
    same = (value.shape.type, value.shape.lens) == (operand.shape.type, operand.shape.lens)
    return (value, found) if same else (operand, 1.0)


def is_plain(a: Attention) -> bool:
    """Whether the weights are the softmax but for conversions and guards against NaN.

    A row that has a NaN has only such weights; they are guarded when results are stored.
    """
    value = a.second.inputs[0]
    while value is not a.softmax:
        if isinstance(value.op, Where):
            value = value.inputs[2]
        elif isinstance(value.op, Convert):
            value = value.inputs[0]
        else:
            return False
    return True


def _by_constant(product: Instruction) -> tuple[Instruction, float] | None:
    """The operand and the factor of a multiplication or division by a constant."""
    divides = isinstance(product.op, Div)
    for x, y in (product.inputs,) if divides else (product.inputs, product.inputs[::-1]):
        literal = _behind(y).literal
        if literal is not None and literal.numpy().size == 1:
            value = float(literal.numpy().reshape(-1)[0])
            if value or not divides:
                return x, 1 / value if divides else value
    return None


def _behind(value: Instruction) -> Instruction:
    """The value before conversions and broadcasts."""
    while (found := behind_broadcasts(_unconverted(value))) is not value:
        value = found
    return value


def _unconverted(value: Instruction) -> Instruction:
    while (
        isinstance(value.op, Convert) and {value.shape.type, value.inputs[0].shape.type} <= _FLOATS
    ):
        value = value.inputs[0]
    return value


def _is_lowest(value: Instruction) -> bool:
    literal = _behind(value).literal
    return literal is not None and bool(np.all(np.isneginf(literal.numpy().astype(np.float64))))


def _mask(a: Attention, condition: Instruction) -> tuple[Instruction, NDArray[np.bool_]] | None:
    """The constant behind a condition, and its rows and keys, if these are the same for each of the batch."""
    source, shape = behind_broadcasts(condition), condition.shape
    outside = dict(zip(sorted(a.body.parameters), a.group.inputs, strict=True))
    held = outside.get(source.parameter or "", source).literal
    whole = (a.rows, a.keys)
    if held is None or shape.lens[-2:] != whole or shape.strides[-2:] != (a.keys, 1):
        return None
    values = held.numpy().reshape(-1, *whole)
    same = all(np.array_equal(values[0], other) for other in values[1:])
    return (source, values[0].astype(bool)) if same else None


def _diagonal(seen: NDArray[np.bool_]) -> int | None:
    """The number of keys that the first query sees, if each further query sees one more; None otherwise."""
    rows, keys = seen.shape
    first = int(seen[0].sum())
    if first == keys and rows > 1:
        return None
    step = max(1, _AT_ONCE // keys)
    along = np.arange(keys, dtype=np.int64)
    for start in range(0, rows, step):
        ends = np.arange(start, min(start + step, rows), dtype=np.int64) + first
        if not np.array_equal(seen[start : start + step], along < ends[:, None]):
            return None
    return first
