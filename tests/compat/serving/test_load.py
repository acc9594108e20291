"""Models under load: counts, latencies, batches, and what ends a measurement."""

from threading import Barrier

import numpy as np
import pytest

import workbench as wb
from tests.compat.aitemplate.models import SIZE, scaled, some
from workbench.compat.aitemplate import Model
from workbench.compat.serving import load
from workbench.compat.serving.clients import Client
from workbench.compiler.errors import InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim

QUICK = {"seconds": 0.02, "progress": False}


@pytest.fixture(scope="module")
def build():
    return wb.compile(scaled(), "gpu", record=False)


@pytest.mark.parametrize("copies", [False, True])
def test_rows_say_what_ran(build, copies: bool):
    found = wb.serve_bench(build, streams=[1, 3], runtimes=[1, 2], copies=copies, **QUICK)
    table = found.table()
    assert table[["streams", "runtimes"]].to_numpy().tolist() == [[1, 1], [1, 2], [3, 1], [3, 2]]
    for load_, (_, row) in zip(found.loads, table.iterrows(), strict=True):
        assert row["runs"] == len(load_.latencies) >= load_.streams
        assert row["runs/s"] == pytest.approx(row["runs"] / load_.seconds)
        assert row["samples/s"] == pytest.approx(row["batch"] * row["runs/s"])
        assert 0 < row["p50 ms"] <= row["p90 ms"] <= row["p99 ms"] <= row["max ms"]
        # Each stream is busy all the time: the latencies add up to the time of the streams.
        assert sum(load_.latencies) <= load_.streams * load_.seconds * 1.001
    assert found.is_complete
    assert "samples/s" in repr(found)


def test_clients_get_the_model_s_results_and_free_their_memory(build):
    with Model.of_build(build, 2) as model:
        inputs = {n: some(k, *s.lens) for k, (n, s) in enumerate(build.program.parameters.items())}
        device = build.runner.here()
        client = Client(model, inputs)
        client.run()
        (found,) = client.results()
        np.testing.assert_allclose(found, build.run(inputs)[0], rtol=1e-4, atol=1e-4)
        used = device.in_use
        more = Client(model, inputs)
        more.free()
        assert device.in_use == used


def test_batches_are_lengths_of_a_range():
    rows = Dim(1, 8, name="rows")
    build = wb.compile(scaled(rows), "gpu", record=False)
    found = wb.serve_bench(build, streams=[1], batches=[2, 8], **QUICK)
    assert found.table()["batch"].tolist() == [2, 8]
    with pytest.raises(InputError, match="from 1 to 8 there, found 9"):
        wb.serve_bench(build, batches=[9], **QUICK)
    both = wb.serve_bench({4: wb.compile(scaled(), "gpu"), 8: build}, streams=[1], **QUICK)
    assert both.table()["batch"].tolist() == [4, 8]


def test_a_model_is_measured_with_its_own_constants():
    w = some(1, SIZE, SIZE)
    with Model.of(scaled(), ["y"], {"w": w}, ["v"], target="gpu") as model:
        with pytest.raises(RuntimeError, match="Constant v was not set"):
            wb.serve_bench(model, streams=[2], **QUICK)
        model.set_constant_with_tensor("v", w)
        wb.serve_bench(model, streams=[2], **QUICK)
        with model.beside(2) as other:
            x, y = some(2, 4, SIZE), np.empty((4, SIZE), np.float32)
            wanted = model.run_with_tensors([x], [y.copy()])["y"]
            np.testing.assert_array_equal(other.run_with_tensors([x], [y])["y"], wanted)
            model.set_constant_with_tensor("w", 2 * w)  # not of the other one
            np.testing.assert_array_equal(other.run_with_tensors([x], [y])["y"], wanted)


def test_an_interrupt_keeps_what_was_measured(build, monkeypatch):
    measured = iter([load._load])

    def interrupted(*given):
        one = next(measured, None)
        if one is None:
            raise KeyboardInterrupt
        return one(*given)

    monkeypatch.setattr(load, "_load", interrupted)
    found = wb.serve_bench(build, streams=[1, 2], **QUICK)
    assert not found.is_complete
    assert len(found.loads) == 1
    with pytest.raises(KeyboardInterrupt):
        wb.serve_bench(build, streams=[1], **QUICK)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"streams": [0]}, "streams: expected whole numbers of at least 1, found 0"),
        ({"streams": []}, "streams: expected at least one"),
        ({"runtimes": [1.5]}, "runtimes: expected whole numbers"),
        ({"seconds": 0}, "seconds: expected more than 0"),
        ({"batches": [2]}, "no input's first axis is a range"),
        ({"inputs": {"z": 1}}, "no input is called 'z'"),
        ({"target": "cpu"}, "compiled already"),
    ],
)
def test_wrong_options_are_refused(build, options, said):
    with pytest.raises(InputError, match=said):
        wb.serve_bench(build, **{**QUICK, **options})


def test_the_plot_shows_each_combination(build):
    import matplotlib as mpl

    mpl.use("agg")
    found = wb.serve_bench(build, streams=[1, 2], **QUICK)
    ax = found.plot()
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx(found.table()["samples/s"].tolist())
    assert found.plot(ax) is ax


def test_a_program_is_compiled_for_the_target():
    program = Program("sum")
    x = program.main.add_parameter("x", scaled().parameters["x"])
    program.main.add_return(program.main.add("add", x, x))
    found = wb.serve_bench(program, streams=[1], target="cpu", **QUICK)
    assert "sum on NumPy" in found.summary


def test_the_start_is_not_broken_once_all_were_ready(monkeypatch: pytest.MonkeyPatch):
    """A client that has not left the barrier yet would take it for another's failure, and not run."""

    def broken(_: Barrier) -> None:
        raise AssertionError("aborted")

    monkeypatch.setattr(Barrier, "abort", broken)
    found = wb.serve_bench(scaled(), streams=[2], target="cpu", seconds=0.001, progress=False)
    assert len(found.loads[0].latencies) >= 2
