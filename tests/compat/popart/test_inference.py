"""Sessions with a data flow and anchors, as PopART's first programs in ``popart.ir`` make them."""

from pathlib import Path

import numpy as np
import pytest

from tests.compat.popart.programs import as_script
from workbench.compat import popart
from workbench.compat.popart import __main__ as command
from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops
from workbench.knobs import knobs

SIMPLE = """
import numpy as np
import popart
import popart.ir as pir
import popart.ir.ops as ops

ir = pir.Ir()
with ir.main_graph():
    streams = [pir.h2d_stream([1], pir.float32) for _ in range(2)]
    a, b = [ops.host_load(s, n) for s, n in zip(streams, "ab")]
    o = ops.add(a, b)
    found = pir.d2h_stream(o.shape, o.dtype)
    ops.host_store(found, o)

low = ir._pb_ir
low.setDataFlow(popart.DataFlow(1, {found.tensor_id(): popart.AnchorReturnType("All")}))
low.getSessionOptions().useHostCopyOps = True
low.updateVertices()
session = popart.InferenceSession.fromIr(low, popart.DeviceManager().createCpuDevice())
session.prepareDevice()
anchors = session.initAnchorArrays()
data = [np.float32([k + 1]) for k in range(2)]
session.weightsFromHost()
session.run(popart.PyStepIO({s.tensor_id(): d for s, d in zip(streams, data)}, anchors))
assert anchors[found.tensor_id()] == 3
"""


def test_the_first_program_of_the_guide_runs_unchanged(tmp_path: Path) -> None:
    """As a script that imports popart."""
    path = tmp_path / "simple_addition.py"
    path.write_text(SIMPLE)
    with as_script():
        assert command.main([str(path)]) == 0


def test_batches_replicas_and_weights() -> None:
    """Rows for each batch and replica in any shape with as many elements; a variable that changes."""
    ir = pir.Ir()
    low = ir._pb_ir
    options = low.getSessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    assert ir.replication_factor == 2
    with ir.main_graph(), pir.in_sequence():
        source, target = (
            pir.h2d_stream((2,), pir.float32, "x"),
            pir.d2h_stream((2,), pir.float32, "y"),
        )
        w = pir.variable(np.zeros(2, np.float32), name="w")

        def step(w: pir.TensorByRef) -> None:  # pyright: ignore[reportInvalidTypeForm]
            ops.var_updates.accumulate_(
                w, ops.collectives.replicated_all_reduce(ops.host_load(source))
            )
            ops.host_store(target, w)

        ops.repeat(ir.create_graph(step, w), 3, w)
    low.setDataFlow(popart.DataFlow(3, {"y": popart.AnchorReturnType()}))
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    session = popart.InferenceSession.fromIr(low, device)
    with pytest.raises(popart.popart_exception, match=r"prepareDevice\(\) first"):
        session.initAnchorArrays()
    session.checkInplacingAmbiguity()
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    rows = np.arange(12, dtype=np.float32)
    session.run(popart.PyStepIO({"x": rows}, anchors))
    sums = rows.reshape(3, 2, 2).sum(1).cumsum(0)
    np.testing.assert_array_equal(anchors["y"], np.stack([sums, sums], 1))
    session.weightsToHost()
    np.testing.assert_array_equal(w.data, sums[-1])
    with pytest.raises(ValueError, match=r"Shape mismatch for input x"):
        session.run(popart.PyStepIO({"x": rows[:5]}, anchors))
    with pytest.raises(ValueError, match=r"Unexpected: \{'z'\}"):
        session.run(popart.PyStepIO({"z": rows}, anchors))


def test_anchors_are_streams_to_the_host() -> None:
    """Others are refused, and so are parts of the batches."""
    ir = pir.Ir()
    ir._pb_ir.setDataFlow(popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}))
    with pytest.raises(
        popart.popart_exception, match=r"anchor 'y': no operation stores to a stream"
    ):
        popart.InferenceSession.fromIr(ir._pb_ir, popart.DeviceManager().createCpuDevice())
    with pytest.raises(ValueError, match=r"expected 'All'"):
        popart.AnchorReturnType("Final")


def test_a_session_writes_its_last_checkpoint_when_it_is_made(tmp_path: Path) -> None:
    """Before a device is prepared, and also where patterns of PopART were applied."""
    ir = pir.Ir()
    low = ir._pb_ir
    low.getSessionOptions().dotChecks = {"FINAL"}
    low.getSessionOptions().logDir = str(tmp_path)
    for graph in low.getAllGraphs():
        low.applyPreAliasPatterns(graph)
        low.applyInplacePattern(graph)
    low.removeIsolatedGraphs()
    low.removeIsolatedTensors(True)
    popart.InferenceSession.fromIr(low, popart.DeviceManager().createCpuDevice())
    assert [p.name for p in tmp_path.iterdir()] == ["final_r.dot"]


def test_options_of_devices_are_recorded() -> None:
    """Modes, folders of models, and devices that do not exist here."""
    with knobs.scope(popart_cache_dir="models"):
        options = pir.Ir()._pb_ir.getSessionOptions()
    assert options.virtualGraphMode is popart.VirtualGraphMode.Manual
    assert (options.enableEngineCaching, options.cachePath) == (True, "models")
    assert not pir.Ir().options.enableEngineCaching
    devices = popart.DeviceManager()
    devices.setOnDemandAttachTimeout(1)
    assert devices.enumerateDevices(numIpus=1) == []
    with devices.createSimDevice({"numIPUs": 3, "tilesPerIPU": 4}) as device:
        assert device.ipus == 3
    with pytest.raises(popart.popart_exception, match=r"no 2 IPUs on this machine"):
        devices.acquireAvailableDevice(2, pattern=popart.SyncPattern.Full)


def test_programs_for_several_ipus_run_on_any_device() -> None:
    """Placement is recorded only, so a session with anchors takes the device of the processor too."""
    ir = pir.Ir()
    with ir.main_graph(), pir.ipu(2):
        ops.host_store(pir.d2h_stream((), pir.float32, "y"), pir.constant(2.0) * 3)
    ir._pb_ir.setDataFlow(popart.DataFlow(1, {"y": popart.AnchorReturnType()}))
    session = popart.InferenceSession.fromIr(ir._pb_ir, popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    assert anchors["y"] == 6
