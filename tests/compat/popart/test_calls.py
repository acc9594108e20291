"""Calls and loops of subgraphs."""

# ruff: noqa: ARG005 - graphs may ignore inputs

from typing import Any

import numpy as np
import pytest

from tests.compat.popart.programs import results, types
from workbench.compat.popart import ir as pir
from workbench.compat.popart import popart_exception
from workbench.compat.popart.ir import ops

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.arange(9, dtype=np.float32).reshape(3, 3) / 9
BIAS = np.float32([1, 2, 3])


class Linear(pir.Module):
    """A product with inputs of its own."""

    def build(self, x: pir.Tensor, out_features: int) -> pir.Tensor:
        """``x @ W + b``."""
        self.W = pir.subgraph_input((x.shape[-1], out_features), pir.float32, "W")
        self.b = pir.subgraph_input((out_features,), pir.float32, "b")
        return x @ self.W + self.b


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_module_is_called_with_its_own_inputs_by_name(target: str) -> None:
    """Called twice with other weights, and repeated."""

    def build(x: pir.Tensor, w: pir.Tensor, b: pir.Tensor) -> Any:
        linear = Linear()
        graph = x.ir().create_graph(linear, x, 3)
        assert len(graph.get_input_tensors()) == 3
        assert graph.name == "Linear_subgraph(0)"
        (once,) = ops.call(graph, x, subgraph_in_to_parent_in={linear.W: w, linear.b: b})
        (twice,) = ops.call(graph, once, w + w, 1.0 * b)
        (often,) = ops.repeat(graph, 3, x, subgraph_in_to_parent_in={linear.W: w, linear.b: b})
        assert types(pir.gcg()).count("Call") == 2
        return once, twice, often

    once, twice, often = results(build, X, W, BIAS, target=target)
    first = X @ W + BIAS
    np.testing.assert_allclose(once, first, rtol=1e-6)
    np.testing.assert_allclose(twice, first @ (W + W) + BIAS, rtol=1e-6)
    np.testing.assert_allclose(often, (first @ W + BIAS) @ W + BIAS, rtol=1e-6)


def test_lists_are_flattened_and_numbers_become_constants() -> None:
    """As inputs of a call."""

    def build(x: pir.Tensor) -> Any:
        graph = x.ir().create_graph(lambda a, bs: a + bs[0] * bs[1], x, [x, x])
        return ops.call(graph, x, [x, np.full((2, 3), 2)])

    np.testing.assert_array_equal(results(build, X)[0], 3 * X)


def change(x: pir.Tensor) -> pir.Tensor:
    """Adds 1 in place."""
    return ops.var_updates.accumulate_(x, pir.constant(np.ones(x.shape, np.float32)))


def change_by_ref(x: pir.TensorByRef) -> pir.Tensor:  # pyright: ignore[reportInvalidTypeForm]
    """Adds 1 in place."""
    return change(x)


def test_inputs_are_copies_unless_they_are_passed_by_reference() -> None:
    """By annotation, or by what is said of the call."""

    def build(a: pir.Tensor, b: pir.Tensor, c: pir.Tensor) -> Any:
        ir = a.ir()
        copied, referred = ir.create_graph(change, a), ir.create_graph(change_by_ref, b)
        ops.call(copied, a)
        info = ops.call_with_info(referred, b)
        assert info.op.modifiesIndex(0)
        other = ops.call_with_info(copied, c)
        assert not other.op.modifiesIndex(0)
        other.set_op_input_modified(c)
        return a, b, c

    a, b, c = results(build, X, X, X, ordered=True)
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, X + 1)
    np.testing.assert_array_equal(c, X + 1)


@pytest.mark.parametrize("unroll", [0, 3])
def test_a_loop_keeps_changes_of_references_and_forgets_those_of_copies(unroll: int) -> None:
    """An input that is no output is the same in each iteration, but for a reference."""

    def build(x: pir.Tensor, y: pir.Tensor, z: pir.Tensor) -> Any:
        def body(x: pir.Tensor, y: pir.Tensor, z: pir.TensorByRef) -> Any:  # pyright: ignore[reportInvalidTypeForm]
            return x + change(y) + change(z)

        graph = x.ir().create_graph(body, x, y, z)
        info = ops.repeat_with_info(graph, 3, x, y, z)
        assert [info.op.modifiesIndex(k) for k in range(2, 5)] == [False, False, True]
        return info.get_op_output_tensor(0), x, y, z

    x = np.zeros(2, np.float32)
    found = results(build, x, x, x, ordered=True, unroll=unroll)
    np.testing.assert_array_equal(found, [x + 3 + 1 + 2 + 3, x, x, x + 3])


@pytest.mark.parametrize("unroll", [0, 4])
def test_a_loop_whose_carried_input_is_a_reference_writes_the_last_value_back(unroll: int) -> None:
    """The input is the memory that each iteration's output is copied to."""

    def build(x: pir.Tensor, y: pir.Tensor) -> Any:
        def body(x: pir.TensorByRef, y: pir.Tensor) -> Any:  # pyright: ignore[reportInvalidTypeForm]
            return x + y

        ops.repeat(x.ir().create_graph(body, x, y), 4, x, y)
        return x

    np.testing.assert_array_equal(results(build, X, X, ordered=True, unroll=unroll)[0], 5 * X)


def test_the_tensors_of_both_sides_are_related() -> None:
    """By index and by tensor; others are refused."""
    ir = pir.Ir()
    with ir.main_graph():
        a, b = pir.variable(X, name="a"), pir.variable(X, name="b")
        graph = ir.create_graph(lambda x, y: (x + y, x), a, b)
        info = ops.call_with_info(graph, a, b)
        loop = ops.repeat_with_info(ir.create_graph(lambda x, y: x + y, a, b), 2, a, b)
    x, y = graph.get_input_tensors()
    total, same = graph.get_output_tensors()
    assert info.called_graph == graph
    assert same == x
    assert info.subgraph_to_op_tensor(y) == b
    assert info.op_in_to_subgraph_in_tensor(b) == y
    assert info.subgraph_to_op_tensor(total) == info.get_op_output_tensor(0)
    assert info.op_out_to_subgraph_out_tensor(info.get_output_tensors()[0]) == total
    assert info.get_op_input_tensor(1) == b
    assert info.get_input_tensors() == (a, b)
    assert [info.subgraph_in_to_op_in_index(1), info.op_in_to_subgraph_in_index(1)] == [1, 1]
    assert [loop.subgraph_in_to_op_in_index(1), loop.op_in_to_subgraph_in_index(3)] == [3, 1]
    assert loop.get_op_input_tensor(3) == b
    assert loop.subgraph_out_to_op_out_index(0) == 0
    for refused in (
        info.op_in_to_subgraph_in_tensor,
        info.set_op_input_modified,
        info.subgraph_to_op_tensor,
    ):
        with pytest.raises(ValueError, match=r"is not an"):
            refused(info.get_output_tensors()[1])


def test_calls_that_do_not_fit_are_refused() -> None:
    """Too few or too many inputs, other types and shapes, other graphs, bad counts."""
    ir = pir.Ir()
    with ir.main_graph():
        x = pir.variable(X, name="x")
        graph = ir.create_graph(lambda x, y: x + y, x, x)
        two = ir.create_graph(lambda x: (x, x), x)
        for inputs in ((x,), (x, x, x)):
            with pytest.raises(
                ValueError, match=r"^An incorrect number of inputs have been provided"
            ):
                ops.call(graph, *inputs)
        with pytest.raises(ValueError, match=r"is not an input of the subgraph"):
            ops.call(graph, x, subgraph_in_to_parent_in={x: x})
        for other in (pir.variable(X[0]), pir.variable(X.astype(np.int32))):
            with pytest.raises(popart_exception, match=r"does not fit"):
                ops.call(graph, x, other)
        with pytest.raises(ValueError, match=r"is not in the current Graph"):
            ops.call(graph, x, graph.get_input_tensors()[0])
        for count in (1, 0, -10):
            with pytest.raises(ValueError, match=r"^Repeat trip count for repeat of"):
                ops.repeat(graph, count, x, x)
        with pytest.raises(ValueError, match=r"^To repeat the subgraph"):
            ops.repeat(two, 2, x)
        with pytest.raises(popart_exception, match=r"does not fit"):
            ops.repeat(ir.create_graph(lambda x: x[0], x), 2, x)
        ops.call_with_info(graph, x, check_inputs=False)
    with pytest.raises(popart_exception, match=r"1 of the 2 inputs"):
        pir.Session(ir)
    with pir.Ir().main_graph(), pytest.raises(ValueError, match=r"of another Ir"):
        ops.call(ir.create_empty_graph())


def test_names_of_later_versions_are_there_too() -> None:
    """Of graphs, of a call's arguments, and of its relations."""
    ir = pir.Ir()
    with ir.main_graph() as main:
        x = pir.variable(X, name="x")
        linear = Linear()
        graph = ir.create_graph(linear, x, 3)
        named = {linear.W: pir.variable(W, name="w"), linear.b: pir.variable(BIAS, name="b")}
        ops.call(graph, x, inputs_dict=named)
        ops.repeat(graph, 2, x, inputs_dict=named)
        ops.repeat_with_info(graph, 2, x, inputs_dict=named)
        info = ops.call_with_info(graph, x, inputs_dict=named)
    assert graph.inputs == graph.get_input_tensors()
    assert graph.outputs == graph.get_output_tensors()
    assert graph.inputs_by_name["W"] == linear.W
    assert graph.main_graph is main
    assert (main.tensors, main.variables, main.constants) == (
        main.get_tensors(),
        main.get_variables(),
        (),
    )
    assert info.graph_to_parent(linear.W) == named[linear.W]
    assert info.parent_to_graph(x) == graph.inputs[0]
    assert info.inputs == (info.parent_input(0), *named.values())
    assert info.outputs == (info.parent_output(0),)


def test_calls_of_a_graph_share_one_module() -> None:
    """One for each set of changed inputs; a loop's body is a module too."""
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence():
        x = pir.variable(X, name="x")
        graph, unused = ir.create_graph(change, x), ir.create_graph(lambda: None)
        for _ in range(3):
            ops.call(graph, x)
        ops.call_with_info(graph, x).set_op_input_modified(x)
        loop = ir.create_graph(lambda x: ops.call(graph, x), x)
        ops.repeat(loop, 2, x)
    program = ir.workbench
    names = [graph.name, f"{graph.name}:2", loop.name]
    assert sorted(program.modules) == sorted(["main", *names])
    assert len(program.modules[graph.name].callers) == 4
    assert graph.workbench.name == graph.name
    assert loop.workbench.name == loop.name
    with pytest.raises(ValueError, match=r"no call reaches it"):
        _ = unused.workbench


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_graphs_without_operations_are_called(target: str) -> None:
    """Their outputs are their inputs, or there are none."""

    def build(x: pir.Tensor, y: pir.Tensor) -> Any:
        ir = x.ir()
        ops.call(ir.create_graph(lambda x: None, x), x)
        return ops.call(ir.create_graph(lambda x, y: (y, x, y), x, y), x, y)

    found = results(build, X, X + 1, target=target)
    np.testing.assert_array_equal(found, [X + 1, X, X + 1])


@pytest.mark.parametrize("unroll", [0, 32])
def test_values_are_printed_in_calls_and_loops(
    capsys: pytest.CaptureFixture[str], unroll: int
) -> None:
    """In the order in which they are computed: a loop prints in each iteration, also inside another one."""

    def show(x: pir.Tensor) -> pir.Tensor:
        return ops.print_tensor(x, "seen")

    def build(x: pir.Tensor) -> Any:
        graph = x.ir().create_graph(show, x)
        (once,) = ops.call(graph, x)
        (twice,) = ops.call(graph, once + 1)
        return twice

    results(build, np.float32(1), ordered=True)
    assert capsys.readouterr().out == "seen: 1.0\nseen: 2.0\n"

    def inner(x: pir.Tensor) -> pir.Tensor:
        return ops.print_tensor(x + 1, "in")

    def outer(x: pir.Tensor) -> pir.Tensor:
        (once,) = ops.call(x.ir().create_graph(show, x), ops.print_tensor(x, "out") * 10)
        (last,) = ops.repeat(x.ir().create_graph(inner, once), 2, once)
        return last

    def nested(x: pir.Tensor) -> Any:
        first = ops.print_tensor(x, "start")
        (last,) = ops.repeat(x.ir().create_graph(outer, first), 2, first)
        return ops.print_tensor(last, "end")

    results(nested, np.int32(1), ordered=True, unroll=unroll)
    shown = "start 1 out 1 seen 10 in 11 in 12 out 12 seen 120 in 121 in 122 end 122"
    assert " ".join(capsys.readouterr().out.replace(":", "").split()) == shown


def test_outputs_that_are_added_to_a_graph_are_outputs_of_its_calls() -> None:
    """In the main graph and in other graphs; a loop is refused."""
    ir = pir.Ir()
    with ir.main_graph():
        x = pir.variable(X, name="x")
        graph = ir.create_graph(lambda x: ops.relu(x + 1) * 2, x)
        info = ops.call_with_info(graph, x)
        outer = ir.create_graph(lambda x: ops.call(graph, x), x)
        (inside,) = ops.call(outer, x)
        graph.add_call_outputs([graph.get_tensor(f"{graph.id}/relu_out")])
        before, after = (pir.d2h_stream(X.shape, pir.float32) for _ in range(2))
        ops.host_store(before, info.get_op_output_tensor(1))
        ops.host_store(after, inside)
        assert len(outer.ops()[0].outputs) == 2
    rows = pir.Session(ir).run()
    np.testing.assert_array_equal(rows[before], X + 1)
    np.testing.assert_array_equal(rows[after], 2 * X + 2)
    with ir.main_graph():
        ops.repeat(graph := ir.create_graph(lambda x: x + 1, x), 2, x)
        with pytest.raises(popart_exception, match=r"calls only"):
            graph.add_call_outputs([graph.get_input_tensors()[0]])


def test_a_module_repeated_twice_on_ones() -> None:
    """The loop of PopART's guide."""
    ones = np.ones((2, 2), np.float32)

    def build(x: pir.Tensor) -> Any:
        linear = Linear()
        graph = x.ir().create_graph(linear, x, out_features=2)
        named = {linear.W: pir.variable(ones), linear.b: pir.variable(ones[0])}
        return ops.repeat(graph, 2, x, subgraph_in_to_parent_in=named)

    np.testing.assert_array_equal(results(build, ones)[0], ones * 7)
