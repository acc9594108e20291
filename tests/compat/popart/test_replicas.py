"""Replicas in step: each has its own rows and state; collectives combine them."""

from typing import Any

import numpy as np
import pytest

from workbench.compat.popart import ir as pir
from workbench.compat.popart import popart_exception
from workbench.compat.popart.ir import ops
from workbench.compat.popart.ir.ops.collectives import CommGroup, CommGroupType

co = ops.collectives
ROWS = np.arange(20, dtype=np.float32).reshape(4, 5) + 1


def run(build: Any, rows: Any = ROWS) -> Any:
    """The rows of each replica, from its row of a stream."""
    ir = pir.Ir()
    ir.replication_factor = len(rows)
    with ir.main_graph(), pir.in_sequence():
        source = pir.h2d_stream(rows.shape[1:], pir.float32)
        found = build(ops.host_load(source))
        target = pir.d2h_stream(found.shape, found.dtype)
        ops.host_store(target, found)
    return pir.Session(ir, "ipu_model").run({source: rows})[target]


HALVES = CommGroup(CommGroupType.Consecutive, 2)
ALTERNATE = CommGroup(CommGroupType.Orthogonal, 2)
EACH = ["add", "mean", "mul", "min", "max", "square_add"]
FORMULAS = [np.sum, np.mean, np.prod, np.min, np.max, lambda x, a: (x * x).sum(a)]


@pytest.mark.parametrize(("op", "formula"), list(zip(EACH, FORMULAS, strict=True)))
def test_reductions_give_each_replica_the_same(op: str, formula: Any) -> None:
    """In place and not."""
    expected = np.broadcast_to(formula(ROWS, 0), ROWS.shape)
    for reduce in (co.replicated_all_reduce, co.replicated_all_reduce_):
        np.testing.assert_allclose(run(lambda x, f=reduce: f(x, op)), expected, rtol=1e-6)


def test_groups_are_consecutive_or_orthogonal() -> None:
    """Of two among four replicas."""
    pairs = run(lambda x: co.replicated_all_reduce(x, group=HALVES))
    np.testing.assert_array_equal(pairs, (ROWS[::2] + ROWS[1::2]).repeat(2, 0))
    others = run(lambda x: co.replicated_all_reduce(x, group=ALTERNATE))
    np.testing.assert_array_equal(others, np.tile(ROWS[:2] + ROWS[2:], (2, 1)))
    alone = CommGroup(CommGroupType["None"])
    np.testing.assert_array_equal(run(lambda x: co.replicated_all_reduce(x, group=alone)), ROWS)
    with pytest.raises(ValueError, match=r"divides 4 replicas"):
        run(lambda x: co.replicated_all_gather(x, CommGroup(CommGroupType.Consecutive, 3)))


def test_a_shard_of_a_sum_is_gathered_to_the_whole() -> None:
    """Five elements among four replicas: parts of two, the last ones filled with zeros."""
    padded = np.append(ROWS.sum(0), [0, 0, 0])
    found = run(co.replicated_reduce_scatter)
    np.testing.assert_array_equal(found, padded.reshape(4, 2))

    def there_and_back(x: pir.Tensor) -> pir.Tensor:
        shard = co.replicated_reduce_scatter(
            x, configure_output_for_replicated_tensor_sharding=True
        )
        return co.replicated_all_gather(shard)

    np.testing.assert_array_equal(run(there_and_back), np.tile(ROWS.sum(0), (4, 1)))
    flat = run(lambda x: co.replicated_all_gather(co.replicated_reduce_scatter(x, "local")))
    own = [np.append(r, [0, 0, 0]).reshape(4, 2)[k] for k, r in enumerate(ROWS)]
    np.testing.assert_array_equal(flat, np.tile(np.concatenate(own), (4, 1)))


def test_replicas_keep_their_own_state_in_calls_and_loops() -> None:
    """A variable that each changes by its own row, in a loop with a collective in a call."""

    def build(x: pir.Tensor) -> pir.Tensor:
        ir = x.ir()
        w = pir.variable(np.zeros(5, np.float32), name="w")
        total = ir.create_graph(co.replicated_all_reduce, x)

        def body(w: Any, x: pir.Tensor) -> pir.Tensor:
            return w + x + ops.call(total, x)[0]

        return ops.var_updates.copy_var_update_(
            w, ops.repeat(ir.create_graph(body, w, x), 3, w, x)[0]
        )

    np.testing.assert_array_equal(run(build), 3 * (ROWS + ROWS.sum(0)))


@pytest.mark.parametrize("sharded", [False, True])
def test_remote_variables_of_replicas(sharded: bool) -> None:
    """Whole ones are one for each replica; shards are read back together."""
    ir = pir.Ir()
    ir.replication_factor = 2
    with ir.main_graph(), pir.in_sequence():
        v = pir.variable(np.float32([[1, 2], [3, 4]]), name="v")
        buffer = pir.remote_buffer((2,) if sharded else (2, 2), pir.float32, 1)
        keep = pir.remote_replica_sharded_variable if sharded else pir.remote_variable
        row = keep(v, buffer, 0)
        loaded = ops.remote_load(buffer, row)
        whole = co.replicated_all_gather(loaded) if sharded else loaded
        found = pir.d2h_stream((2, 2), pir.float32)
        ops.host_store(found, whole)
        ops.remote_store(buffer, row, ops.add_(loaded, pir.constant(1.0)))
    session = pir.Session(ir, "ipu_model")
    np.testing.assert_array_equal(session.run()[found], np.stack([v.data] * 2))
    after = session.get_tensor_data(v)
    expected = np.float32([[2, 3], [4, 5]])
    np.testing.assert_array_equal(after, expected if sharded else np.stack([expected] * 2))


def test_a_sharded_variable_on_the_chip_is_loaded_before_and_stored_after() -> None:
    """In the fragments that move weights, whatever the order in which the graph was written."""
    ir = pir.Ir()
    ir.replication_factor = 2
    with ir.main_graph(), pir.in_sequence():
        v = pir.variable(np.arange(4, dtype=np.float32), name="v")
        buffer = pir.remote_buffer((2,), pir.float32, 1)
        _, shard = pir.replica_sharded_variable(v, buffer, 0)
        ops.add_(shard, pir.constant(1.0))
    contexts = [op.execution_context for op in ir.main_graph().ops()]
    assert contexts.count(pir.ExecutionContext.WeightsToHostFragment) == 1
    session = pir.Session(ir, "ipu_model")
    session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), [1, 2, 3, 4])


def test_a_factor_set_after_the_graph_was_built_is_refused() -> None:
    """Shapes of gathered tensors depend on it."""
    ir = pir.Ir()
    with ir.main_graph():
        co.replicated_all_gather(pir.variable([1.0]))
    ir.replication_factor = 2
    with pytest.raises(popart_exception, match=r"set ir.replication_factor before"):
        pir.Session(ir, "ipu_model")


def test_variables_that_cannot_be_sharded_are_refused() -> None:
    """Elements that replicas do not divide, and a buffer for shards of another shape."""
    ir = pir.Ir()
    ir.replication_factor = 2
    with ir.main_graph():
        buffer = pir.remote_buffer((2,), pir.float32, 2)
        pir.remote_replica_sharded_variable(pir.variable(ROWS[0, :4]), buffer, 0)
        assert buffer.meta_shape == (4,)
        with pytest.raises(ValueError, match=r"cannot be divided among 2 replicas"):
            pir.remote_replica_sharded_variable(pir.variable(ROWS[0]), buffer, 1)
        with pytest.raises(ValueError, match=r"different meta-shapes"):
            pir.remote_replica_sharded_variable(pir.variable(ROWS[:2, :2]), buffer, 1)
