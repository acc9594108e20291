"""Runs on a CPU's OpenCL, whose inputs and results are one copy each in the host's memory."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.builds.build import Build
from workbench.compiler.errors import DeviceError, InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.progress import progress_to
from workbench.gpu.devices.base import Device, Stream
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.runner import DeviceRunner

TURNED = Shape("float", (3, 4), (1, 3))


def made(device: Device) -> Build:
    """A program with results in both orders of axes, one of them a parameter, one without elements."""
    if not device.dialect.machine.is_cpu:
        pytest.skip("the device's memory is not the host's")
    program = Program()
    main = program.main
    x, y = main.add_parameter("x", TURNED), main.add_parameter("y", Shape("float", (3, 4)))
    total = main.add("add", x, y)
    none = main.add("slice", total, axes=(0,), starts=(1,), ends=(1,))
    main.add_return(total, main.add("transpose", total, permutation=(1, 0)), x, none)
    return wb.compile(program, "gpu", device=device.spec, record=False)


def executable(build: Build) -> Executable:
    assert isinstance(build.runner, DeviceRunner)
    return build.runner.executable()


def test_results_are_the_callers_own_in_every_layout(device: Device):
    build = made(device)
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4), np.float32)
    first, second = (build.runner.run({"x": f * x, "y": y}) for f in (1, 2))
    assert executable(build)._in_place is not None
    for results, factor in ((first, 1), (second, 2)):
        total, turned, same, none = results
        np.testing.assert_array_equal(total, factor * x + y)
        np.testing.assert_array_equal(turned, total.T)
        np.testing.assert_array_equal(same, factor * x)
        assert none.shape == (0, 4)
    second[0][...] = 0
    np.testing.assert_array_equal(second[1], (2 * x + y).T)


def test_a_listener_hears_of_every_step_and_gets_the_same(device: Device):
    build = made(device)
    x, y = np.ones((2, 3, 4), np.float32)
    alone = build.runner.run({"x": x, "y": y})
    heard: list[int] = []
    with progress_to(lambda _what, done, _of: heard.append(done)):
        told = build.runner.run({"x": x, "y": y})
    assert heard == list(range(len(executable(build).plan.steps)))
    for a, b in zip(alone, told, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_error_of_a_launch_names_the_instruction(device: Device):
    build = made(device)
    direct = executable(build)._in_place
    assert direct is not None

    def refuse(_: Stream = None) -> None:
        raise DeviceError("out of resources")

    direct._starts[-1] = refuse
    zeros = np.zeros((3, 4), np.float32)
    with pytest.raises(DeviceError, match=r"#\d+ .*: kernel \w+: out of resources"):
        build.runner.run({"x": zeros, "y": zeros})


def test_a_run_waits_once_unless_something_was_launched_since(
    device: Device, monkeypatch: pytest.MonkeyPatch
):
    build = made(device)
    given = {"x": np.ones((3, 4), np.float32), "y": np.ones((3, 4), np.float32)}
    build.runner.run(given)
    waits: list[object] = []
    wait = device.wait

    def counted(event: object) -> None:
        waits.append(event)
        wait(event)

    monkeypatch.setattr(device, "wait", counted)
    build.runner.run(given)
    assert len(waits) == 1
    executable(build).again()
    build.runner.run(given)
    assert len(waits) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": np.zeros((4, 3), np.float32)},
        {"x": np.zeros((3, 4))},
        {"x": np.zeros((3, 4), ">f4")},
        {"z": np.zeros((3, 4), np.float32)},
    ],
)
def test_inputs_that_do_not_fit_are_refused_after_those_that_did(
    device: Device, wrong: dict[str, np.ndarray]
):
    build = made(device)
    given = {"x": np.ones((3, 4), np.float32), "y": np.ones((3, 4), np.float32)}
    build.runner.run(given)
    with pytest.raises(InputError):
        build.runner.run(given | wrong)
    with pytest.raises(InputError):
        build.runner.run({"x": given["x"]})


def test_an_input_that_is_no_array_is_converted(device: Device):
    build = made(device)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    direct = executable(build)._in_place
    assert direct is not None
    assert direct.fits({"x": x, "y": x})
    assert not direct.fits({"x": x, "y": np.asfortranarray(x).view(np.matrix)})
    total, *_ = build.runner.run({"x": x, "y": x.view(np.matrix)})
    np.testing.assert_array_equal(total, 2 * x)


def test_an_input_of_stride_0_is_checked_each_time(device: Device):
    if not device.dialect.machine.is_cpu:
        pytest.skip("the device's memory is not the host's")
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3, 4), (0, 1)))
    program.main.add_return(program.main.add("neg", x))
    runner = wb.compile(program, "gpu", device=device.spec, record=False).runner
    rows = np.broadcast_to(np.arange(4, dtype=np.float32), (3, 4))
    for _ in range(2):
        np.testing.assert_array_equal(runner.run({"x": rows})[0], -rows)
        with pytest.raises(InputError, match="stride 0"):
            runner.run({"x": np.arange(12, dtype=np.float32).reshape(3, 4)})
