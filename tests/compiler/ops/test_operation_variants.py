"""The contract of operations on operands of every type, layout, rank and length, made from their samples."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from tests.compiler.ops.test_operations import BITS, OF_COLLECTIONS, OF_NETWORKS, SAMPLED
from tests.compiler.variants import (
    Operand,
    cases,
    checked,
    computed,
    contiguous,
    edged,
    emptied,
    expect_as_in_float64,
    expect_fits,
    expect_same,
    inferred,
    laid_out,
    odd_shapes,
    parts_of,
    problems,
    ranged,
    reranked,
    retyped,
    said,
    shapes,
)
from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation, all_operations
from workbench.compiler.ir.shape import Shape

OPERATIONS = all_operations()

every_sampled = pytest.mark.parametrize("name", SAMPLED)
FEW = 4
"""Samples that are tried in every type; the rest differ in attributes and layout."""


def expect_none(found: list[str]) -> None:
    assert not found, f"{len(found)} problems:\n" + "\n".join(found[:12])


@every_sampled
def test_every_type_is_computed_or_refused(name: str):
    def check(op: Operation, operands: list[Operand]) -> None:
        found = checked(op, operands)
        if found is not None and name not in BITS | {"random_uniform"}:  # drawn anew in each type
            expect_as_in_float64(op, operands, found)

    found: list[str] = []
    for op, operands in distinct(name):
        found += problems(retyped(operands), partial(check, op))
    expect_none(found)


def distinct(name: str) -> list[tuple[Operation, list[Operand]]]:
    """Samples that differ in their attributes or number of operands, a few of them."""
    kept = {(op, len(operands)): (op, operands) for op, operands in reversed(cases(name))}
    return list(kept.values())[:FEW]


@every_sampled
def test_every_layout_gives_the_same(name: str):
    def check(op: Operation, operands: list[Operand]) -> None:
        found = checked(op, operands)
        if found is not None:
            expect_same(op, found, computed(op, contiguous(operands)))

    found: list[str] = []
    for op, operands in cases(name):
        found += problems(laid_out(operands), partial(check, op))
    expect_none(found)


@every_sampled
def test_edges_of_types_are_computed_or_refused_and_in_any_layout(name: str):
    def check(op: Operation, operands: list[Operand]) -> None:
        found = checked(op, operands)
        if found is not None:
            backwards = [x.with_array(x.array[::-1].copy()[::-1]) for x in operands if x.array.ndim]
            if len(backwards) == len(operands):
                expect_same(op, found, computed(op, backwards))

    found: list[str] = []
    for op, operands in cases(name):
        found += problems(edged(op, operands), partial(check, op))
    expect_none(found)


@every_sampled
def test_lengths_of_zero_are_computed_or_refused(name: str):
    found: list[str] = []
    for op, operands in cases(name):
        found += problems(emptied(operands), partial(checked, op))
    expect_none(found)


@every_sampled
def test_other_ranks_and_lengths_are_computed_or_refused(name: str):
    found: list[str] = []
    for op, operands in cases(name):
        found += problems(reranked(operands), partial(checked, op))
    expect_none(found)


@every_sampled
def test_odd_shapes_and_counts_are_refused_by_name(name: str):
    for op, operands in cases(name):
        given = shapes(operands)
        for odd in odd_shapes(given):
            inferred(op, odd)
        for count in range(len(given) + 3):
            inferred(op, (given * 3 or [Shape()] * 3)[:count])


@pytest.mark.parametrize("name", sorted(OF_COLLECTIONS | OF_NETWORKS | {"get_tuple_elem"}))
def test_shapes_of_any_kind_are_taken_or_refused_by_name(name: str):
    tensor = Shape("float", (2, 3))
    kinds = [tensor, Shape(), Shape.scalar(DType.INT64), Shape.tuple_of([tensor]),
             Shape.sequence_of(tensor), Shape.sequence_of(), Shape.sequence_of(tensor, "optional"),
             ranged(tensor, 1, 2)]  # fmt: skip
    op = OPERATIONS[name]()
    taken = [found for n in range(4) for found in product(kinds, repeat=n) if inferred(op, found)]
    assert taken or name in OF_NETWORKS


@every_sampled
def test_ranges_allow_what_their_lengths_give(name: str):
    for op, operands in cases(name):
        given = shapes(operands)
        for less, more in ((0, 0), (1, 2)):
            shape = inferred(op, [ranged(s, less, more) for s in given])
            if shape is None:
                continue
            results = computed(op, operands, shape)
            for one, result in zip(parts_of(shape), results, strict=True):
                assert one.type.numpy == result.dtype, said(op, operands)
                expect_fits(one, result)


@every_sampled
def test_axes_out_of_range_are_refused(name: str):
    for op, operands in cases(name):
        for key in op.axes_of_input:
            value = getattr(op, key)
            for wrong in (9, -9):
                axes = (wrong,) * len(value) if isinstance(value, tuple) else wrong
                if axes == ():
                    continue
                bad = type(op)(**(op.attributes() | {key: axes}))
                with pytest.raises(ShapeError, match=name):
                    bad.compute_shape(shapes(operands))


@every_sampled
def test_normalizing_changes_no_value(name: str):
    for op, operands in cases(name):
        normalized = op.normalized(shapes(operands))
        if normalized == op or OPERATIONS[name].context_free is False:
            continue
        for a, b in zip(computed(op, operands), computed(normalized, operands), strict=True):
            np.testing.assert_array_equal(a, b, said(op, operands))
