"""Views of memory, updates in place, and the order that they need."""

# ruff: noqa: ARG005 - formulas take all operands

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compat.popart.programs import results, run
from workbench.compat.popart import ir as pir
from workbench.compat.popart import popart_exception
from workbench.compat.popart.ir import ops

X = np.arange(12, dtype=np.float32).reshape(3, 4)
VIEWS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: ops.reshape_(x, (2, 6)), lambda x: x.reshape(2, 6)),
    (ops.transpose_, lambda x: x.T),
    (ops.flatten_, lambda x: x.reshape(-1)),
    (ops.detach_, lambda x: x),
    (lambda x: ops.slice_(x, [1, 3], [3, 0], [1, -1]), lambda x: x[1:3, 3:0:-1]),
    (lambda x: ops.slice_(ops.transpose_(ops.reshape_(x, (4, 3))), 1, 2), lambda x: x.reshape(4, 3).T[1:2]),
]  # fmt: skip


@pytest.mark.parametrize(("view", "numpy"), VIEWS)
def test_a_write_to_a_view_is_seen_by_its_base_and_by_other_views(view: Any, numpy: Any) -> None:
    """As in NumPy, of whose array the view is one too."""

    def build(x: pir.Tensor) -> Any:
        other, seen = ops.flatten_(x), view(x)
        ops.relu_(ops.add_(seen, pir.constant(-5.0)))
        return x, other, seen

    expected = X.copy()
    part = numpy(expected)
    part[...] = np.maximum(part - 5, 0)
    found = results(build, X, ordered=True)
    for one, other in zip(found, (expected, expected.reshape(-1), part), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_write_to_the_base_is_seen_by_views_made_before() -> None:
    """A view has the value of its memory at the time when it is read."""

    def build(x: pir.Tensor) -> Any:
        seen = ops.transpose_(x)
        before = seen + 0
        ops.add_(x, pir.constant(1.0))
        return before, seen

    before, after = results(build, X, ordered=True)
    np.testing.assert_array_equal(before, X.T)
    np.testing.assert_array_equal(after, X.T + 1)


def test_a_write_to_a_concatenation_is_seen_by_all_its_parts() -> None:
    """Each part gets its rows."""

    def build(x: pir.Tensor, y: pir.Tensor) -> Any:
        ops.add_(ops.concat_([x, y]), pir.constant(1.0))
        return x, y

    x, y = results(build, X, X[:1] * 2, ordered=True)
    np.testing.assert_array_equal(x, X + 1)
    np.testing.assert_array_equal(y, X[:1] * 2 + 1)


def test_an_operation_that_is_not_in_place_changes_nothing() -> None:
    """The inputs of copies keep their values."""

    def build(x: pir.Tensor) -> Any:
        ops.add_(ops.reshape(x, (12,)), pir.constant(1.0))
        ops.add_(ops.detach(x), pir.constant(1.0))
        return x

    np.testing.assert_array_equal(results(build, X, ordered=True)[0], X)


def test_the_time_step_of_adam_is_incremented() -> None:
    """A write to an input that is no output."""

    def build(m: pir.Tensor, v: pir.Tensor, t: pir.Tensor) -> Any:
        ops.var_updates.adam_updater(m, v, time_step=t, beta1=0.9, beta2=0.9)
        return t

    assert results(build, X, X + 1, np.int32(3), ordered=True)[0] == 4


def test_more_updates_of_one_tensor_than_python_nests_calls() -> None:
    """Each of the result before."""

    def build(x: pir.Tensor) -> Any:
        for _ in range(1200):
            x = ops.add_(x, pir.constant(1.0))
        return x

    np.testing.assert_array_equal(results(build, X)[0], X + 1200)


AMBIGUOUS = [
    lambda x, y: (ops.relu_(x), ops.add_(x, y)),
    lambda x, y: (x + 5, ops.var_updates.copy_var_update_(x, y)),
    lambda x, y: (ops.relu_(x), ops.relu_(x)),
    lambda x, y: ops.add_(ops.relu(x), ops.relu_(x)),
    lambda x, y: (ops.add_(ops.transpose_(x), y[0, 0]), ops.relu(ops.flatten_(x))),
]


@pytest.mark.parametrize("build", AMBIGUOUS)
@pytest.mark.parametrize("inside", [False, True])
def test_updates_without_an_order_are_refused_before_a_run(build: Any, inside: bool) -> None:
    """In the main graph and in subgraphs; the message names both lines and the tensor."""
    ir = pir.Ir()
    with ir.main_graph():
        x, y = pir.variable(X, name="x"), pir.variable(X, name="y")
        if inside:
            graph = ir.create_graph(lambda x, y: (build(x, y), None)[1], x, y)
            ops.call(graph, x, y)
        else:
            build(x, y)
    with pytest.raises(popart_exception, match=r"^Inplacing ambiguity detected") as error:
        pir.Session(ir)
    assert "x" in str(error.value)
    assert "line " in str(error.value)


def test_parts_without_a_common_element_need_no_order() -> None:
    """Two columns of a variable and the third row of its transposed view; then three columns and that row."""
    for columns, is_refused in ((2, False), (3, True)):
        ir = pir.Ir()
        with ir.main_graph():
            x = pir.variable(X - 9, name="x")
            ops.add_(ops.slice_(x, stop=[3, columns]), pir.constant(1.0))
            ops.relu_(ops.slice_(ops.transpose_(x), 2, 3))
        if is_refused:
            with pytest.raises(popart_exception, match=r"^Inplacing ambiguity detected"):
                pir.Session(ir)
            continue
        session = pir.Session(ir)
        session.run()
        expected = X - 9
        expected[:, :2] += 1
        expected[:, 2] = np.maximum(expected[:, 2], 0)
        np.testing.assert_array_equal(session.get_tensor_data(x), expected)


def test_parts_of_a_concatenation_are_parts_of_one_tensor_each() -> None:
    """The part of the second tensor meets that tensor's first row, and not the other's."""
    for row, is_refused in ((0, True), (1, False)):
        ir = pir.Ir()
        with ir.main_graph():
            x, y = pir.variable(X, name="x"), pir.variable(X, name="y")
            ops.relu_(ops.slice_(ops.concat_([x, y]), 3, 4))
            ops.relu_(ops.slice_(x, 0, 1))
            ops.relu_(ops.slice_(y, row, row + 1))
        if is_refused:
            with pytest.raises(popart_exception, match=r"use the memory of y"):
                pir.Session(ir)
        else:
            pir.Session(ir)


@pytest.mark.parametrize("build", AMBIGUOUS)
def test_a_sequence_gives_them_an_order(build: Any) -> None:
    """The same updates in a sequence."""
    run(lambda x, y: (build(x, y), x)[1], X, X, ordered=True)


def test_the_use_of_a_result_gives_an_order_too() -> None:
    """Copies read before an update that needs them, and results read after it."""
    run(lambda x, y: ops.relu(ops.add_(ops.relu(x), ops.relu(x))) + ops.add_(y, y), X, X)


def test_a_result_that_does_not_fit_its_memory_is_refused() -> None:
    """The result of an update in place has the shape of the tensor that it overwrites."""
    with pir.Ir().main_graph(), pytest.raises(popart_exception, match=r"does not fit the memory"):
        ops.add_(pir.variable(X[0]), pir.variable(X))
