"""Comparisons that are stopped, and those whose reference runs in another thread meanwhile."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.compare import measure, sides
from workbench.numerics.compare.arrivals import Arrivals, arriving
from workbench.numerics.compare.report import Report

VALUES = ("dot", "exp", "reduce_sum", "div")


def network() -> Program:
    """Four values of which no two are fused."""
    random = np.random.default_rng(0)
    program = Program("network")
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 8)))
    y = main.add("dot", x, main.add_literal(random.standard_normal((8, 8), np.float32)))
    y = main.add("exp", y)
    total = main.add("multibroadcast", main.add("reduce_sum", y, axes=(1,)), out_lens=(4, 8))
    main.add_return(main.add("div", y, total))
    return program


@pytest.fixture(params=["one thread", "two threads"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference runs before the build, and beside it."""
    monkeypatch.setattr(sides, "_LARGE", 0)
    monkeypatch.setattr(sides, "threads", lambda: 1 if request.param == "one thread" else 2)


def stop_at(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose call of this number is a keyboard interrupt."""
    left = iter(range(call))

    def called(*args: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return function(*args)

    return called


def stopped(**options: Any) -> Report:
    with pytest.raises(KeyboardInterrupt) as caught:
        wb.compare(wb.compile(network(), "ref"), **options)
    return vars(caught.value)["result"]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("call", range(2 * len(VALUES)))
def test_a_stopped_comparison_keeps_the_rows_that_it_has(
    call: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measure, "compare_arrays", stop_at(call, measure.compare_arrays))
    report = stopped(local=True)
    ran, alone = min(call, len(VALUES)), max(call - len(VALUES), 0)
    assert tuple(r.kernel for r in report.rows) == VALUES[:ran]
    assert [r.local is not None for r in report.rows] == [k < alone for k in range(ran)]
    assert tuple(left.kernel for left in report.not_compared) == VALUES[ran:]
    assert {left.reason for left in report.not_compared} <= {"the comparison was stopped"}
    assert not report.passed
    assert not report.is_complete
    assert report.summary.startswith("incomplete, the comparison was stopped; ")
    assert "incomplete" in report._repr_html_()
    assert len(report.table()) == ran


def test_a_stop_in_the_reference_run_leaves_an_empty_report(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ValueStore, "__setitem__", stop_at(1, ValueStore.__setitem__))
    report = stopped()
    assert report.rows == []
    assert len(report.not_compared) == len(VALUES)
    assert not report.passed


def test_a_stop_in_the_diagnosis_keeps_all_rows(monkeypatch: pytest.MonkeyPatch):
    program = Program("overflow")
    x = program.main.add_parameter("x", Shape("half", (4,)))
    program.main.add_return(program.main.add("exp", x))
    from workbench.numerics.compare.diagnosis import Diagnosis

    monkeypatch.setattr(Diagnosis, "_blame", stop_at(0, Diagnosis._blame))
    with pytest.raises(KeyboardInterrupt) as caught:
        wb.compare(wb.compile(program, "ref"), {"x": np.full(4, 20, np.float16)})
    report = vars(caught.value)["result"]
    assert [(r.kernel, r.local is not None) for r in report.rows] == [("exp", True)]
    assert report.inspect(report.rows[0]).metrics.not_finite == 4


@pytest.mark.usefixtures("both_ways")
def test_a_reference_that_runs_meanwhile_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    build = wb.compile(network(), "cpu", precision="fp16")
    found = wb.compare(build, local=True)
    monkeypatch.setattr(sides, "threads", lambda: 1)
    assert found.table().equals(wb.compare(build, local=True).table())
    assert found.is_complete


@pytest.mark.usefixtures("both_ways")
def test_a_reference_that_fails_says_so():
    program = wb.parse(
        'module: "main"\nx = @param:x -> float_type, {2}, {1}\n'
        "i = @param:i -> int64_type, {1}, {1}\ng = gather[axis=0](x,i)\nr = @return(g)\n"
    )
    inputs = {"x": np.ones(2, np.float32), "i": np.array([5])}
    with pytest.raises(EvaluationError, match="gather"):
        wb.compare(wb.compile(program, "ref"), inputs)


# Values that arrive


def test_a_value_is_waited_for_and_a_missing_one_is_missing():
    go = threading.Event()

    def work(values: Any) -> None:
        go.wait()
        values["a"] = np.ones(2)

    with arriving({}, work) as values:
        values["own"] = np.zeros(1)
        assert values["own"].size == 1  # no wait for what is there
        go.set()
        assert values["a"].tolist() == [1, 1]
        assert "b" not in values
        assert sorted(values) == ["a", "own"]


def test_a_failure_is_raised_where_a_value_is_asked_for():
    def work(_: Any) -> None:
        raise EvaluationError("no")

    with pytest.raises(EvaluationError, match="no"), arriving({}, work) as values:
        _ = values["a"]
    with pytest.raises(EvaluationError, match="no"), arriving({}, work):
        pass  # nobody asks


def test_an_exception_of_the_reader_stops_the_run():
    done, added = threading.Event(), []
    held: list[Arrivals] = []

    def work(values: Any) -> None:
        try:
            for k in range(1_000_000):
                values[k] = np.ones(1)
                added.append(k)
        finally:
            done.set()

    def read() -> None:
        with arriving({}, work) as values:
            held.append(values)
            _ = values[3]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert done.wait(10)
    assert 3 <= len(added) < 1_000_000
    assert 3 in held[0]  # what has arrived can still be read
    assert 1_000_000 not in held[0]
