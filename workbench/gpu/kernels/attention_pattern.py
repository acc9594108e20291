"""The structure of an attention group: its two products, the softmax between, the results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ops.compare import Isnan, Where
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.pointwise import Mul
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Step, Transpose
from workbench.compiler.passes.fuse.attention.recognition import (
    in_order,
    is_relaid,
    is_shaped,
    softmax_behind,
    softmax_input,
)
from workbench.compiler.rewrite import behind_broadcasts
from workbench.gpu.emit.index import Index, Variable, joined, linear, split
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import At, Indices, Tensors, has_value
from workbench.gpu.emit.writer import Writer

_TYPES = frozenset({DType.FLOAT, DType.HALF, DType.BF16})


@dataclass(frozen=True)
class Result:
    """A result of the group, and the elements that it is computed from."""

    value: Instruction
    wide: bool
    """Whether it is computed from elements of the second product; otherwise from one number per row."""
    views: tuple[Instruction, ...]
    """The views on the way to the result, in order."""

    def index(self, index: Indices, w: Writer) -> Indices:
        """The index in the result of an element of the source."""
        for view in self.views:
            index = _moved(view, index, w)
        return index


@dataclass(frozen=True)
class Attention:
    """The parts of a group of attention."""

    group: Instruction
    first: Instruction
    """The product of queries and keys."""
    scores: Instruction
    """The operand of the softmax."""
    top: Instruction
    """The largest score of each row."""
    total: Instruction
    """The sum of exponentials of each row."""
    softmax: Instruction
    second: Instruction
    """The product with the values."""
    guarded: bool
    """Whether a NaN of the softmax is replaced by zero."""
    results: tuple[Result, ...]

    @property
    def body(self) -> Module:
        """The module of the group."""
        return self.group.modules[0]

    @property
    def batch(self) -> tuple[int, ...]:
        """Lens of the axes before the last two."""
        return self.second.shape.lens[:-2]

    @property
    def count(self) -> int:
        """The number of distinct queries, keys and values."""
        return prod(self.batch)

    @property
    def rows(self) -> int:
        """Queries."""
        return self.second.shape.lens[-2]

    @property
    def keys(self) -> int:
        """The number of keys, and of values."""
        return self.scores.shape.lens[-1]

    @property
    def depth(self) -> int:
        """The length of a query and of a key."""
        return self.first.inputs[0].shape.lens[-1]

    @property
    def width(self) -> int:
        """The length of a value."""
        return self.second.shape.lens[-1]


def recognised(group: Instruction) -> Attention | None:
    """The parts of a group, if it is attention that one kernel can compute."""
    body = group.modules[0]
    products = [i for i in body if isinstance(i.op, Dot)]
    second = next((i for i in products if softmax_behind(i.inputs[0]) is not None), None)
    first = next((i for i in products if i is not second), None)
    if second is None or first is None or len(products) != 2:
        return None
    softmax = softmax_behind(second.inputs[0])
    scores = None if softmax is None else softmax_input(softmax)
    if softmax is None or scores is None:
        return None
    power, total = softmax.inputs[0], behind_broadcasts(softmax.inputs[1])
    top = behind_broadcasts(power.inputs[0].inputs[1])
    guarded = _linear(second.inputs[0], softmax)
    results = _results(body, (first, second, top, total, softmax))
    if guarded is None or results is None:
        return None
    found = Attention(group, first, scores, top, total, softmax, second, guarded, results)
    if not _fits(found) or first_batch(_probe(body), found, *_probed(found)) is None:
        return None
    return found


def _fits(a: Attention) -> bool:
    """Whether the kernels support the types and axes, and everything else has a value at any index."""
    special = (a.first, a.second, a.top, a.total)
    values = (*special, *a.first.inputs, *a.second.inputs, a.scores, a.softmax)
    last = a.scores.shape.ndim - 1
    axes = {tuple(n % (last + 1) for n in cast("Any", i.op).axes) for i in (a.top, a.total)}
    lens = [i.shape.lens for i in (a.scores, a.softmax, a.second.inputs[0])]
    return (
        all(v.shape.type in _TYPES for v in values)
        and axes == {(last,)}
        and lens[0] == lens[1] == lens[2]
        and all(_is_simple(i) for i in a.body if i not in special)
        and all(i.module is a.body for one in a.body for i in one.inputs)
        and all(d.inputs[0].shape.ndim == d.inputs[1].shape.ndim for d in (a.first, a.second))
        and bool(a.second.shape.elements and a.keys and a.depth)
    )


def _is_simple(instruction: Instruction) -> bool:
    if not instruction.inputs or isinstance(instruction.op, Return):
        return True
    placed = is_shaped(instruction) or isinstance(instruction.op, Slice | Step)
    return (placed or _is_elementwise(instruction)) and has_value(instruction)


def _is_elementwise(instruction: Instruction) -> bool:
    return instruction.op.pointwise or isinstance(instruction.op, PointwiseModule)


# Between the products


def _linear(value: Instruction, softmax: Instruction) -> bool | None:
    """Whether the weights are computed from the softmax with a guard against NaN.

    None if anything but conversions, multiplications and such guards is between them: then the division
    by the row's sum cannot be moved to the end.
    """
    if value is softmax:
        return False
    if isinstance(value.op, Convert):
        return _linear(value.inputs[0], softmax) if value.shape.type in _TYPES else None
    if isinstance(value.op, Mul):
        inside = [i for i in value.inputs if _depends(i, {softmax})]
        return _linear(inside[0], softmax) if len(inside) == 1 else None
    if isinstance(value.op, Where) and len(value.inputs) == 3:
        condition, zero, kept = value.inputs
        known = isinstance(condition.op, Isnan) and _is_zero(zero)
        same = known and _unconverted(condition.inputs[0]) is _unconverted(kept)
        return True if same and _linear(kept, softmax) is not None else None
    return None


def _unconverted(value: Instruction) -> Instruction:
    """The value before conversions between types that have NaN."""
    while (
        isinstance(value.op, Convert) and {value.shape.type, value.inputs[0].shape.type} <= _TYPES
    ):
        value = value.inputs[0]
    return value


def _is_zero(value: Instruction) -> bool:
    literal = behind_broadcasts(value).literal
    return literal is not None and not literal.numpy().any()


def _depends(value: Instruction, on: Collection[Instruction]) -> bool:
    """Whether a value is computed from others."""
    seen: set[Instruction] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if current in on:
            return True
        if current not in seen:
            seen.add(current)
            stack += current.inputs
    return False


# Results


def _results(body: Module, special: tuple[Instruction, ...]) -> tuple[Result, ...] | None:
    """The source of each result; None if a result is computed from scores or weights."""
    first, second, top, total, softmax = special
    rows = {top, total}
    wide, narrow = _ways(body, (second,)), _ways(body, (top, total))
    found: list[Result] = []
    for value in body.outputs:
        if value in wide:
            views, inner, ends = wide[value], {first, softmax} | rows, {second}
        else:
            views, inner, ends = narrow.get(value), {first, second, softmax}, rows
        if views is None or _reaches(value, inner, ends):
            return None
        found.append(Result(value, value in wide, views))
    return tuple(found) if any(r.wide for r in found) else None


def _reaches(
    value: Instruction, inner: Collection[Instruction], ends: Collection[Instruction]
) -> bool:
    """Whether a value is computed from inner ones by a path that avoids the ends."""
    stack, seen = [value], set[Instruction]()
    while stack:
        current = stack.pop()
        if current in inner:
            return True
        if current not in ends and current not in seen:
            seen.add(current)
            stack += current.inputs
    return False


def _ways(
    body: Module, roots: tuple[Instruction, ...]
) -> dict[Instruction, tuple[Instruction, ...] | None]:
    """The views between the roots and each value that depends on them; None if an index cannot be mapped."""
    found: dict[Instruction, tuple[Instruction, ...] | None] = dict.fromkeys(roots, ())
    for one in in_order(body):
        ways = {found[i] for i in one.inputs if i in found}
        if one in found or not ways:
            continue
        way = ways.pop()
        if ways or way is None:
            found[one] = None
        elif _is_elementwise(one):
            found[one] = way
        else:
            found[one] = (*way, one) if is_relaid(one) else None
    return found


def _moved(view: Instruction, index: Indices, w: Writer) -> Indices:
    """The index in a view's result of an element of its input."""
    if isinstance(view.op, Transpose):
        op = cast("Any", view.op.normalized([view.inputs[0].shape]))
        permutation = cast("Sequence[int]", op.permutation)
        return tuple(index[k] for k in permutation)
    return split(joined(index, view.inputs[0].shape.lens), view.shape.lens, w)


# Indices of the first product


def first_batch(t: Tensors, a: Attention, batch: Indices, row: Index, key: Index) -> Indices | None:
    """The batch's index in the first product; None if its rows and columns are not those of the scores."""
    asked: list[Indices] = []

    def at(index: Indices) -> Scalar:
        asked.append(index)
        return Scalar("0", a.first.shape.type)

    with t.call("first product", {a.first: at}):
        t.at(a.scores, (*batch, row, key))
    if not asked or any(index != asked[0] for index in asked):
        return None
    lens, own = a.first.shape.lens, {v for i in (row, key) for v, _ in i.terms}
    last = tuple(Index() if n == 1 else i for i, n in zip((row, key), lens[-2:], strict=True))
    used = {v for i in asked[0][:-2] for v in _behind(i)}
    return asked[0][:-2] if asked[0][-2:] == last and not used & own else None


def _behind(index: Index) -> set[Variable]:
    """The variables of an expression, with those that they are computed from."""
    found: set[Variable] = set()
    for variable, _ in index.terms:
        origin = variable.quotient_of or variable.remainder_of
        found |= {variable} if origin is None else {variable, *_behind(origin[0])}
    return found


def _probe(body: Module) -> Tensors:
    """Values in a kernel that is never run, to trace indices."""
    t = Tensors(Writer())
    for one in body:
        if one.parameter is not None or one.literal is not None:
            t.bind(one, _nothing(one))
    return t


def _nothing(instruction: Instruction) -> At:
    return lambda _: Scalar("0", instruction.shape.type)


def _probed(a: Attention) -> tuple[Indices, Index, Index]:
    lens = a.scores.shape.lens
    index = [Index.of(Variable(f"p{k}", 0, max(n - 1, 0))) for k, n in enumerate(lens)]
    return tuple(index[:-2]), index[-2], index[-1]


def lies_along(body: Module, operand: Instruction, axis: int) -> bool:
    """Whether elements of an operand that are adjacent along an axis are adjacent in memory."""
    t = _probe(body)
    asked: list[Index] = []

    def recorder(source: Instruction) -> At:
        def at(index: Indices) -> Scalar:
            asked.append(linear(index, source.shape.strides))
            return Scalar("0", source.shape.type)

        return at

    for one in body:
        if one.parameter is not None or (one.literal is not None and one.shape.elements != 1):
            t.bind(one, recorder(one))
    lens = operand.shape.lens
    place = [Index.of(Variable(f"p{k}", 0, max(n - 1, 0))) for k, n in enumerate(lens)]
    t.at(operand, place)
    along = place[axis].terms[0][0]
    return any(dict(index.terms).get(along) == 1 for index in asked)
