"""Declarations of operations' structure; passes ask for these and not for names."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.compiler.ops.test_operations import SAMPLED
from tests.compiler.variants import Operand, cases, computed, inferred, shapes
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import all_operations, names_where
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops import custom
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import run


@pytest.fixture(autouse=True)
def clean():
    yield
    for name in custom.custom_operations():
        custom.forget(name)


@pytest.mark.parametrize("pipeline", ["optimize", "gpu"])
@pytest.mark.parametrize("name", ["reduce_nothing", "reduce_", "dot_nothing", "scatter_nothing"])
def test_a_name_does_not_make_an_operation_what_it_sounds_like(name: str, pipeline: str):
    wb.operation(
        name=name,
        compute_shape=lambda shapes: shapes[0],
        compute=lambda _, arrays: arrays[0] + 1,
        context_free=True,
    )
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (4, 5)))
    y = program.main.add("relu", program.main.add(name, program.main.add("exp", x)))
    program.main.add_return(y)
    inputs = {"x": np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)}
    wanted = run(program, inputs)[0]
    PIPELINES[pipeline].run(program)
    assert name in [i.name for i in program.main]
    np.testing.assert_array_equal(run(program, inputs)[0], wanted)


def declaring(attribute: str) -> Any:
    return pytest.mark.parametrize("name", names_where(lambda cls: getattr(cls, attribute)))


@declaring("rearranges")
def test_what_rearranges_gives_elements_of_its_first_input(name: str):
    for op, (first, *rest) in cases(name):
        marks = np.arange(first.array.size, dtype=np.float64).reshape(first.array.shape)
        found = computed(op, [Operand(marks, DType.DOUBLE), *rest])[0].reshape(-1).tolist()
        if op.rearranges is Rearrangement.RELAID:
            assert sorted(found) == marks.reshape(-1).tolist()
        elif op.rearranges is Rearrangement.REPEATED:
            assert set(found) == set(marks.reshape(-1).tolist())
        assert set(found) <= set(marks.reshape(-1).tolist())


@declaring("never_negative")
def test_what_is_never_negative_is_not(name: str):
    for op, operands in cases(name):
        for found in computed(op, operands):
            assert not DType.of(found.dtype).is_float or not (found < 0).any()


@pytest.mark.parametrize("name", SAMPLED)
def test_only_what_says_so_needs_an_input_in_row_major_order(name: str):
    refuses = False
    for op, operands in cases(name):
        first = shapes(operands)[:1]
        if first and first[0].standard and first[0].ndim > 1 and 1 not in first[0].lens:
            turned = Shape.permuted(first[0].type, first[0].lens, range(first[0].ndim)[::-1])
            refuses |= inferred(op, [turned, *shapes(operands)[1:]]) is None
    assert refuses == all_operations()[name].needs_standard


def test_work_on_slices_is_joined_for_what_it_is_and_not_for_its_name():
    wb.operation(
        name="reduce_by_the_largest",
        attributes={"axes": [0]},
        compute_shape=lambda shapes: shapes[0],
        compute=lambda _, arrays: arrays[0] - arrays[0].max(),
    )
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (4, 6)))
    halves = [program.main.add("slice", x, axes=(1,), starts=(k,), ends=(k + 3,)) for k in (0, 3)]
    program.main.add_return(*[program.main.add("reduce_by_the_largest", h) for h in halves])
    inputs = {"x": np.arange(24, dtype=np.float32).reshape(4, 6)}
    wanted = run(program, inputs)
    PIPELINES["optimize"].run(program)
    np.testing.assert_array_equal(run(program, inputs), wanted)
