"""Einsum decomposed into transposes, matrix products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod

from workbench.compiler.errors import OperationError, ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import expand
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, same


@dataclass
class _Term:
    """A value with an axis per column of the equation, in order; ``present`` are those not inserted."""

    value: Instruction
    present: set[int]


@onnx_op("Einsum")
def einsum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Sums of products over named axes."""
    node.expect(inputs, 1, len(inputs))
    terms, output = _parsed(node, inputs)
    if all(map(_is_plain, terms, inputs)):
        with suppress(OperationError):  # an output without the ellipsis of its inputs
            return expand(node.module, None, "einsum", inputs, {"equation": node.text("equation")})[
                0
            ]
    columns = sorted({label for t in [*terms, output] for label in t}, key=_order)
    rows = [{columns.index(label) for label in t} for t in [*terms, output]]
    result: _Term | None = None
    for index, (labels, x) in enumerate(zip(terms, inputs, strict=True)):
        later = set[int]().union(*rows[index + 1 :])
        current = _spread(node, x, labels, columns)
        kept = later if result is None else later | result.present
        current = _summed(node, current, current.present - kept)
        result = current if result is None else _product(node, result, current, later)
    assert result is not None  # there is an input
    result = _summed(node, result, result.present - rows[-1])
    return _ordered(node, result, [columns.index(label) for label in output])


def _is_plain(labels: Sequence[str], x: Instruction) -> bool:
    """Whether MIGraphX's instructions are correct for a term: static, at most one diagonal, at the end."""
    if x.shape.is_dynamic or not x.shape.elements or not x.shape.lens:
        return False
    repeated = [i for i, label in enumerate(labels) if labels.count(label) > 1]
    names, lens = ({of[i] for i in repeated} for of in (labels, x.shape.lens))
    is_last = repeated == [*range(len(labels) - len(repeated), len(labels))]
    return not repeated or (len(names) == len(lens) == 1 and is_last)


def _order(label: str) -> tuple[int, str]:
    """A sort key: letters first, then the axes of the ellipsis."""
    return (len(label) > 1, label)


def _parsed(node: NodeContext, inputs: list[Instruction]) -> tuple[list[list[str]], list[str]]:
    """The labels of each input's axes, and of the output's."""
    equation = node.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if "->" in right or "," in right or len(parts) != len(inputs):
        raise node.fail(
            f"equation {equation!r} for {len(inputs)} inputs; expected a term for each, separated "
            "by commas, and at most one result"
        )
    spare = [node.rank(i) - len(p.replace("...", "")) for p, i in zip(parts, inputs, strict=True)]
    hidden = max((s for p, s in zip(parts, spare, strict=True) if "..." in p), default=0)
    terms = [
        _labels(node, part, extra, hidden) for part, extra in zip(parts, spare, strict=True)
    ]  # fmt: skip
    known = [label for t in terms for label in t]
    if arrow:
        output = _labels(node, right, hidden if "..." in right else 0, hidden)
    else:
        once = sorted(x for x in set(known) if len(x) == 1 and known.count(x) == 1)
        output = [f"...{i:02}" for i in range(hidden)] + once
    if len(set(output)) != len(output) or not set(output) <= set(known):
        raise node.fail(
            f"equation {equation!r}: expected output labels that inputs have, each once"
        )
    return terms, output


def _labels(node: NodeContext, part: str, extra: int, hidden: int) -> list[str]:
    before, dots, after = part.partition("...")
    if (not (before + after).isalpha() and before + after) or extra < 0 or (extra and not dots):
        raise node.fail(
            f"term {part!r} of the equation does not fit its input; expected a letter for each "
            "axis, or ... for those without one"
        )
    middle = [f"...{i:02}" for i in range(hidden - extra, hidden)] if dots else []
    return [*before, *middle, *after]


def _spread(node: NodeContext, x: Instruction, labels: list[str], columns: list[str]) -> _Term:
    """``x`` with its axes in the order of the columns, and axes of length 1 for the others."""
    x, labels = _diagonal(node, x, labels)
    order = sorted(range(len(labels)), key=lambda i: columns.index(labels[i]))
    present = {columns.index(label) for label in labels}
    missing = [c for c in range(len(columns)) if c not in present]
    if not labels:
        return _Term(node.reshape(x, *[1] * len(columns)) if columns else x, present)
    return _Term(node.unsqueeze(node.transpose(x, *order), *missing), present)


def _diagonal(
    node: NodeContext, x: Instruction, labels: list[str]
) -> tuple[Instruction, list[str]]:
    """``x`` with one axis per label: axes with the same label are reduced to their diagonal."""
    while len(set(labels)) < len(labels):
        label = next(a for a in labels if labels.count(a) > 1)
        axes = [i for i, a in enumerate(labels) if a == label]
        rest = [i for i in range(len(labels)) if i not in axes]
        length, *others = (node.lens(x)[a] for a in axes)
        if not all(same(length, n) for n in others):
            raise node.fail(f"label {label!r} stands for axes of different lengths")
        front = node.transpose(x, *axes, *rest)
        places = node.unsqueeze(node.counted(DType.INT64, length), 1)
        indices = node.multibroadcast(places, (length, len(axes)))
        x = node.add("gathernd", front, indices, batch_dims=0)
        labels = [label, *[labels[i] for i in rest]]
    return x, labels


def _summed(node: NodeContext, term: _Term, columns: set[int]) -> _Term:
    if not columns:
        return term
    value = node.add("reduce_sum", term.value, axes=tuple(sorted(columns)))
    return _Term(value, term.present - columns)


def _product(node: NodeContext, left: _Term, right: _Term, later: set[int]) -> _Term:
    """A batched matrix product over the columns that both have and no later term needs."""
    if not node.rank(left.value):
        return _Term(node.add("mul", left.value, right.value), set())
    columns = range(left.value.shape.ndim)
    both = left.present & right.present
    total = [c for c in columns if c in both and c not in later]
    only_left = [c for c in columns if c in left.present - right.present]
    only_right = [c for c in columns if c in right.present - left.present]
    used = {*total, *only_left, *only_right}
    batch = [c for c in columns if c not in used]
    order = [*batch, *only_left, *only_right, *total]
    a, b = (node.transpose(t.value, *order) for t in (left, right))
    try:
        lens = node.common_lens(node.lens(a), node.lens(b))
    except ShapeError as error:
        raise node.fail("a label stands for axes of different lengths") from error
    counts = len(batch), len(only_left), len(only_right)
    a, b = _matrices(node, a, b, lens, counts)
    product = node.add("dot", a, node.transpose(b, 0, 2, 1))
    flat = node.reshape(product, *lens[: len(lens) - len(total)], *[1] * len(total))
    inverse = [order.index(c) for c in columns]
    present = (left.present | right.present) - set(total)
    return _Term(node.transpose(flat, *inverse), present)


def _matrices(
    node: NodeContext,
    a: Instruction,
    b: Instruction,
    lens: Sequence[Length],
    counts: tuple[int, int, int],
) -> tuple[Instruction, Instruction]:
    """Both operands as (batch, own axes, summed axes)."""
    batch, own_left, own_right = counts
    start = batch + own_left + own_right

    def sized(value: Instruction) -> Instruction:
        wanted = [
            n if i < batch or i >= start else node.lens(value)[i] for i, n in enumerate(lens)
        ]  # fmt: skip
        fitted = node.fit(value, wanted)
        return node.reshape(
            fitted, *map(prod, (wanted[:batch], wanted[batch:start], wanted[start:]))
        )

    return sized(a), sized(b)


def _ordered(node: NodeContext, term: _Term, output: list[int]) -> Instruction:
    """The result's columns in the order of the output's labels."""
    gone = [c for c in range(term.value.shape.ndim) if c not in output]
    if not node.rank(term.value):
        return term.value
    value = node.squeeze(term.value, *gone) if gone else term.value
    if not output:
        return value
    order = sorted(output)
    return node.transpose(value, *[order.index(c) for c in output])
