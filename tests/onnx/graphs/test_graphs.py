"""Random models of many operators give on every target what onnxruntime gives without its optimizer."""

import os

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, note, settings

import workbench as wb
from tests.gpu.harness import as_built
from tests.onnx.against_onnxruntime.agreement import Unsupported, peer
from tests.onnx.graphs import arithmetic, control, movement, sums
from tests.onnx.graphs.growing import STEPS, Value, models
from tests.profiles import IS_DEEP
from workbench.gpu.devices.registry import device

ROOMS = (arithmetic, control, movement, sums)
SLACK = 4
"""How much larger a difference may be than the bound of the roundings."""
EXAMPLES = {"ref": 3000, "cpu": 3000, "gpu": 500} if IS_DEEP else {"ref": 25, "cpu": 75, "gpu": 10}


def expect_the_same(found: np.ndarray, wanted: np.ndarray, value: Value) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape) == (value.type, value.lens)
    if value.grid:
        np.testing.assert_array_equal(found, wanted)
        return
    apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    assert (apart <= SLACK * value.error).all(), (
        f"{apart.max()} apart; at most {SLACK * value.error}"
    )


@pytest.mark.parametrize("target", EXAMPLES)
def test_a_model_computes_what_onnxruntime_computes(target: str):
    @settings(max_examples=EXAMPLES[target], suppress_health_check=list(HealthCheck))
    @given(made=models())
    def agrees(made: tuple[onnx.ModelProto, dict[str, np.ndarray], list[Value]]) -> None:
        model, inputs, outputs = made
        note(onnx.printer.to_text(model))
        onnx.checker.check_model(model, full_check=True)
        try:
            wanted = peer(model, inputs)
        except Unsupported:
            assume(False)
            return
        build = wb.compile(wb.parse_onnx(model), target, record=False)
        if target == "gpu":
            as_built(build, device(os.environ.get("WORKBENCH_DEVICE")))
        found = build.run(inputs).values()
        for one, other, value in zip(found, wanted, outputs, strict=True):
            expect_the_same(np.asarray(one), np.asarray(other), value)

    agrees()


def test_every_step_grows_models():
    grown = {name for room in ROOMS for name, made in vars(room).items() if made in STEPS}
    assert len(STEPS) > 40
    assert {rule.__name__ for rule in STEPS} == grown
