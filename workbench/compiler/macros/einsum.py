"""The macro for Einstein sums, as transposes, matrix products and sums."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros.emit import Emit
from workbench.compiler.macros.table import macro

_TOKEN = re.compile(r"\s+|[A-Za-z]|\.\.\.|->|,")
_DOTS = "..."
_INDEX = DType.INT64


@dataclass
class _Term:
    """A value, and the columns of the equation that its axes represent; all others have length 1."""

    value: Instruction
    present: set[int]


@macro("einsum", least=1)
def einsum(emit: Emit, inputs: list[Instruction], *, equation: str = "") -> Instruction:
    """Sums of products over named axes."""
    terms, output = _labels(emit, equation, inputs)
    columns = sorted({c for t in [*terms, output] for c in t}, key=lambda c: (len(c) > 1, c))
    rows = [{columns.index(c) for c in t} for t in [*terms, output]]
    result: _Term | None = None
    for index, (labels, x) in enumerate(zip(terms, inputs, strict=True)):
        later = set[int]().union(*rows[index + 1 :])
        current = _spread(emit, x, labels, columns)
        kept = later if result is None else later | result.present
        current = _summed(emit, current, current.present - kept)
        result = current if result is None else _product(emit, result, current, later)
    assert result is not None  # there is an input
    if output:
        result = _summed(emit, result, result.present - rows[-1])
    return _ordered(emit, result.value, len(columns), [columns.index(c) for c in output])


# The equation


def _labels(
    emit: Emit, equation: str, inputs: Sequence[Instruction]
) -> tuple[list[list[str]], list[str]]:
    """The labels of each input's axes, and of the output's; an ellipsis becomes a label per axis."""
    left, right = _sides(emit, equation)
    if len(left) != len(inputs):
        raise emit.fail(
            f"equation {equation!r} has {len(left)} terms; expected {len(inputs)}, one per input"
        )
    hidden: int | None = None
    terms: list[list[str]] = []
    for number, (term, x) in enumerate(zip(left, inputs, strict=True), 1):
        rank = len(emit.static(x, f"input {number}"))
        spare = rank - len([c for c in term if c != _DOTS])
        if spare < 0 or (spare and _DOTS not in term):
            raise emit.fail(f"term {number} of {equation!r} does not fit an input of rank {rank}")
        if _DOTS in term:
            if hidden not in (None, spare):
                raise emit.fail(
                    f"the ellipses of {equation!r} cover {hidden} and {spare} axes; expected equally many"
                )
            hidden = spare
        terms.append(_opened(term, spare))
    known = [c for t in terms for c in t]
    if right is None:
        once = sorted(c for c in set(known) if len(c) == 1 and known.count(c) == 1)
        right = [*([_DOTS] if hidden else []), *once]
    _check_output(emit, equation, right, set(known), hidden or 0)
    return terms, _opened(right, hidden or 0)


def _sides(emit: Emit, equation: str) -> tuple[list[list[str]], list[str] | None]:
    """The terms of an equation as lists of labels; the output's, if there is an arrow."""
    found = _TOKEN.findall(equation)
    if "".join(found) != equation:
        raise emit.fail(f"equation {equation!r}; expected letters, commas, '...' and '->'")
    terms: list[list[str]] = [[]]
    arrow = False
    for token in (t for t in found if not t.isspace()):
        if token in {"->", ","}:
            if arrow:
                what = "a second '->'" if token == "->" else "a comma after '->'"
                raise emit.fail(f"equation {equation!r} has {what}")
            if not terms[-1]:
                raise emit.fail(f"equation {equation!r} has no term before {token!r}")
            arrow = token == "->"
            terms.append([])
        else:
            if token == _DOTS and _DOTS in terms[-1]:
                raise emit.fail(f"equation {equation!r} has a term with two ellipses")
            terms[-1].append(token)
    if arrow:
        return terms[:-1], terms[-1]
    if not terms[-1]:
        raise emit.fail(f"equation {equation!r} lacks its last term")
    return terms, None


def _opened(term: Sequence[str], hidden: int) -> list[str]:
    dots = [f"{_DOTS}{i:03}" for i in range(hidden)]
    return [label for c in term for label in (dots if c == _DOTS else [c])]


def _check_output(
    emit: Emit, equation: str, output: list[str], known: set[str], hidden: int
) -> None:
    for label in output:
        if label != _DOTS and label not in known:
            raise emit.fail(f"label {label!r} of the output of {equation!r} is in no input")
    if hidden and output and _DOTS not in output:
        raise emit.fail(f"the output of {equation!r} lacks the ellipsis that its inputs have")
    if len(set(output)) < len(output):
        raise emit.fail(f"the output of {equation!r} has a label twice")


# The instructions


def _spread(emit: Emit, x: Instruction, labels: list[str], columns: list[str]) -> _Term:
    """``x`` with its axes in the order of the columns, and axes of length 1 for the others."""
    x, labels = _diagonal(emit, x, labels)
    order = sorted(range(len(labels)), key=lambda i: columns.index(labels[i]))
    present = {columns.index(label) for label in labels}
    missing = [c for c in range(len(columns)) if c not in present]
    return _Term(emit.unsqueeze(emit.transpose(x, *order), *missing), present)


def _diagonal(emit: Emit, x: Instruction, labels: list[str]) -> tuple[Instruction, list[str]]:
    """``x`` with one axis per label: the diagonal is taken of axes with the same label."""
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if not repeated:
        return x, labels
    lens = x.shape.lens
    axes = [i for i, label in enumerate(labels) if label == repeated[0]]
    outer = [i for i, label in enumerate(labels) if label != repeated[0]]
    if len(repeated) > 1:
        raise emit.fail(f"labels {' and '.join(repeated)} are repeated in one term; expected one")
    if len({lens[i] for i in axes}) > 1:
        raise emit.fail(
            f"label {repeated[0]!r} has axes of different lengths: {x.shape}; expected equal ones"
        )
    if any(i > axes[0] for i in outer):
        raise emit.fail(f"label {repeated[0]!r} is repeated; expected its axes to be the last ones")
    count, length = prod(lens[i] for i in outer), lens[axes[0]]
    indices = np.broadcast_to(np.arange(length)[:, None], (count, length, len(axes)))
    shape = (count, length, len(axes)) if count > 1 else (length, len(axes))
    places = emit.literal(_INDEX, indices, shape)
    emit.module.move(places, emit.before)
    found = emit.add("gathernd", x, places, batch_dims=len(outer))
    return found, [labels[i] for i in outer] + repeated


def _summed(emit: Emit, term: _Term, columns: set[int]) -> _Term:
    if not columns:
        return term
    value = emit.add("reduce_sum", term.value, axes=tuple(sorted(columns)))
    return _Term(value, term.present - columns)


def _product(emit: Emit, left: _Term, right: _Term, later: set[int]) -> _Term:
    """A batched matrix product that sums over the columns that both have and nothing needs later."""
    columns = range(left.value.shape.ndim)
    both, either = left.present & right.present, left.present | right.present
    total = [c for c in columns if c in both and c not in later]
    batch = [c for c in columns if c not in either or (c in both and c in later)]
    own = [
        [c for c in columns if c in a.present - b.present]
        for a, b in ((left, right), (right, left))
    ]
    order = [*batch, *own[0], *own[1], *total]
    a, b = (emit.transpose(t.value, *order) for t in (left, right))
    a, b = _matched(emit, a, b, [*range(len(batch)), *range(len(order) - len(total), len(order))])
    lens = tuple(map(max, a.shape.lens, b.shape.lens))
    rest = len(order) - len(total)
    a, b = (
        emit.reshape(v, prod(v.shape.lens[: len(batch)]), -1, prod(v.shape.lens[rest:]))
        for v in (a, b)
    )
    dot = emit.add("dot", a, emit.transpose(b, 0, 2, 1))
    flat = emit.reshape(dot, *lens[:rest], *[1] * len(total))
    result = emit.transpose(flat, *[order.index(c) for c in columns])
    return _Term(result, either - set(total))


def _matched(
    emit: Emit, a: Instruction, b: Instruction, axes: Sequence[int]
) -> tuple[Instruction, Instruction]:
    """Both operands broadcast to equal lengths on these axes."""
    left, right = list(a.shape.lens), list(b.shape.lens)
    for i in axes:
        if left[i] == 1:
            left[i] = right[i]
        elif right[i] == 1:
            right[i] = left[i]
    return emit.fit(a, left), emit.fit(b, right)


def _ordered(emit: Emit, value: Instruction, rank: int, output: list[int]) -> Instruction:
    """The result's columns in the order of the output's labels."""
    gone = [c for c in range(rank) if c not in output]
    if gone:
        value = emit.add("squeeze", value, axes=tuple(gone))
    if not output:
        return value
    order = sorted(output)
    return emit.transpose(value, *[order.index(c) for c in output])
