"""Sessions: state of variables, streams with rows, remote buffers, errors before a run."""

from typing import Any

import numpy as np
import pytest

from workbench.compat.popart import ir as pir
from workbench.compat.popart import popart_exception
from workbench.compat.popart.ir import ops

ONES = np.ones((2, 2), np.float32)


def test_two_streams_are_added() -> None:
    """The first program of PopART's guide."""
    ir = pir.Ir()
    with ir.main_graph():
        first, second = (pir.h2d_stream([1], pir.float32) for _ in range(2))
        total = ops.add(ops.host_load(first, "a"), ops.host_load(second, "b"))
        found = pir.d2h_stream(total.shape, total.dtype)
        ops.host_store(found, total)
    rows = pir.Session(ir).run({first: np.float32([3]), second: np.float32([4])})
    assert rows[found] == 7


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_variable_keeps_its_value_from_run_to_run(target: str) -> None:
    """An update in place is seen by the next run; the user's array is not changed."""
    ir = pir.Ir()
    data = ONES.copy()
    with ir.main_graph():
        w = pir.variable(data, name="w")
        ops.add_(w, pir.constant(2.0))
    session = pir.Session(ir, target=target)
    assert w.in_sync_with_ipu
    for k in range(3):
        np.testing.assert_array_equal(session.get_tensor_data(w), ONES + 2 * k)
        session.run()
        assert not w.in_sync_with_ipu
    session.write_variable_data(w, ONES * 5)
    session.run()
    np.testing.assert_array_equal(session.get_tensors_data([w])[w], ONES * 7)
    np.testing.assert_array_equal(data, ONES)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_the_history_has_a_row_for_each_run(target: str) -> None:
    """Outputs of one element; a session whose runs change nothing has no state."""
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence():
        w = pir.variable(1.0, name="w")
        found = pir.d2h_stream((), pir.float32, "loss")
        ops.host_store(found, w)
        ops.var_updates.accumulator_scale_(w, 0.5)
    session = pir.Session(ir, target=target)
    for _ in range(3):
        session.run()
    assert session.stateful is not None
    assert session.stateful.history["loss"].tolist() == [1, 0.5, 0.25]
    with pir.Ir().main_graph() as main:
        _ = pir.variable(1.0) + 1
    assert pir.Session(main.ir()).stateful is None


@pytest.mark.parametrize("unroll", [0, 3])
def test_each_load_takes_the_next_row_and_each_store_fills_one(unroll: int) -> None:
    """Loads in the main graph, twice in each iteration of a loop, and in a call inside of it."""
    ir = pir.Ir()
    ir.num_host_transfers = 8
    with ir.main_graph(), pir.in_sequence():
        source, target = pir.h2d_stream((2,), pir.float32), pir.d2h_stream((2,), pir.float32)
        ops.host_store(target, ops.host_load(source))

        def inner() -> None:
            ops.host_store(target, ops.host_load(source) * 100)

        called = ir.create_graph(inner)

        def body() -> None:
            ops.host_store(target, ops.host_load(source) * 10)
            ops.call(called)

        ops.repeat(ir.create_graph(body), 3)
        ops.host_store(target, ops.host_load(source))
    rows = np.arange(16, dtype=np.float32).reshape(8, 2)
    factors = np.array([1, 10, 100, 10, 100, 10, 100, 1], np.float32)[:, None]
    np.testing.assert_array_equal(
        pir.Session(ir, unroll=unroll).run({source: rows})[target], rows * factors
    )


@pytest.mark.parametrize("unroll", [0, 2, 3])
def test_loops_in_loops_count_rows_from_where_they_begin(unroll: int) -> None:
    """Three times: one row, then two rows of an inner loop."""
    ir = pir.Ir()
    ir.num_host_transfers = 10
    with ir.main_graph(), pir.in_sequence():
        source, target = pir.h2d_stream((), pir.float32), pir.d2h_stream((), pir.float32)

        def move(sign: float) -> None:
            ops.host_store(target, ops.host_load(source) * sign)

        inner = ir.create_graph(lambda: move(-1.0))

        def outer() -> None:
            move(1.0)
            ops.repeat(inner, 2)

        ops.repeat(ir.create_graph(outer), 3)
        move(1.0)
    rows = np.arange(10, dtype=np.float32)
    signs = [1, -1, -1, 1, -1, -1, 1, -1, -1, 1]
    np.testing.assert_array_equal(
        pir.Session(ir, unroll=unroll).run({source: rows})[target], rows * signs
    )


def test_a_stream_with_too_few_rows_is_refused() -> None:
    """The error names the stream and the number to set."""
    ir = pir.Ir()
    with ir.main_graph():
        source = pir.h2d_stream((), pir.float32, "source")
        ops.repeat(ir.create_graph(lambda: (ops.host_load(source), None)[1]), 4)
    with pytest.raises(
        popart_exception, match=r"source.*executes 4 host_load.*num_host_transfers to at least 4"
    ):
        pir.Session(ir)


def test_remote_buffers_keep_rows_from_run_to_run() -> None:
    """Stores, loads in place and not, offsets as numbers and tensors; a store in a loop."""
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence():
        buffer = pir.remote_buffer((2, 2), pir.float32, 3)
        v = pir.variable(ONES, name="v")
        ops.remote_store(buffer, 1, ops.remote_load(buffer, pir.constant(1)) + v)

        def body(i: pir.Tensor) -> pir.Tensor:
            ops.remote_store(buffer, i, ops.remote_load(buffer, 1, "row") * 10)
            return i + 2

        ops.repeat(ir.create_graph(body, pir.constant(0)), 2, pir.constant(0))
        found = pir.d2h_stream((2, 2), pir.float32)
        ops.host_store(found, ops.remote_load_(buffer, 2, v))
    session = pir.Session(ir)
    np.testing.assert_array_equal(session.run()[found], ONES * 10)
    np.testing.assert_array_equal(session.get_tensor_data(v), ONES * 10)
    np.testing.assert_array_equal(session.run()[found], ONES * 110)


def test_a_remote_variable_lives_in_its_row() -> None:
    """Its first value is the row's, and the row is read back."""
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence():
        buffer = pir.remote_buffer((2, 2), pir.float32, 2)
        v = pir.variable(ONES * 3, name="v")
        row = pir.remote_variable(v, buffer, 1)
        loaded = ops.remote_load(buffer, row)
        ops.remote_store(buffer, row, ops.add_(loaded, pir.constant(1.0)))
    assert row.name == "RemoteArg___v"
    assert row.dtype is pir.int32
    assert v.location_info.storage is pir.TensorStorage.OffChip
    session = pir.Session(ir)
    session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), ONES * 4)
    session.write_variable_data(v, ONES)
    session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), ONES * 2)


@pytest.fixture
def session() -> Any:
    """A session with a stream in each direction, a variable and a constant."""
    ir = pir.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph():
        source = pir.h2d_stream((3,), pir.float32, "source")
        target = pir.d2h_stream((3,), pir.float32, "target")
        total = (
            ops.host_load(source) + pir.variable(ONES[0, 0], name="w") + pir.constant(1.0, name="c")
        )
        ops.host_store(target, total)
    return pir.Session(ir), source, target, ir.main_graph()


@pytest.mark.parametrize("transfers", [1, 2])
def test_axes_of_one_transfer_or_replica_may_be_there_or_not(transfers: int) -> None:
    """For inputs and outputs."""
    ir = pir.Ir()
    ir.num_host_transfers = transfers
    with ir.main_graph():
        source, target = pir.h2d_stream((1,), pir.float32), pir.d2h_stream((1,), pir.float32)
        ops.host_store(target, ops.host_load(source))
    made = pir.Session(ir)
    for lens in {(transfers, 1), (transfers, 1, 1), (1,) if transfers == 1 else (transfers, 1)}:
        rows = np.zeros(lens, np.float32)
        made.run_with_outputs({source: rows + 3}, {target: rows})
        assert rows.reshape(-1)[0] == 3


def test_streams_fed_wrongly_are_refused(session: Any) -> None:
    """Missing and unknown streams, other shapes and types, in both directions."""
    made, source, target, _ = session
    rows = np.zeros((2, 3), np.float32)
    assert made.expected_inputs() == [source]
    assert made.create_host_outputs()[target].shape == (2, 3)
    with pytest.raises(ValueError, match=r"Missing: \{source\}"):
        made.run()
    with pytest.raises(ValueError, match=r"Unexpected: \{target\}"):
        made.run({source: rows, target: rows})
    with pytest.raises(ValueError, match=r"Shape mismatch for input source: expected \(2, 3\)"):
        made.run({source: rows[0]})
    with pytest.raises(TypeError, match=r"input source: expected .*float32"):
        made.run({source: rows.astype(np.float64)})
    with pytest.raises(
        ValueError, match=r"Unexpected/Missing outputs.*\n.*\n  Missing: \{target\}"
    ):
        made.run_with_outputs({source: rows}, {})
    with pytest.raises(ValueError, match=r"Shape mismatch for output target"):
        made.run_with_outputs({source: rows}, {target: rows[:1]})


def test_data_of_wrong_tensors_are_refused(session: Any) -> None:
    """Only variables and constants have data, only variables change, only as they are."""
    made, _, _, graph = session
    w, c, total = (graph.get_tensor(n) for n in ("w", "c", "add_out"))
    assert made.get_tensor_data(c) == 1
    with pytest.raises(TypeError, match=r"^Tensor add_out is not of type Constant or Variable"):
        made.get_tensor_data(total)
    with pytest.raises(TypeError, match=r"^Tensor c is not of type Variable"):
        made.write_variable_data(c, np.float32(2))
    with pytest.raises(TypeError, match=r"dtype"):
        made.write_variable_data(w, np.float64(2))
    with pytest.raises(ValueError, match=r"shape"):
        made.write_variable_data(w, np.zeros(2, np.float32))
    with pir.Ir().main_graph():
        other = pir.variable(1)
    with pytest.raises(ValueError, match=r"not of this session's Ir"):
        made.get_tensor_data(other)


def test_an_update_that_does_not_fit_is_refused_by_the_session() -> None:
    """PopART records a sparse update along an axis that is not there; it can never run."""
    ir = pir.Ir()
    with ir.main_graph():
        t, x = pir.variable([2, 2]), pir.variable([2, 2])
        ops.var_updates.sparse_accumulate_(t, x, pir.constant([2]), 1)
    with pytest.raises(popart_exception, match=r"PopartSparseAccumulate.*axis 1 is out of range"):
        pir.Session(ir)


def test_devices_have_ipus() -> None:
    """A power of two; a CPU has one."""
    ir = pir.Ir()
    with ir.main_graph(), pir.ipu(2):
        _ = pir.variable(1.0) + 1
    with pytest.raises(ValueError, match=r"has one IPU, and this Ir needs 4"):
        pir.Session(ir, "cpu")
    with pytest.raises(ValueError, match=r"device_desc 'gpu'"):
        pir.Session(ir, "gpu")
    session = pir.Session(ir, "ipu_model")
    assert session.device.ipus == 4
    assert session.run() == {}
    session.device.detach()
    with pytest.raises(RuntimeError, match=r"already prepared"):
        ir.replication_factor = 2


def test_the_program_knows_the_lines_that_made_it(session: Any) -> None:
    """``ir.workbench`` is a program whose instructions come from lines of this file."""
    made, *_, graph = session
    program = made.ir.workbench
    assert graph.workbench is program.main
    sums = [i for i in program.main if i.name == "add"]
    assert all("ops.host_load(source)" in i.sources[0] for i in sums)
    assert program.source_nodes[sums[0].sources[0]].attributes.startswith(__file__)
    assert made.build.source is program
    assert program.output_names == ("target",)
    rows = {"source": np.ones((2, 3), np.float32), "w": np.float32(4)}
    values = made.build.values(rows, ["source", "add_out"])
    np.testing.assert_array_equal(values["add_out"], [5, 5, 5])


def test_placement_is_seen_beside_the_line_that_made_an_instruction():
    ir = pir.Ir()
    with ir.main_graph(), pir.ipu(1), pir.pipeline_stage(2):
        x = pir.variable(np.ones(3, np.float32))
        with pir.io_tiles():
            y = ops.negate(x)
        ops.io_tile_copy(y)
    found = {i.name: i.sources for i in ir.workbench.main if i.sources}
    (line,) = (name for name in found["neg"] if "[ipu 1, stage 2, io tiles]" in name)
    assert ir.workbench.source_nodes[line].scope == ("ipu 1", "stage 2", "io tiles")
    table = ir.main_graph().table()
    placed = table[["type", "ipu", "stage", "tiles"]]
    assert placed.to_numpy().tolist() == [["Neg", 1, 2, "io"], ["IoTileCopy", 1, 2, "compute"]]
    assert "ops.negate(x)" in table["line"].iloc[0]
