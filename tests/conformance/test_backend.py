"""onnx's backend test suite as it is, on the reference and on the optimised program; known failures."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.conformance import suite
from workbench.compat import onnx_backend
from workbench.compat.onnx_backend import WorkbenchBackend
from workbench.compiler.errors import InputError, ModelError, OperationError

TARGETS: dict[str, dict[str, str]] = {"ref": {}, "cpu": {"target": "cpu"}}


def known(name: str) -> list[pytest.MarkDecorator]:
    """The mark of a case that is known to fail: passing would be an error."""
    reason = suite.known_failures().get(name.partition(".")[2])
    return [pytest.mark.xfail(reason=reason, strict=True)] if reason else []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=known(n)) for n in suite.NAMES.read_text("utf-8").split()]
)
def test_a_case_of_the_suite(name: str, target: str) -> None:
    case = cached_cases(target)[name]
    try:
        getattr(case.test, case.name)()
    except AssertionError:
        if name in suite.EQUAL_ROWS and not suite.rounds_rows_alike():
            pytest.xfail(suite.EQUAL_ROWS[name])
        raise


@cache
def cached_cases(target: str) -> dict[str, suite.Case]:
    return suite.named(WorkbenchBackend, **TARGETS[target])


def test_the_cases_are_those_of_the_suite(golden) -> None:
    assert list(cached_cases("ref")) == list(cached_cases("cpu"))
    golden("conformance", "\n".join(cached_cases("ref")))


@pytest.mark.parametrize("name", suite.known_failures())
def test_a_known_failure_has_one_of_the_reasons_that_count(name: str) -> None:
    reason = suite.known_failures()[name].split(":")[0]
    if reason == "reference":
        assert suite.outcome(_reference_cases()[name]) is not None
    else:
        holds = {"strings": suite.uses_strings, "training": suite.is_training}[reason]
        assert holds(suite.models()[name])


@cache
def _reference_cases() -> dict[str, suite.Case]:
    return {case.name: case for case in suite.cases(suite.ReferenceBackend)}


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')


def test_options_of_a_suite_reach_every_model():
    backend = suite.configured(WorkbenchBackend, target="cpu", strict=True)
    prepared = backend.prepare(SUM)
    assert (prepared.target, prepared.options) == ("cpu", {"strict": True})
    assert suite.configured(WorkbenchBackend) is WorkbenchBackend


OPEN = model("agraph (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }")
SUM = model(
    "agraph (float[2, 3] x, int64[1] axes) => (float[M] y) { y = ReduceSum <keepdims=0> (x, axes) }"
)


def test_a_model_runs_on_arrays_in_order_or_by_name():
    x = np.float32([[-1, 0, 2]])
    prepared = onnx_backend.prepare(OPEN)
    np.testing.assert_array_equal(prepared.run([x])[0], [[0, 0, 2]])
    np.testing.assert_array_equal(prepared.run({"x": x})[0], [[0, 0, 2]])
    np.testing.assert_array_equal(onnx_backend.run_model(OPEN, x)[0], [[0, 0, 2]])


def test_open_lengths_make_a_program_for_each_and_keep_it():
    prepared = onnx_backend.prepare(OPEN)
    for rows in (1, 4, 1, 4, 1):
        assert prepared.run([np.ones((rows, 3), np.float32)])[0].shape == (rows, 3)
    assert len(prepared._builds) == 2


def test_few_programs_are_kept():
    prepared = onnx_backend.prepare(OPEN)
    for rows in range(1, onnx_backend.MAX_BUILDS + 3):
        prepared.run([np.ones((rows, 3), np.float32)])
    assert len(prepared._builds) == onnx_backend.MAX_BUILDS


def test_what_import_has_to_know_is_taken_from_the_inputs():
    prepared = onnx_backend.prepare(SUM)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for axis in (0, 1, -1, 0):
        np.testing.assert_array_equal(prepared.run([x, np.int64([axis])])[0], x.sum(axis))


def test_a_node_runs_by_itself():
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.float32([1, 2]), np.float32([[10], [20]])
    np.testing.assert_array_equal(onnx_backend.run_node(node, [a, b])[0], a + b)
    info = [(np.dtype(np.float32), (2, 2))]
    np.testing.assert_array_equal(onnx_backend.run_node(node, [a, b], outputs_info=info)[0], a + b)


def test_only_the_cpu_is_there():
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA")
    with pytest.raises(OperationError, match="CUDA"):
        onnx_backend.prepare(OPEN, "CUDA")


def test_wrong_inputs_are_refused_by_name():
    with pytest.raises(InputError, match="3 inputs; expected 2: x, axes"):
        onnx_backend.prepare(SUM).run([1, 2, 3])
    with pytest.raises(InputError, match="axes"):
        onnx_backend.prepare(SUM).run([np.ones((2, 3), np.float32)])
    with pytest.raises(InputError, match="float32"):
        onnx_backend.prepare(OPEN).run([np.ones((2, 3))])


def test_an_unknown_operator_fails_when_it_is_prepared():
    with pytest.raises(ModelError, match="Wobble"):
        onnx_backend.prepare(model("agraph (float[2] x) => (float[2] y) { y = Wobble (x) }"))
