"""Models read, written and run by onnxruntime give what the original gives, before and after passes."""

from typing import Any

import numpy as np
import onnx
import pytest

import workbench as wb
from tests.models.registry import MODELS, Inputs, Model
from tests.models.test_models import expected, relative_rms
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.pipelines import PIPELINES

# Kernels that onnxruntime chooses by the operators around it, over random weights, differ by more than 1e-6.
TOLERANCE = {"light": 2e-6}
OF_CPU = {"small_encoder", "small_cnn", "small_branches", "small_scan"}


def subjects() -> list[Any]:
    """The models; trained and light ones that take a second are left to `make models`."""
    quick = {"small", "wheel"}
    marks = {False: [pytest.mark.models], True: []}
    return [pytest.param(m, id=m.name, marks=marks[m.kind in quick]) for m in MODELS.values()]


def run(model: onnx.ModelProto, inputs: Inputs) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return peer.run(None, {i.name: inputs[i.name] for i in peer.get_inputs()})


def expect_equal(model: Model, program: wb.Program) -> None:
    made = wb.to_onnx(program)
    onnx.checker.check_model(made, full_check=True)
    names, wanted = expected(model.name)
    assert tuple(o.name for o in made.graph.output) == names
    for found, want in zip(run(made, model.inputs()), wanted, strict=True):
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        assert relative_rms(found, want) <= TOLERANCE.get(model.kind, 1e-6)


@pytest.mark.parametrize("model", subjects())
def test_a_model_written_again_is_the_model_before_and_after_passes(model: Model):
    expect_equal(model, wb.parse_onnx(model.path))
    fixed = wb.parse_onnx(
        model.path, map_input_dims={k: v.shape for k, v in model.inputs().items()}
    )
    for name in ("optimize", "gpu"):
        program = fixed.clone()
        run_pass(PIPELINES[name], program)
        expect_equal(model, program)
    if model.name in OF_CPU:
        expect_equal(model, wb.compile(fixed, "cpu").program)
