"""Ranges of indices: read off the program, through whatever only moves elements."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.shape import Dim, Shape
from workbench.numerics.verify.generate import driver_inputs
from workbench.numerics.verify.index_ranges import indexed_lengths, remainders


def _program(op: str, ids: Shape, data: tuple[int, ...], *more: Shape, **attributes: Any) -> Any:
    program = wb.Program()
    main = program.main
    index = main.add_parameter("ids", ids)
    rest = [main.add_parameter(f"x{k}", s) for k, s in enumerate(more)]
    values = main.add_parameter("data", Shape("float", data))
    main.add_return(main.add(op, values, index, *rest, **attributes))
    return program


@pytest.mark.parametrize(
    ("program", "length"),
    [
        (_program("gather", Shape("int64", (2,)), (5, 9), axis=0), 5),
        (_program("gather", Shape("int32", ()), (5, 9), axis=-1), 9),
        (_program("gather_elements", Shape("int64", (5, 2)), (5, 9), axis=1), 9),
        (_program("gathernd", Shape("int64", (4, 2)), (9, 5, 7)), 5),
        (_program("gathernd", Shape("int64", (9, 2, 1)), (9, 5, 7), batch_dims=1), 5),
        (
            _program(
                "scatter_none", Shape("int64", (5, 2)), (5, 9), Shape("float", (5, 2)), axis=1
            ),
            9,
        ),
        (_program("scatternd_add", Shape("int64", (4, 1)), (9, 5), Shape("float", (4, 5))), 9),
    ],
)
def test_indices_of_each_operation(program: wb.Program, length: int):
    assert indexed_lengths(program) == {"ids": length}
    made = driver_inputs(program, in_range=True)
    wb.compile(program, "ref").run(made)
    assert (np.abs(driver_inputs(program)["ids"].astype(np.int64)) > length).any()


def test_through_what_moves_elements_and_the_shortest_of_two():
    program = wb.Program()
    main = program.main
    ids = main.add_parameter("ids", Shape("int32", (2, 3)))
    other = main.add_parameter("other", Shape("int64", (2,)))
    flat = main.add("reshape", main.add("transpose", ids, permutation=(1, 0)), dims=(6,))
    wide = main.add("convert", flat, target_type="int64")
    tables = [main.add_literal(np.zeros((n, 2), np.float32)) for n in (7, 4)]
    got = [main.add("gather", t, wide, axis=0) for t in tables]
    shifted = main.add("gather", tables[0], main.add("add", other, other), axis=0)
    main.add_return(*got, shifted)
    assert indexed_lengths(program) == {"ids": 4}  # a sum is no index that is read off


def test_no_range_of_an_empty_axis_and_a_given_length_for_an_open_one():
    assert indexed_lengths(_program("gather", Shape("int64", (0,)), (0, 2), axis=0)) == {}
    program = wb.Program()
    main = program.main
    data = main.add_parameter("data", Shape.dynamic("float", [Dim(1, 8), Dim(2, 2)]))
    ids = main.add_parameter("ids", Shape("int64", (3,)))
    main.add_return(main.add("gather", data, ids, axis=0))
    assert indexed_lengths(program, length=5) == {"ids": 5}


def test_only_what_is_out_of_range_is_replaced():
    signed = np.array([-5, -4, 0, 3, 4, 9], np.int64)
    assert remainders(signed, 4).tolist() == [3, -4, 0, 3, 0, 1]
    inside = np.array([0, 3], np.uint8)
    assert remainders(inside, 4) is inside
    assert remainders(np.array([250], np.uint8), 4).dtype == np.uint8
    assert remainders(np.array([-3, 3], np.int8), 1000).tolist() == [-3, 3]
    assert remainders(np.array([2**63 + 1], np.uint64), 4).tolist() == [1]
    assert remainders(np.array([True]), 1).tolist() == [True]
