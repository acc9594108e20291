"""Sensitivity to types and the search for them, on programs whose culprit is known."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from math import inf, isnan
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.errors import InputError, ModelError, OperationError, PrecisionError
from workbench.compiler.files.archive import from_bytes, to_bytes
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.precision import trials
from workbench.numerics.precision.sensitivity import Sensitivities

CULPRIT = "/mid/softplus"


def network(largest: float = 12.0) -> Program:
    """Two products around log(1 + exp(x)), whose exponential overflows half from 11.1 on."""
    random = np.random.default_rng(0)
    program = Program("softplus")
    main = program.main
    x = main.add_parameter("x", Shape(DType.FLOAT, (4, 8)))
    with program.source("/first/product"):
        y = main.add("dot", x, main.add_literal(np.eye(8, dtype=np.float32) * largest))
    with program.source(CULPRIT):
        one = main.add_literal(np.ones((4, 8), np.float32))
        y = main.add("log", main.add("add", main.add("exp", y), one))
    with program.source("/last/product"):
        main.add_return(main.add("dot", y, main.add_literal(random.random((8, 3), np.float32))))
    return program


def inputs(largest: float = 1.0) -> dict[str, np.ndarray]:
    return {"x": np.linspace(-largest, largest, 32, dtype=np.float32).reshape(4, 8)}


def integers() -> Program:
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.INT64, (3,)))
    program.main.add_return(program.main.add("add", x, x))
    return program


def found(report: Sensitivities) -> dict[str, tuple[float, float]]:
    return {r.layer: (r.alone, r.without) for r in report.layers}


# Sensitivity


@pytest.mark.parametrize("by", ["node", "scope"])
def test_the_layer_that_overflows_is_the_worst(by: Any):
    report = wb.sensitivity(network(), inputs(), by=by)
    culprit = CULPRIT if by == "node" else "mid"
    errors = found(report)
    assert report.worst()[0].layer == culprit == report.table()["layer"][0]
    assert errors.pop(culprit)[0] == inf
    assert report.narrow == inf
    assert report.wide < 1e-6
    assert all(0 < alone < 1e-3 and without == inf for alone, without in errors.values())
    assert next(r.without for r in report.layers if r.layer == culprit) < 1e-3


def test_shares_of_operations_add_up_and_selectors_choose_the_layer():
    report = wb.sensitivity(network(), inputs())
    first, culprit, last = report.layers
    assert first.share + culprit.share + last.share == pytest.approx(1)
    assert first.share / last.share == pytest.approx(8 / 3)
    assert culprit.operations == ("exp", "add", "log")
    assert [r.keep for r in report.layers] == [("/first/product",), (CULPRIT,), ("/last/product",)]


def test_lengths_that_only_a_run_knows_count_too():
    program = wb.parse(
        'module: "main"\nx = @param:x -> dynamic, float_type, {[1..4], 2}\n'
        "a = exp(x)\nb = reduce_sum[axes={1}](a)\nr = @return(b)\n"
    )
    report = wb.sensitivity(program, {"x": np.ones((3, 2), np.float32)})
    assert [r.layer.split()[1] for r in report.layers] == ["exp", "reduce_sum"]
    assert all(0 < r.share < 1 for r in report.layers)
    exp, total = (i.id for i in program.main if i.name in ("exp", "reduce_sum"))
    assert [r.keep for r in report.layers] == [(exp,), (total,)]


def test_a_nan_is_worse_than_any_number():
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (2,)))
    with program.source("difference"):  # infinity minus infinity
        e = program.main.add("exp", x)
        y = program.main.add("sub", e, program.main.add("mul", e, e))
    with program.source("rounding"):
        program.main.add_return(program.main.add("tanh", y))
    report = wb.sensitivity(program, {"x": np.array([12, 12], np.float32)})
    assert found(report)["difference"][0] == inf
    assert report.worst()[0].layer == "difference"


def test_infinities_of_the_program_itself_are_no_error():
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (3,)))
    program.main.add_return(program.main.add("log", program.main.add("relu", x)))
    report = wb.sensitivity(program, {"x": np.array([-1, 0, 3], np.float32)})
    assert 0 < report.narrow < 1e-3


def test_the_worst_set_of_inputs_counts():
    one, two = inputs(0.5), inputs(1)
    assert wb.sensitivity(network(), one).narrow < 1e-2
    assert wb.sensitivity(network(), [one, two]).narrow == inf


def test_the_metric_can_be_chosen():
    metrics = (Metric.RELATIVE_RMS, "cosine")
    relative, cosine = (wb.sensitivity(network(1), inputs(), metric=m) for m in metrics)
    assert cosine.metric is Metric.COSINE
    assert 0 < cosine.narrow < relative.narrow < 1e-2


@pytest.mark.parametrize(("precision", "layers"), [("bf16", 3), ("int8", 2), ("fp8", 3)])
def test_other_types_have_layers_too(precision: str, layers: int):
    report = wb.sensitivity(network(1), inputs(), precision)
    assert len(report.layers) == layers
    assert report.wide < 1e-6 < min(r.alone for r in report.layers)
    assert report.narrow > 1e-3


def test_a_model_in_scopes():
    model = MODELS["small_encoder"]
    report = wb.sensitivity(wb.parse_onnx(model.path), model.inputs(), by="scope")
    layers = {r.layer: r for r in report.layers}
    assert layers["encoder/layer.0/attention"].keep == ("encoder/layer.0/attention",)
    assert {"embeddings", "pooler", "encoder/layer.1/feed_forward"} < set(layers)
    assert all(report.wide < r.alone < report.narrow for r in report.layers if r.share > 0.1)


def test_a_plot_is_readable_with_errors_that_are_not_finite():
    import matplotlib.pyplot as plt

    own = plt.figure().subplots()
    assert wb.sensitivity(network(), inputs()).plot(own) is own
    assert own.get_yticklabels()[0].get_text() == CULPRIT
    assert [t.get_text() for t in own.texts] == ["not finite"]
    assert "not finite with all layers" in own.get_title()
    plt.close("all")


def test_a_program_without_floats_has_no_layers():
    report = wb.sensitivity(integers(), {"x": np.arange(3)})
    assert (report.layers, report.narrow, report.wide) == ([], 0.0, 0.0)
    assert "no layer" in report.plot().get_title()
    assert report.table().empty
    assert "no layer" in repr(report)
    result = wb.search_precision(integers(), {"x": np.arange(3)}, 1e-3)
    assert (result.keep, result.error, result.share) == ((), 0.0, 0.0)


# The search


def test_the_search_keeps_just_the_layer_that_overflows():
    result = wb.search_precision(network(), inputs(), 1e-3)
    assert result.keep == (CULPRIT,)
    assert 0 < result.error <= 1e-3
    culprit = wb.sensitivity(network(), inputs()).worst()[0]
    assert result.share == pytest.approx(1 - culprit.share)
    types = {i.name: i.shape.type for i in result.program.main}
    assert (types["exp"], types["log"], types["dot"]) == (DType.FLOAT, DType.FLOAT, DType.HALF)
    assert wb.compare(result.compile("ref"), inputs()).passed
    assert len(result.trials) <= 2 + 3 + 3
    assert f"kept: {CULPRIT}; error" in repr(result)
    assert "within 0.001" in result._repr_html_()


def test_the_search_finds_the_layer_of_a_trained_model_that_overflows():
    model = MODELS["magika"]
    program = wb.parse_onnx(model.path)
    result = wb.search_precision(program, model.inputs(), 1e-2, by="scope")
    assert result.keep == ("jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_1",)
    assert result.share > 0.9999
    assert result.error < 1e-3


def test_what_is_within_tolerance_needs_no_search():
    result = wb.search_precision(network(1), inputs(), 1e-2)
    assert (result.keep, result.share, len(result.trials)) == ((), 1.0, 2)


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_smaller_tolerance_keeps_more(precision: str):
    program = network(1)
    worst = wb.sensitivity(program, inputs(), precision).narrow
    shares = []
    for tolerance in (2 * worst, 0.7 * worst, 1e-6):
        result = wb.search_precision(program, inputs(), tolerance, precision)
        assert result.error <= tolerance
        shares.append(result.share)
    assert shares[0] == 1
    assert shares == sorted(shares, reverse=True)
    assert shares[2] == 0


def test_layers_that_can_be_spared_are_given_back(monkeypatch: pytest.MonkeyPatch):
    """Per operation the last product does more harm than the first, but to keep the first is enough."""
    errors = {"/first/product": 2.5e-3, CULPRIT: 1e-4, "/last/product": 2e-3}

    def measured(_program: Any, _setting: Any, keep: tuple[str, ...]) -> float:
        return sum(e**2 for name, e in errors.items() if name not in keep) ** 0.5

    monkeypatch.setattr(trials, "measure", measured)
    result = wb.search_precision(network(), inputs(), 2.2e-3)
    assert result.keep == ("/first/product",)
    assert result.error == pytest.approx(2e-3, rel=0.01)
    assert "also /last/product" in set(result.trials["narrow"])


def test_the_error_of_a_result_is_that_of_its_build():
    model = MODELS["small_cnn"]
    program = wb.parse_onnx(model.path)
    tolerance = 0.8 * wb.sensitivity(program, model.inputs(), by="scope").narrow
    result = wb.search_precision(program, model.inputs(), tolerance, by="scope")
    got = result.compile("ref").run(model.inputs())[0]
    wanted = wb.compile(program, "ref").run(model.inputs(), precision="float64")[0]
    assert np.linalg.norm(got - wanted) / np.linalg.norm(wanted) == pytest.approx(result.error)
    assert result.error <= tolerance
    rows = result.trials[result.trials["within tolerance"]]
    assert result.share == rows["share of flops"].max() > 0.5


def test_a_tolerance_that_nothing_meets_is_an_error_with_the_best():
    with pytest.raises(PrecisionError, match="no choice of types is within 1e-12") as caught:
        wb.search_precision(network(), inputs(), 1e-12)
    best = caught.value.result
    assert len(best.keep) == 3
    assert 1e-12 < best.error < 1e-6
    assert not best.is_within


@pytest.mark.parametrize("tolerance", [0, -1, inf, float("nan")])
def test_a_tolerance_is_a_positive_number(tolerance: float):
    with pytest.raises(OperationError, match="expected a positive number"):
        wb.search_precision(network(), inputs(), tolerance)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"precision": "int4"}, OperationError, "expected one of fp16, bf16, int8, fp8"),
        ({"by": "kernel"}, OperationError, "expected 'node' or 'scope'"),
        ({"metric": "l1"}, OperationError, "metric 'l1'; expected one of 'relative rms'"),
        ({"target": "moon"}, OperationError, "unknown target 'moon'"),
        ({"inputs": {"y": 1}}, InputError, "'y'"),
        ({"inputs": []}, InputError, "an empty list"),
        ({"inputs": 3}, InputError, "expected arrays by name"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options: dict[str, Any], kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        wb.sensitivity(network(), **{"inputs": inputs(), **options})


# Executors


class Client:
    """The least that an executor must offer: Dask's client has no more in common with the others."""

    def __init__(self, stop_after: float = inf) -> None:
        self.left = stop_after

    def submit(self, fn: Callable[..., Any], *args: Any) -> Any:
        return Later(self, fn, args)


class Later:
    """The result of a call, computed when it is asked for."""

    def __init__(self, client: Client, fn: Callable[..., Any], args: Any) -> None:
        self.client, self.fn, self.args = client, fn, args

    def result(self) -> Any:
        self.client.left -= 1
        if self.client.left < 0:
            raise KeyboardInterrupt
        return self.fn(*self.args)


def test_processes_measure_the_same():
    with ProcessPoolExecutor(2) as executor:
        report = wb.sensitivity(network(), inputs(), executor=executor)
        result = wb.search_precision(network(), inputs(), 1e-3, executor=executor)
    assert report.table().equals(wb.sensitivity(network(), inputs()).table())
    assert result.keep == (CULPRIT,)


def test_anything_with_submit_is_an_executor():
    assert wb.search_precision(network(), inputs(), 1e-3, executor=Client()).keep == (CULPRIT,)


def test_an_interrupted_measurement_keeps_what_it_has():
    with pytest.raises(KeyboardInterrupt) as caught:
        wb.sensitivity(network(), inputs(), executor=Client(stop_after=4))
    report = vars(caught.value)["result"]
    assert report.narrow == inf
    assert [isnan(r.alone) for r in report.layers] == [False, False, True]
    assert [r.layer for r in report.worst()] == [CULPRIT, "/first/product", "/last/product"]
    report.plot()


@pytest.mark.parametrize(
    ("trials_done", "keep"),
    [(2, ["/first/product", CULPRIT, "/last/product"]), (3, [CULPRIT, "/last/product"])],
)
def test_an_interrupted_search_keeps_the_best(trials_done: int, keep: list[str]):
    with pytest.raises(KeyboardInterrupt) as caught:
        wb.search_precision(network(), inputs(), 1e-3, executor=Client(stop_after=trials_done))
    best = vars(caught.value)["result"]
    assert list(best.keep) == keep
    assert best.is_within


def test_a_search_that_is_interrupted_at_once_has_nothing():
    with pytest.raises(KeyboardInterrupt) as caught:
        wb.search_precision(network(), inputs(), 1e-3, executor=Client(stop_after=0))
    assert vars(caught.value)["result"] is None


def test_bytes_of_a_program_are_read_back_with_ids():
    program = network()
    assert {i.id: repr(i) for i in from_bytes(to_bytes(program)).instructions} == {
        i.id: repr(i) for i in program.instructions
    }
    for damaged in (b"", b"nothing", to_bytes(program)[:-40]):
        with pytest.raises(ModelError, match="bytes of a program"):
            from_bytes(damaged)
