"""Models read, written and run by onnxruntime give what the original gives, before and after passes."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import workbench as wb
from tests.models.registry import MODELS, Inputs, Model
from tests.models.test_models import expected, relative_rms
from workbench.compiler.ir.shape import Dim
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


def expect_written(model: onnx.ModelProto, inputs: Inputs, **options: Any) -> wb.Program:
    """After the passes for a device, onnxruntime computes the same of what is written."""
    program = wb.parse_onnx(model, **options)
    run_pass(PIPELINES["gpu"], program)
    made = wb.to_onnx(program)
    onnx.checker.check_model(made, full_check=True)
    for found, want in zip(run(made, inputs), run(model, inputs), strict=True):
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        assert relative_rms(found, want) <= 1e-6
    return program


@pytest.mark.parametrize("operator", ["GRU", "RNN"])
def test_a_network_of_different_lengths_is_written_after_it_was_rewritten(operator: str):
    random = np.random.default_rng(0)
    rows = 9 if operator == "GRU" else 3
    tensors = [
        onnx.numpy_helper.from_array(random.standard_normal(lens, np.float32), name)
        for name, lens in (("w", (2, rows, 4)), ("r", (2, rows, 3)), ("b", (2, 2 * rows)))
    ]
    node = helper.make_node(
        operator,
        ["x", "w", "r", "b", "lens"],
        ["y", "last"],
        hidden_size=3,
        direction="bidirectional",
    )
    values = [
        helper.make_tensor_value_info("x", 1, [4, 3, 4]),
        helper.make_tensor_value_info("lens", 6, [3]),
    ]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in ("y", "last")]
    graph = helper.make_graph([node], "g", values, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = random.standard_normal((4, 3, 4), np.float32)
    program = expect_written(model, {"x": x, "lens": np.array([0, 3, 4], np.int32)})
    assert "rnn_var_sl_shift_output" in {i.name for i in program.main}


def test_a_choice_by_lengths_is_written():
    values = [helper.make_tensor_value_info(n, 1, ["batch", 4]) for n in "xy"]
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    for batch in (1, 2, 3):
        inputs = {"x": np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)}
        program = expect_written(model, inputs, dim_params={"batch": Dim(1, 3)})
        assert "select_module" in {i.name for i in program.main}
