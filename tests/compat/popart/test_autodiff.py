"""Gradient graphs: their connections, their numbers against finite differences, and what is refused."""

import numpy as np
import pytest

from workbench.compat import popart
from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops
from workbench.compat.popart.ir.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    autodiff,
)

FWD, GRAD = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad


class Linear(pir.Module):
    def build(self, x: pir.Tensor, out: int) -> pir.Tensor:
        self.W = pir.subgraph_input((x.shape[-1], out), x.dtype, "W")
        self.b = pir.subgraph_input((out,), x.dtype, "b")
        return x @ self.W + self.b


def kinds(connections):
    return [(c.connection_type, c.fwd_tensor.name) for c in connections]


def test_a_linear_layer_has_its_gradients():
    random = np.random.default_rng(0)
    x0, w0 = random.standard_normal((2, 3)).astype("f"), random.standard_normal((3, 4)).astype("f")
    ir = pir.Ir()
    with ir.main_graph():
        stream = pir.h2d_stream((2, 3), pir.float32)
        x = ops.host_load(stream)
        w, b = pir.variable(w0, name="W"), pir.variable(np.ones(4, "f"), name="b")
        linear = Linear()
        graph = ir.create_graph(linear, x, out=4)
        info = ops.call_with_info(graph, x, subgraph_in_to_parent_in={linear.W: w, linear.b: b})
        bwd = autodiff(graph)
        assert bwd.graph.id == f"{graph.id}_bwd"
        assert bwd.forward_graph is graph
        assert kinds(bwd.expected_outputs) == [(GRAD, "x"), (GRAD, "W"), (GRAD, "b")]
        assert bwd.expected_inputs[0].connection_type is GRAD
        assert {c.connection_type for c in bwd.expected_inputs[1:]} == {FWD}
        assert bwd.get_output_tensors() == graph.get_input_tensors()
        seed = pir.constant(np.ones((2, 4), "f"))
        activations = bwd.get_inputs_from_forward_call_info(info)
        call = ops.call_with_info(bwd.graph, seed, subgraph_in_to_parent_in=activations)
        of_inputs = bwd.get_fwd_inputs_to_grad_tensor_map(info, call)
        assert list(of_inputs) == [x, w, b]
        streams = [pir.d2h_stream(t.shape, t.dtype) for t in of_inputs]
        for s, gradient in zip(streams, of_inputs.values(), strict=True):
            ops.host_store(s, gradient)
    found = pir.Session(ir, "cpu").run({stream: x0})
    ones = np.ones((2, 4))
    for s, expected in zip(streams, (ones @ w0.T, x0.T @ ones, ones.sum(0)), strict=True):
        np.testing.assert_allclose(found[s], expected, rtol=1e-5)


def test_what_gradients_need_becomes_an_output_of_the_graph_and_its_calls():
    ir = pir.Ir()
    with ir.main_graph():
        x, s = pir.variable(np.ones(3, "f")), pir.variable(np.ones(3, "f"))
        graph = ir.create_graph(lambda x, s, t: x * s + t, x, s, s)
        call = ops.call_with_info(graph, x, s, s)
        assert len(call.get_output_tensors()) == 1
        bwd = autodiff(graph)
        assert len(graph.get_output_tensors()) == 2
        assert len(call.get_output_tensors()) == 2
    types = {op.op_type for op in bwd.graph.ops()}
    assert types == {"AddArg0Grad", "AddArg1Grad", "MulArg0Grad", "MulArg1Grad"}
    lines = repr(bwd).splitlines()
    assert lines[:2] == ["GradGraphInfo[", f"  graph={graph.id}_bwd"]
    assert lines[-1] == "]"
    assert autodiff(graph).graph.id == f"{graph.id}_bwd_1"


def test_only_the_gradients_that_are_asked_for():
    ir = pir.Ir()
    with ir.main_graph():
        x, y = pir.variable(np.ones(3, "f")), pir.variable(np.ones(3, "f"))
        graph = ir.create_graph(lambda x, y: (x * y, x + y), x, y)
        first, second = graph.get_output_tensors()[:2]
        a, b = graph.get_input_tensors()
        bwd = autodiff(graph, grads_provided=[second], grads_required=[b, a])
    assert kinds(bwd.expected_outputs) == [(GRAD, b.name), (GRAD, a.name)]
    assert bwd.expected_inputs[0].fwd_tensor == second
    assert [c for c in bwd.expected_inputs if c.connection_type is GRAD] == [bwd.expected_inputs[0]]
    assert first not in bwd.get_input_tensors()


def chain(x, w):
    """Most kinds of operations on a path from two inputs to one number."""
    y = ops.gelu(x @ w)
    y = ops.layer_norm(y, pir.constant(np.full(4, 1.5, "f")), pir.constant(np.zeros(4, "f")))
    y = ops.softmax(y * 2.0, axis=-1) + ops.relu(y.T.T)
    y = ops.concat([y, -y / 2.0], axis=0)
    first, second = ops.split(y, 2, axis=0)
    y = ops.where(pir.constant(np.array([True, False, True, False])), first, second)
    y = ops.gather(y, pir.constant(np.array([1, 0, 1], np.int32)), axis=0)
    y = ops.slice(y, 0, 2, axis=0).reshape((4, 2))
    return ops.sum(ops.sumsquare(y, axis=0))


def gradient_of(function, inputs, target="cpu"):
    """The value of a function of one number, and its gradients."""
    ir = pir.Ir()
    with ir.main_graph():
        variables = [pir.variable(a) for a in inputs]
        graph = ir.create_graph(function, *variables)
        call = ops.call_with_info(graph, *variables)
        bwd = autodiff(graph)
        result = call.get_output_tensors()[0]
        seed = pir.constant(np.ones(result.shape, "f"))
        activations = bwd.get_inputs_from_forward_call_info(call)
        grads = ops.call(bwd.graph, seed, subgraph_in_to_parent_in=activations)
        streams = [pir.d2h_stream(t.shape, t.dtype) for t in (result, *grads)]
        for s, t in zip(streams, (result, *grads), strict=True):
            ops.host_store(s, t)
    found = pir.Session(ir, target).run()
    return [found[s] for s in streams]


def slope(function, inputs, k, direction, step=3e-3):
    """The central difference of a function along a direction of one input."""
    ends = []
    for sign in (1, -1):
        moved = [a + sign * step * direction if i == k else a for i, a in enumerate(inputs)]
        ends.append(float(gradient_of(function, [m.astype("f") for m in moved])[0]))
    return (ends[0] - ends[1]) / (2 * step)


def test_a_chain_of_operations_agrees_with_differences():
    random = np.random.default_rng(3)
    inputs = [random.standard_normal(s).astype("f") for s in ((2, 3), (3, 4))]
    _, *grads = gradient_of(chain, inputs)
    for k, g in enumerate(grads):
        direction = random.standard_normal(g.shape)
        expected = slope(chain, inputs, k, direction)
        assert np.sum(g * direction) == pytest.approx(expected, rel=2e-2, abs=2e-3)


def test_gradients_go_through_calls():
    def outer(x):
        inner = x.ir().create_graph(lambda v: v * v, x)
        (once,) = ops.call(inner, x)
        (twice,) = ops.call(inner, once)
        return ops.sum(once + twice)

    x0 = np.array([0.5, -1.0, 2.0], "f")
    _, g = gradient_of(outer, [x0])
    np.testing.assert_allclose(g, 2 * x0 + 4 * x0**3, rtol=1e-5)


def test_all_gradient_graphs_are_returned_where_asked():
    ir = pir.Ir()
    with ir.main_graph():
        x = pir.variable(np.ones(3, "f"))
        inner = ir.create_graph(lambda v: v * v, x)
        outer = ir.create_graph(lambda v: ops.call(inner, v)[0] + v, x)
        found = autodiff(outer, return_all_grad_graphs=True)
        assert set(found) == {inner, outer}
        assert all(isinstance(i, GradGraphInfo) for i in found.values())
        again = autodiff(outer, called_graphs_grad_info={inner: found[inner]})
    assert found[inner].graph in again.graph.called_graphs


def test_a_value_used_twice_gets_the_sum():
    _, g = gradient_of(lambda x: ops.sum(x * x + x), [np.array([1.0, 2.0], "f")])
    np.testing.assert_allclose(g, [3.0, 5.0])


def test_detach_stops_gradients():
    _, g = gradient_of(lambda x: ops.sum(x * ops.detach(x)), [np.array([1.0, 2.0], "f")])
    np.testing.assert_allclose(g, [1.0, 2.0])


def test_what_cannot_be_differentiated_is_refused():
    ir = pir.Ir()
    with ir.main_graph():
        x = pir.variable(np.ones(3, "f"))
        in_place = ir.create_graph(lambda v: ops.relu_(v * 2.0), x)
        with pytest.raises(popart.popart_exception, match="overwrites"):
            autodiff(in_place)
        apart = ir.create_graph(lambda v, _: v * 2.0, x, x)
        with pytest.raises(popart.popart_exception, match="no gradient of Tensor"):
            autodiff(apart, grads_required=apart.get_input_tensors())
        with pytest.raises(ValueError, match="not a tensor of the graph"):
            autodiff(apart, grads_required=[x])
        with pytest.raises(TypeError, match=r"expected a popart\.ir\.Graph"):
            autodiff(x)
        other = ops.call_with_info(apart, x, x)
        with pytest.raises(TypeError, match="does not match"):
            autodiff(in_place_free(ir, x)).get_inputs_from_forward_call_info(other)
    for cls in (ExpectedConnection, GradGraphInfo):
        with pytest.raises(RuntimeError, match="cannot be constructed"):
            cls()


def in_place_free(ir, x):
    return ir.create_graph(lambda v: v * 3.0, x)
