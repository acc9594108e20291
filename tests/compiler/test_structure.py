"""Declarations of operations' structure; passes ask for these and not for names."""

import numpy as np
import pytest

import workbench as wb
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
