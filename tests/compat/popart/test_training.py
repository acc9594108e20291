"""Training in a loop on the device: calls, gradients, state by reference, streams."""

from typing import Any

import numpy as np
import pytest

from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(6, 16, 4)).astype(np.float32)
LABELS = (X.sum(-1) > 0).astype(np.int32)
START = RANDOM.normal(size=(4, 2)).astype(np.float32)
ByRef: Any = pir.TensorByRef


def by_numpy(runs: int) -> tuple[list[float], Any]:
    """The losses of all steps and the last weights, of gradient descent with momentum."""
    weights, momentum, losses = START.astype(np.float64), np.zeros((4, 2)), list[float]()
    for _ in range(runs):
        for x, labels in zip(X.astype(np.float64), LABELS, strict=True):
            e = np.exp(x @ weights)
            probs = e / e.sum(1, keepdims=True)
            losses.append(float(-np.log(probs[np.arange(16), labels]).mean()))
            gradient = x.T @ (probs - np.eye(2)[labels]) / 16
            momentum = 0.9 * momentum + 0.1 * gradient
            weights = weights - momentum
    return losses, weights


@pytest.mark.parametrize(("target", "unroll"), [("ref", 0), ("cpu", 0), ("cpu", 6)])
def test_a_classifier_is_trained_as_numpy_trains_it(target: str, unroll: int) -> None:
    """Three runs of six steps, as a loop or one after another; the state stays between runs."""
    ir = pir.Ir()
    ir.num_host_transfers = len(X)
    with ir.main_graph(), pir.in_sequence():
        data, labels = pir.h2d_stream((16, 4), pir.float32), pir.h2d_stream((16,), pir.int32)
        losses = pir.d2h_stream((), pir.float32)
        w = pir.variable(START, name="w")
        m = pir.variable(np.zeros_like(START), name="m")
        forward = ir.create_graph(lambda x, w: x @ w, pir.TensorSpec((16, 4), pir.float32), w)
        weight = forward.get_input_tensors()[1]
        backward = pir.transforms.autodiff(forward, grads_required=[weight])

        def step(w: ByRef, m: ByRef) -> None:
            call = ops.call_with_info(forward, ops.host_load(data), w)
            probs = ops.softmax(call.get_op_output_tensor(0), 1)
            loss, dx = ops.nll_loss_with_softmax_grad(probs, ops.host_load(labels))
            ops.host_store(losses, loss)
            known = backward.get_inputs_from_forward_call_info(call)
            (gradient,) = ops.call(backward.graph, dx, subgraph_in_to_parent_in=known)
            ops.var_updates.accumulate_moving_average_(m, gradient, 0.9)
            ops.var_updates.accumulate_(w, m, -1.0)

        ops.repeat(ir.create_graph(step, w, m), len(X), w, m)
    session = pir.Session(ir, target=target, unroll=unroll)
    found = [session.run({data: X, labels: LABELS})[losses] for _ in range(3)]
    expected, weights = by_numpy(3)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5)
    np.testing.assert_allclose(session.get_tensor_data(w), weights, rtol=1e-4)
    assert expected[-1] < expected[0]
