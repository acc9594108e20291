"""Watched runs: every result with its place and name, and the narration of a run."""

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from tests.compiler.written_programs import negated_or_clipped
from workbench.compat.migraphx.narration import kinds_of, narrate, statistics
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.tracing import Traced, run_trace, trace
from workbench.compiler.text.elements import elements_text, preview
from workbench.knobs import knobs


def _add_sub() -> wb.Program:
    program = wb.Program()
    x = program.main.add_literal(np.ones((3, 3), np.float32))
    y = program.main.add_literal(np.full((3, 3), 2, np.float32))
    total = program.main.add("add", x, y)
    program.main.add_return(program.main.add("sub", total, x))
    return program


def test_every_operator_is_heard_of_constants_too() -> None:
    found = trace(_add_sub())
    assert [(t.index, t.name) for t in found] == [
        (0, "@literal"),
        (1, "@literal"),
        (2, "add"),
        (3, "sub"),
    ]
    assert np.array_equal(found[3].result, np.full((3, 3), 2))


def test_results_stay_as_they_were() -> None:
    program = wb.Program()
    x = program.main.add_parameter("x", Shape("float", [300, 300]))
    current = x
    for _ in range(5):
        current = program.main.add("neg", current)
    program.main.add_return(current)
    found = trace(program, {"x": np.ones((300, 300), np.float32)})
    assert [float(np.asarray(t.result)[0, 0]) for t in found] == [1, -1, 1, -1, 1, -1]


def test_what_a_callback_raises_ends_the_run() -> None:
    def refuse(_: Traced) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run_trace(_add_sub(), {}, refuse)


def test_branches_are_heard_of() -> None:
    program = negated_or_clipped()
    found = trace(program, {"condition": np.array([False]), "x": -np.ones(2, np.float32)})
    assert [t.name for t in found] == ["@param", "@param", "relu", "if", "get_tuple_elem"]


def test_kernels_are_heard_of_as_one() -> None:
    program = wb.parse("""module: "main"
x = @param:x -> float_type, {2}, {1}
@1 = relu(x) -> float_type, {2}, {1}
@2 = neg(@1) -> float_type, {2}, {1}
""")
    found = trace(wb.compile(program, "cpu").program, {"x": np.ones(2, np.float32)})
    assert [t.name for t in found] == ["@param", "pointwise"]


def test_narration() -> None:
    said: list[str] = []
    narrate(_add_sub(), {}, 2, said.append)
    assert said[4] == "Run instruction: @2 = add(@1,@0) -> float_type, {3, 3}, {3, 1}"
    assert said[5].startswith("Time: ")
    assert said[6:9] == [
        "Output has normal",
        "Output: 3, 3, 3, 3, 3, 3, 3, 3, 3",
        "Min value: 3, Max value: 3, Mean: 3, StdDev: 0",
    ]
    whole: list[str] = []
    narrate(_add_sub(), {}, 3, whole.append)
    assert whole[6] == "Output: 3, 3, 3, 3, 3, 3, 3, 3, 3"
    brief: list[str] = []
    narrate(_add_sub(), {}, 1, brief.append)
    assert len(brief) == 8


def test_texts_of_values() -> None:
    eleven = np.arange(11)
    assert preview(eleven) == "0, 1, 2, 3, 4, ..., 6, 7, 8, 9, 10"
    assert elements_text((np.array([True]), np.array([1.5]))) == "{1}{1.5}"
    assert elements_text(np.array([0.1], ml_dtypes.bfloat16)) == "0.100098"
    odd = np.array([np.inf, np.nan, 1e-40, 0, 1], np.float32)
    assert kinds_of(odd) == ["inf", "nan", "normal", "subnormal", "zero"]
    assert kinds_of(np.array([0, 3])) == ["normal", "zero"]
    assert statistics(np.array([1, 3], np.int8)) == [
        "Min value: 1, Max value: 3, Mean: 2, StdDev: 1"
    ]


def test_options_trace_whoever_compiles_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with knobs.scope(trace_passes=True, trace_eval=1):
        wb.compile(_add_sub(), "cpu").run()
    said = capsys.readouterr().out
    assert said.index("Pass: ") < said.index("Run instruction: ")
    wb.compile(_add_sub(), "cpu").run()
    assert not capsys.readouterr().out
