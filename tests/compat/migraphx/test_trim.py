"""Trimmed programs and windows of them: what they hold, and that they compute what the whole does."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import run
from workbench.compiler.run.tracing import trace
from workbench.numerics.verify.excerpts import trim, trim_window
from workbench.numerics.verify.generate import driver_inputs

_TEXT = """module: "main"
y = @param:y -> float_type, {5, 3}, {3, 1}
x = @param:x -> float_type, {4, 5}, {5, 1}
@2 = @literal{1, 2, 3} -> float_type, {3}, {1}
@3 = dot(x,y) -> float_type, {4, 3}, {3, 1}
@4 = neg(@2) -> float_type, {3}, {1}
@5 = multibroadcast[out_lens={4, 3},out_dyn_dims={}](@4) -> float_type, {4, 3}, {0, 1}
@6 = transpose[permutation={1, 0}](@3) -> float_type, {3, 4}, {1, 3}
@7 = transpose[permutation={1, 0}](@6) -> float_type, {4, 3}, {3, 1}
@8 = add(@7,@5) -> float_type, {4, 3}, {3, 1}
@9 = mul(@8,@8) -> float_type, {4, 3}, {3, 1}
@10 = @return(@9)
"""


def test_trim_drops_from_the_end() -> None:
    program = wb.parse(_TEXT)
    assert str(trim(program, 2)) == "\n".join(_TEXT.splitlines()[:-2]) + "\n\n"
    assert len(program.main) == 11
    assert str(trim(program, 0)) == str(program)


def test_what_is_last_is_the_result() -> None:
    program = wb.parse(_TEXT)
    inputs = driver_inputs(program)
    traced = [t.result for t in trace(program, inputs)]
    for count in range(1, 8):
        assert np.array_equal(run(trim(program, count), inputs)[0], traced[10 - count])


def test_a_window_sees_through_views_and_keeps_constants() -> None:
    assert str(trim_window(wb.parse(_TEXT), 1, 2)) == (
        'module: "main"\n'
        "@0 = @literal{-1, -2, -3} -> float_type, {3}, {1}\n"
        "x2 = @param:x2 -> float_type, {4, 3}, {3, 1}\n"
        "@2 = multibroadcast[out_lens={4, 3},out_dyn_dims={}](@0) -> float_type, {4, 3}, {0, 1}\n"
        "@3 = transpose[permutation={1, 0}](x2) -> float_type, {3, 4}, {1, 3}\n"
        "@4 = transpose[permutation={1, 0}](@3) -> float_type, {4, 3}, {3, 1}\n"
        "@5 = add(@4,@2) -> float_type, {4, 3}, {3, 1}\n"
        "@6 = mul(@5,@5) -> float_type, {4, 3}, {3, 1}\n\n"
    )


def test_every_window_runs() -> None:
    program = wb.parse(_TEXT)
    for count in range(11):
        for size in range(1, 12 - count):
            part = trim_window(program, count, size)
            run(part, driver_inputs(part))


def test_modules_go_with_what_calls_them() -> None:
    program = wb.Program()
    main = program.main
    condition = main.add_parameter("condition", Shape("bool", [1]))
    x = main.add_parameter("x", Shape("float", [2]))
    y = main.add("exp", x)
    branches = [program.create_module(name) for name in ("yes", "no")]
    for module, op in zip(branches, ("neg", "relu"), strict=True):
        module.add_return(module.add(op, y))
    chosen = main.add("if", condition, modules=branches)
    main.add_return(main.add("get_tuple_elem", chosen, index=0))
    assert list(trim(program, 3).modules) == ["main"]
    assert list(trim(program, 1).modules) == ["main", "yes", "no"]
    window = trim_window(program, 2, 1)
    assert list(window.parameters) == ["condition", "x2"]
    assert len(run(window, driver_inputs(window))) == 1


@pytest.mark.parametrize(("count", "size"), [(11, 0), (-1, 0), (3, 9), (0, -1)])
def test_refused(count: int, size: int) -> None:
    with pytest.raises(GraphError, match=r"of \d+ instructions; expected 0 to"):
        trim_window(wb.parse(_TEXT), count, size)
