"""Runs without copies that replay a graph of launches: on copies of what the caller lends."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.graphs import Graphs
from workbench.compiler.errors import InputError
from workbench.gpu.devices.opencl import OpenCLDevice
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run import lent
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.executable import Executable

LENS = (300, 70)


@pytest.fixture
def device() -> OpenCLDevice:
    return OpenCLDevice()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Graphs:
    return Graphs(monkeypatch)


def executable(device: OpenCLDevice) -> Executable:
    """tanh(x + y), its transpose, and y as it is."""
    program = wb.Program()
    m = program.main
    x, y = (m.add_parameter(n, wb.Shape("float", LENS)) for n in "xy")
    made = m.add("tanh", m.add("add", x, y))
    turned = m.add("contiguous", m.add("transpose", made, permutation=(1, 0)))
    m.add_return(made, turned, y)
    return Executable(lower(program, device.dialect), device)


def given(seed: int) -> dict[str, np.ndarray]:
    drawn = np.random.default_rng(seed).standard_normal((2, *LENS)).astype(np.float32)
    return dict(zip("xy", drawn, strict=True))


def expect(found: list[DeviceArray], inputs: dict[str, Any], stream: Any = None) -> None:
    made = np.tanh(inputs["x"] + inputs["y"])
    for array, wanted in zip(found, (made, made.T, inputs["y"]), strict=True):
        np.testing.assert_allclose(array.numpy(stream), wanted, rtol=1e-6, atol=1e-6)


def test_runs_after_the_first_replay_one_graph_and_their_results_live_on(
    graphs: Graphs, device: OpenCLDevice
) -> None:
    run = executable(device)
    all_inputs = [given(seed) for seed in range(4)]
    found = []
    for number, inputs in enumerate(all_inputs):
        there = {"x": DeviceArray.of(device, inputs["x"])} if number % 2 else {}
        found.append(run.run_async({**inputs, **there}))
    for results, inputs in zip(found, all_inputs, strict=True):
        expect(results, inputs)
    assert (graphs.captures, graphs.replays) == (1, 3)
    for value, array in zip(run.run(all_inputs[0]), found[0], strict=True):
        np.testing.assert_array_equal(value, array.numpy())


def test_a_graph_is_replayed_in_any_stream(graphs: Graphs, device: OpenCLDevice) -> None:
    run = executable(device)
    streams = [device.stream(), None, device.stream()]
    found = [run.run_async(given(k), stream) for k, stream in enumerate(streams)]
    for number, (results, stream) in enumerate(zip(found, streams, strict=True)):
        expect(results, given(number), stream)
    assert (graphs.captures, graphs.replays) == (1, 2)


def test_many_bytes_beside_few_launches_are_not_copied(
    graphs: Graphs, device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lent, "COPIED_PER_LAUNCH", 16)
    run = executable(device)
    for number in range(3):
        expect(run.run_async(given(number)), given(number))
    assert graphs.captures == 0


def test_a_kernel_that_writes_into_an_input_writes_into_lent_memory(
    graphs: Graphs, device: OpenCLDevice
) -> None:
    program = wb.Program()
    x, y = (program.main.add_parameter(n, wb.Shape("float", LENS)) for n in "xy")
    program.main.add_return(program.main.add("copy", program.main.add("neg", x), y))
    run = Executable(lower(program, device.dialect), device)
    for number in range(3):
        inputs = given(number)
        target = DeviceArray.of(device, inputs["y"])
        (found,) = run.run_async({"x": inputs["x"], "y": target})
        assert found is target
        np.testing.assert_array_equal(target.numpy(), -inputs["x"])
    assert graphs.captures == 0


@pytest.mark.usefixtures("graphs")
def test_a_wrong_input_is_refused_before_anything_is_copied(device: OpenCLDevice) -> None:
    run = executable(device)
    expect(run.run_async(given(0)), given(0))
    with pytest.raises(InputError, match="'x'"):
        run.run_async({"x": np.zeros((2, 2), np.float32), "y": given(1)["y"]})
    expect(run.run_async(given(1)), given(1))
