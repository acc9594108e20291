"""Several executions of one compiled program at once: what they share, what they do not, and their end."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.builds.constant_part import split
from workbench.compiler.errors import DeviceError, InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.base import Device
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.runner import DeviceRunner

TABLE = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


def scaled() -> Program:
    program = Program("scaled")
    main = program.main
    x, w = (main.add_parameter(n, Shape("float", (8, 8))) for n in "xw")
    product = main.add("dot", x, main.add("mul", w, w))
    main.add_return(main.add("dot", product, main.add_literal(TABLE)))
    return program


def runner_of(program: Program, device: Device) -> DeviceRunner:
    runner = wb.compile(program, "gpu", device=device.spec, record=False).runner
    assert isinstance(runner, DeviceRunner)
    return runner


def meaning(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x @ (w * w) @ TABLE


def test_runtimes_share_kernels_and_weights_and_overlap_in_streams(device: Device):
    runner = runner_of(scaled(), device)
    x, w = np.random.default_rng(0).standard_normal((2, 8, 8), np.float32)
    weight = DeviceArray.of(runner.here(), w)
    runtimes = [runner.runtime(["w"]) for _ in range(3)]
    assert len({id(r.loaded) for r in runtimes}) == 1
    results = [DeviceArray(runner.here(), Shape("float", (8, 8))) for _ in runtimes]
    events: list[Any] = []
    for k, (runtime, result) in enumerate(zip(runtimes, results, strict=True)):
        runtime.bind({"w": weight})
        events.append(runtime.start({"x": x * (k + 1)}, {0: result}, runner.here().stream()))
    for k, (event, result) in enumerate(zip(events, results, strict=True)):
        runner.here().wait(event)
        assert runner.here().is_done(event)
        np.testing.assert_allclose(result.numpy(), meaning(x * (k + 1), w), rtol=1e-4, atol=1e-4)


def test_a_bound_weight_is_replaced_for_the_next_run(device: Device):
    runner = runner_of(scaled(), device)
    here, runtime = runner.here(), runner.runtime(["w"])
    x, one, other = np.random.default_rng(1).standard_normal((3, 8, 8), np.float32)
    result = DeviceArray(here, Shape("float", (8, 8)))
    for w in (one, other):
        runtime.bind({"w": DeviceArray.of(here, w)})
        here.wait(runtime.start({"x": DeviceArray.of(here, x)}, {0: result}))
        np.testing.assert_allclose(result.numpy(), meaning(x, w), rtol=1e-4, atol=1e-4)
    here.wait(runtime.launch())
    np.testing.assert_array_equal(runtime.download(0), result.numpy())


def test_closing_waits_for_a_run_and_returns_the_memory(device: Device):
    runner = runner_of(scaled(), device)
    here = runner.here()
    first = runner.runtime()
    before = here.in_use
    runtime = runner.runtime()
    x = np.ones((8, 8), np.float32)
    for _ in range(20):
        runtime.start({"x": x, "w": x}, stream=here.stream())
    runtime.close()
    assert here.in_use == before
    with pytest.raises(DeviceError, match="closed"):
        runtime.start({"x": x, "w": x})
    first.start({"x": x, "w": x})
    np.testing.assert_allclose(first.download(0), meaning(x, x), rtol=1e-5)


def test_what_is_not_bound_or_does_not_fit_is_refused(device: Device):
    runner = runner_of(scaled(), device)
    runtime = runner.runtime(["w"])
    with pytest.raises(DeviceError, match=r"'w'.*found none"):
        runtime.bind({})
    with pytest.raises(DeviceError, match="'w'"):
        runtime.bind({"w": DeviceArray.of(runner.here(), np.ones((2, 2), np.float32))})
    runtime.bind({"w": DeviceArray.of(runner.here(), np.ones((8, 8), np.float32))})
    with pytest.raises(InputError, match="'x'"):
        runtime.start({"x": np.ones((2, 8), np.float32)})


def test_the_constant_part_and_the_rest_compute_the_same_as_the_whole():
    program = scaled()
    parts = split(program, ["w"])
    assert parts.constant is not None
    assert list(parts.constant.parameters) == ["w"]
    assert set(parts.rest.parameters) == {"x", *parts.folded}
    x, w = np.random.default_rng(2).standard_normal((2, 8, 8), np.float32)
    folded = wb.compile(parts.constant, "ref").run({"w": w}).outputs
    given = dict(zip(parts.folded, folded, strict=True))
    (found,) = wb.compile(parts.rest, "ref").run({"x": x, **given}).outputs
    np.testing.assert_allclose(found, meaning(x, w), rtol=1e-4, atol=1e-4)


def test_a_constant_that_is_read_as_it_is_stays_a_parameter():
    program = Program("sum")
    x, w = (program.main.add_parameter(n, Shape("float", (4,))) for n in "xw")
    program.main.add_return(program.main.add("add", x, w))
    parts = split(program, ["w"])
    assert parts.constant is None
    assert set(parts.rest.parameters) == {"x", "w"}
