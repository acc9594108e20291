"""Replicas that run apart, each on a device or in a thread of its own: what one program of all gives."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.compat.popart.test_replicas import ALTERNATE, EACH, HALVES, ROWS
from tests.gpu.graphs import Graphs
from workbench.compat.popart import ir as pir
from workbench.compat.popart import popart_exception
from workbench.compat.popart.ir import ops
from workbench.compat.popart.ir.ops.collectives import CommGroup, CommGroupType
from workbench.compiler.errors import EvaluationError, OperationError
from workbench.compiler.ops.communicator import communicator
from workbench.knobs import knobs

co = ops.collectives
ALONE = CommGroup(CommGroupType["None"])


def session(build: Any, rows: Any = ROWS, dtype: Any = pir.float32, **options: Any) -> Any:
    """A session of four replicas, whose results are streams to the host, and its streams."""
    ir = pir.Ir()
    ir.replication_factor = len(rows)
    with ir.main_graph(), pir.in_sequence():
        source = pir.h2d_stream(rows.shape[1:], dtype)
        targets: list[Any] = []
        for found in build(ops.host_load(source)):
            targets.append(pir.d2h_stream(found.shape, found.dtype))
            ops.host_store(targets[-1], found)
    made = pir.Session(ir, "ipu_model", **options)
    return made, source, targets


def run(build: Any, rows: Any = ROWS, dtype: Any = pir.float32, **options: Any) -> list[Any]:
    """The results of all replicas."""
    made, source, targets = session(build, rows, dtype, **options)
    found = made.run({source: rows})
    return [found[t] for t in targets]


def alike(build: Any, rows: Any = ROWS, dtype: Any = pir.float32, **options: Any) -> None:
    """Both ways give the same bits: the order of replicas is that of the sums."""
    devices = list(range(len(rows)))
    together = run(build, rows, dtype)
    for one, other in zip(
        together, run(build, rows, dtype, **{"devices": devices, **options}), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def floats(x: pir.Tensor) -> list[pir.Tensor]:
    """Every collective of floats, in every division into groups."""
    groups = None, HALVES, ALTERNATE, ALONE
    reduced = [co.replicated_all_reduce(x, op, g) for op, g in product([*EACH, "local"], groups)]
    parts = [co.replicated_reduce_scatter(x, op, g) for op, g in product([*EACH, "local"], groups)]
    gathered = [co.replicated_all_gather(x, g) for g in groups]
    shard = co.replicated_reduce_scatter(x, configure_output_for_replicated_tensor_sharding=True)
    written = co.replicated_all_reduce_(x + pir.constant(1.0, pir.float32))
    return [*reduced, written, *parts, *gathered, co.replicated_all_gather(shard)]


def test_collectives_of_threads_give_what_one_program_gives() -> None:
    """Floats, and types that are gathered to be combined: logical operators, booleans, 16 bits."""
    alike(floats)
    both = "and", "or"
    logical = [co.replicated_all_reduce, co.replicated_reduce_scatter]
    alike(lambda x: [f(x, op) for f, op in product(logical, both)], ROWS > 9, pir.bool)
    whole = ROWS.astype(np.int16)
    alike(lambda x: [f(x, op) for f, op in product(logical, ("add", "max"))], whole, pir.int16)


def test_collectives_of_devices_give_what_one_program_gives() -> None:
    """Two replicas on one OpenCL device; an operand that is a transposed view, and one of no axes."""

    def build(x: pir.Tensor) -> list[pir.Tensor]:
        table = x.reshape((2, 2)).T
        last = ops.sum(x, axis=0)
        return [
            co.replicated_all_reduce(table), co.replicated_all_reduce(last, "max"),
            co.replicated_all_gather(table), co.replicated_reduce_scatter(table, "mean"),
            co.replicated_reduce_scatter(table, "local"),
        ]  # fmt: skip

    alike(build, ROWS[:2, :4], target="gpu", devices=["opencl:0", "opencl:0"])


def test_a_loop_on_a_device_has_collectives_in_each_iteration() -> None:
    """The loop is launched by the host, and stays a loop."""

    def build(x: pir.Tensor) -> list[pir.Tensor]:
        def body(x: pir.Tensor) -> pir.Tensor:
            return co.replicated_all_reduce(x, "mean") * pir.constant(2.0, pir.float32)

        return [ops.repeat(x.ir().create_graph(body, x), 3, x)[0]]

    devices = ["opencl:0", "opencl:0"]
    alike(build, ROWS[:2], target="gpu", devices=devices, unroll=0)
    made, _, _ = session(build, ROWS[:2], target="gpu", devices=devices, unroll=0)
    kinds = {r.kind: r for r in made.build.plan()}
    assert (kinds["collective"].runs, kinds["loop"].runs) == (3, 1)
    assert "among replicas {0, 1}" in kinds["collective"].what
    assert "graphs of launches end at its collectives" in repr(made.build.plan())
    assert "collective among replicas {0, 1}" in made.build.recording.lowered.text


def training(**options: Any) -> tuple[list[float], Any]:
    """Losses and weights of two replicas that train on their own rows and add up their gradients."""
    ir = pir.Ir()
    ir.replication_factor = 2
    with ir.main_graph(), pir.in_sequence():
        data = pir.h2d_stream((4, 3), pir.float32, "data")
        losses = pir.d2h_stream((), pir.float32, "loss")
        weight = pir.variable(np.ones((3, 2), np.float32), name="W")
        forward = ir.create_graph(lambda x, w: x @ w, pir.TensorSpec((4, 3), pir.float32), weight)
        backward = pir.transforms.autodiff(forward, grads_required=[forward.get_input_tensors()[1]])
        call = ops.call_with_info(forward, ops.host_load(data), weight)
        y = call.get_op_output_tensor(0)
        ops.host_store(losses, co.replicated_all_reduce(ops.mean(y * y), "mean"))
        known = backward.get_inputs_from_forward_call_info(call)
        (gradient,) = ops.call(backward.graph, y, subgraph_in_to_parent_in=known)
        ops.var_updates.accumulate_(weight, co.replicated_all_reduce(gradient, "mean"), -0.05)
        ops.print_tensor(ops.sum(weight), title="sum")
    made = pir.Session(ir, "ipu_model", **options)
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    return [float(made.run({data: x})[losses][0]) for _ in range(4)], made


@pytest.mark.parametrize(
    "options", [{"devices": [0, 1]}, {"target": "gpu", "devices": ["opencl:0", "opencl:0"]}]
)
def test_two_replicas_train_as_in_one_program(options: Any, capsys: Any) -> None:
    """Weights stay where each replica runs, and are those of both; each prints."""
    expected, together = training()
    printed = capsys.readouterr().out
    found, apart = training(**options)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert expected[0] > expected[-1]
    weight = next(iter(apart.ir.main_graph().get_variables()))
    of_one = together.get_tensor_data(next(iter(together.ir.main_graph().get_variables())))
    np.testing.assert_allclose(apart.get_tensor_data(weight), of_one, rtol=1e-6)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(printed.splitlines()) == 8
    assert len(apart.stateful.history) == 4
    table = apart.replicas.table()
    assert list(table["collectives"]) == ["host memory"] * 2
    assert list(table["device"]) == [
        str(d) if isinstance(d, str) else f"thread {d}" for d in options["devices"]
    ]
    assert "by host memory" in repr(apart.replicas)
    apart.write_variable_data(weight, np.zeros((3, 2), np.float32))
    assert not apart.get_tensor_data(weight).any()


def test_launches_between_collectives_are_replayed_as_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second run captures them, and replays them as later ones do; weights are replaced by them, too."""
    monkeypatch.setenv("WORKBENCH_DEVICE", "opencl")
    expected, _ = training()
    graphs = Graphs(monkeypatch)
    found, made = training(target="gpu", devices=["opencl:0", "opencl:0"])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    kinds = [row.kind for row in made.build.plan() if row.kind in ("kernel", "collective")]
    between = "".join(kind[0] for kind in kinds).split("c")
    fit = sum(len(kernels) > 1 for kernels in between)
    assert fit
    assert (graphs.captures, graphs.replays) == (2 * fit, 2 * fit * 3)
    together, _ = training(target="gpu", devices=None)
    np.testing.assert_allclose(together, expected, rtol=1e-6)
    assert (graphs.captures, graphs.replays) == (2 * fit + 1, 2 * fit * 3 + 3)


@pytest.mark.parametrize("sharded", [False, True])
def test_remote_variables_are_kept_by_each_replica(sharded: bool) -> None:
    """Whole ones are one for each replica; shards are read back together."""
    ir = pir.Ir()
    ir.replication_factor = 2
    with ir.main_graph(), pir.in_sequence():
        v = pir.variable(np.float32([[1, 2], [3, 4]]), name="v")
        fixed = pir.variable(np.float32(3), name="fixed")
        buffer = pir.remote_buffer((2,) if sharded else (2, 2), pir.float32, 1)
        keep = pir.remote_replica_sharded_variable if sharded else pir.remote_variable
        row = keep(v, buffer, 0)
        loaded = ops.remote_load(buffer, row)
        found = pir.d2h_stream((2, 2), pir.float32)
        ops.host_store(found, co.replicated_all_gather(loaded) if sharded else loaded)
        ops.remote_store(buffer, row, ops.add_(loaded, fixed))
    made = pir.Session(ir, "ipu_model", devices=[0, 1])
    np.testing.assert_array_equal(made.run()[found], np.stack([v.data] * 2))
    after, expected = made.get_tensor_data(v), np.float32([[4, 5], [6, 7]])
    np.testing.assert_array_equal(after, expected if sharded else np.stack([expected] * 2))
    made.write_variable_data(fixed, np.float32(-3))
    made.run()
    np.testing.assert_array_equal(made.get_tensor_data(fixed), -3)
    assert (made.get_tensor_data(v).reshape(-1)[-4:] == [1, 2, 3, 4]).all()


def test_one_device_for_one_replica_is_the_device_of_its_program() -> None:
    """Nothing is exchanged, so no replicas run apart."""
    made, source, (target,) = session(
        lambda x: [x + x], ROWS[:1], target="gpu", devices=["opencl:0"]
    )
    assert made.replicas is None
    assert made.build.runner.spec == "opencl:0"
    assert repr(made.device) == "Device[ipu_model, 1 IPUs, runs on gpu: opencl:0]"
    np.testing.assert_array_equal(made.run({source: ROWS[:1]})[target][None], 2 * ROWS[:1])


def test_what_cannot_be_is_refused_before_anything_runs() -> None:
    """Too few devices, names where there are none, numbers that are none, groups that do not divide."""

    def build(x: pir.Tensor) -> list[pir.Tensor]:
        return [co.replicated_all_reduce(x)]

    with pytest.raises(ValueError, match=r"2 for 4 replicas.*Leave devices out"):
        session(build, devices=[0, 1])
    with pytest.raises(OperationError, match=r"'cuda:0' for target 'ref'; expected a number"):
        session(build, devices=["cuda:0"] * 4)
    with pytest.raises(OperationError, match=r"-1 for target 'gpu'; expected a name such as"):
        session(build, target="gpu", devices=[-1] * 4)
    thirds = CommGroup(CommGroupType.Consecutive, 3)
    with pytest.raises(popart_exception, match=r"divides 4 replicas"):
        session(lambda x: [co.replicated_all_reduce(x, group=thirds)], devices=[0, 1, 2, 3])


def test_the_build_of_one_replica_does_not_run_alone() -> None:
    """Its collectives say how to run it; on a device too."""
    for options in ({"devices": [0, 1]}, {"target": "gpu", "devices": ["opencl:0"] * 2}):
        made, source, _ = session(lambda x: [co.replicated_all_reduce(x)], ROWS[:2], **options)
        with pytest.raises(EvaluationError, match=r"one of 2 replicas.*and it runs alone"):
            made.build.run({source.tensor_id(): ROWS[:1]})


def test_a_replica_that_fails_ends_the_others_and_the_session() -> None:
    """Nobody waits for it; the error is its own, with its number."""
    made, source, _ = session(lambda x: [co.replicated_all_reduce(x)], ROWS[:3], devices=[0, 1, 2])
    inner = made.replicas.builds[1].runner.run

    def fails(*_: Any, **__: Any) -> Any:
        assert communicator() is not None
        raise MemoryError("no memory")

    made.replicas.builds[1].runner.run = fails
    with pytest.raises(MemoryError, match="no memory") as error:
        made.run({source: ROWS[:3]})
    assert error.value.__notes__ == ["in replica 1 of 3"]
    made.replicas.builds[1].runner.run = inner
    with pytest.raises(
        EvaluationError, match=r"out of step; make a new session: MemoryError: no memory"
    ):
        made.run({source: ROWS[:3]})


def test_a_replica_that_does_not_come_is_not_waited_for_long() -> None:
    """The limit is an option."""
    made, source, _ = session(lambda x: [co.replicated_all_reduce(x)], ROWS[:2], devices=[0, 1])
    made.replicas.builds[1].runner.run = lambda given, **_: [given]
    with (
        knobs.scope(collective_seconds=0.05),
        pytest.raises(EvaluationError, match=r"replica 0 waited 0.05 s for the others at all_red"),
    ):
        made.run({source: ROWS[:2]})
