"""Comparisons with a large reference: its values are read once and forgotten."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.arrays.blas import blas_threads, shared
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import RewritePass
from workbench.compiler.rewrite import op, var
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.compare import comparison, measure, sides
from workbench.numerics.compare.alignment import from_source, joined_from_source
from workbench.numerics.compare.arrivals import arriving
from workbench.numerics.metrics.metrics import compare_arrays

LINKS, BYTES = 24, 1 << 20
"""Values of a chain, and the bytes of each in float64."""


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> list[ValueStore]:
    """The stores of values that comparisons make."""
    made: list[ValueStore] = []

    class Seen(ValueStore):
        def __init__(self, budget: int) -> None:
            super().__init__(budget)
            made.append(self)

    monkeypatch.setattr(comparison, "ValueStore", Seen)
    return made


def chain() -> Program:
    """Values that are not fused, each read by the next one only."""
    program = Program("chain")
    main = program.main
    lens = (BYTES // 8 // 64, 64)
    x = main.add_parameter("x", Shape("float", lens))
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0].astype(np.float32)
    for _ in range(LINKS):
        x = main.add("dot", x, main.add_literal(turn))
    main.add_return(x)
    return program


def products(at: tuple[int, int, int] = (8, 8, 8)) -> Program:
    """Three products of one operand, which a build for ``cpu`` merges."""
    random = np.random.default_rng(0)
    program = Program("products")
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 8)))
    weights = [main.add_literal(random.standard_normal((8, n), np.float32)) for n in at]
    main.add_return(*(main.add("tanh", main.add("dot", x, w)) for w in weights))
    return program


@pytest.mark.parametrize("precision", [None, "fp16"])
@pytest.mark.parametrize("make", [chain, products])
def test_rows_and_culprits_are_those_of_a_comparison_that_keeps_its_values(
    make: Callable[[], Program], precision: str | None, monkeypatch: pytest.MonkeyPatch
):
    build = wb.compile(make(), "cpu", precision=precision)
    kept = wb.compare(build)
    monkeypatch.setattr(sides, "_LARGE", 0)
    streamed = wb.compare(build)
    assert streamed.table().equals(kept.table())
    assert streamed.culprits() == kept.culprits()
    assert streamed.summary == kept.summary


def test_values_are_forgotten_once_they_are_read(
    stores: list[ValueStore], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sides, "_LARGE", 0)
    monkeypatch.setattr(sides, "_AHEAD", 2 * BYTES)
    report = wb.compare(wb.compile(chain(), "cpu"))
    assert report.passed
    assert len(report.rows) == LINKS
    assert max(store.peak for store in stores) <= 4 * BYTES


def test_an_error_is_diagnosed_with_values_of_a_second_run(monkeypatch: pytest.MonkeyPatch):
    @wb.rule(op("tanh", var("x")))
    def tanh_is_erf(b: Any, x: Any) -> Any:
        """tanh(x) → erf(x)"""
        return b("erf", x)

    class Mistaken(RewritePass):
        """Break every tanh."""

        name = "mistaken"
        rules = (tanh_is_erf,)

    monkeypatch.setattr(sides, "_LARGE", 0)
    report = wb.compare(wb.compile(products(), "cpu", passes=[Mistaken()]))
    first = report.culprits()[0]
    assert first.cause == "rewrite"
    assert first.edit is not None
    assert "tanh_is_erf" in str(first.edit)
    assert all(row.local is not None for row in report.rows)


def test_a_stopped_comparison_keeps_its_rows(monkeypatch: pytest.MonkeyPatch):
    left = iter(range(5))

    def measured(*arrays: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return compare_arrays(*arrays)

    monkeypatch.setattr(sides, "_LARGE", 0)
    monkeypatch.setattr(measure, "compare_arrays", measured)
    with pytest.raises(KeyboardInterrupt) as caught:
        wb.compare(wb.compile(chain(), "cpu"))
    report = vars(caught.value)["result"]
    assert (len(report.rows), len(report.not_compared)) == (5, LINKS - 5)
    assert not report.is_complete


# Merged products


def test_a_merged_product_is_expected_to_have_the_values_of_its_parts():
    build = wb.compile(products((8, 4, 16)), "cpu")
    joined = joined_from_source(build, from_source(build))
    dots = [i.id for i in build.source.main if i.name == "dot"]
    (row,) = [r for r in wb.compare(build).rows if r.kernel == "dot"]
    assert (joined[row.id].axis, joined[row.id].keys) == (1, tuple(dots))
    assert row.metrics.relative_rms < 1e-6


# Values that arrive


def test_a_run_waits_until_its_values_are_forgotten():
    added: list[int] = []

    def work(values: Any) -> None:
        for k in range(40):
            values[k] = np.zeros(1)
            added.append(k)

    with arriving({}, work, ahead=24) as values:
        until = monotonic() + 10
        while len(added) < 3 and monotonic() < until:
            sleep(0.001)
        sleep(0.05)
        assert len(added) == 3
        del values[0]
        while len(added) < 4 and monotonic() < until:
            sleep(0.001)
        assert values[39] is not None  # whoever waits is given what was asked for
    assert len(added) == 40


def test_runs_at_once_share_the_threads_of_products():
    before = blas_threads()
    assert before is not None, "NumPy's wheels have OpenBLAS"
    with shared(2):
        assert blas_threads() == max(1, before // 2)
    assert blas_threads() == before


# The reference


def test_selected_weights_are_widened():
    program = Program("words")
    table = program.main.add_literal(np.arange(12, dtype=np.float32).reshape(6, 2))
    chosen = program.main.add_parameter("chosen", Shape("int64", (2,)))
    program.main.add_return(program.main.add("gather", table, chosen, axis=0))
    (found,) = Interpreter(program, float64=True).run({"chosen": np.array([5, 0])})
    assert found.dtype == np.float64
    assert found.tolist() == [[10, 11], [0, 1]]
