"""Models written again mean the same, and run as exactly in onnxruntime, before and after passes."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import workbench as wb
from tests.models.registry import MODELS, Inputs, Model
from tests.models.test_models import relative_rms
from workbench.compiler.ir.shape import Dim
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import Interpreter

OF_CPU = {"small_encoder", "small_cnn", "small_branches", "small_scan"}

# What onnxruntime gives for a model and for what is written of it differs as two roundings of one
# result do: by up to the sum of their errors. So each is compared with the exact result.
INPUTS = 4  # an error of one input says little where few elements of the result are large
FACTOR = 2  # of the original's error; measured: 0.55 to 1.21
DIGIT = 2.0**-23
# In float64 what is written equals the model; passes may round each weight once more.
EXACT = 1e-12
ROUNDED = 5 * 2.0**-24  # measured: up to 2.5e-7, in ResNet-50, whose 53 norms go into weights


def subjects() -> list[Any]:
    """The models; trained and light ones that take a second are left to `make models`."""
    quick = {"small", "wheel"}
    marks = {False: [pytest.mark.models], True: []}
    return [pytest.param(m, id=m.name, marks=marks[m.kind in quick]) for m in MODELS.values()]


def varied(inputs: Inputs) -> list[Inputs]:
    """The inputs, and some whose floats differ from them by a thousandth, if there are floats."""
    random = np.random.default_rng(0)
    if not any(v.dtype == np.float32 for v in inputs.values()):
        return [inputs]
    return [inputs] + [
        {k: v if v.dtype != np.float32 else _near(v, random) for k, v in inputs.items()}
        for _ in range(INPUTS - 1)
    ]


def _near(value: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return (value * (1 + 1e-3 * random.standard_normal(value.shape))).astype(value.dtype)


class Peer:
    """onnxruntime's session of a model."""

    def __init__(self, model: str | bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self.names = tuple(o.name for o in self.session.get_outputs())

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        return self.session.run(None, {i.name: inputs[i.name] for i in self.session.get_inputs()})


@dataclass
class Yardstick:
    """The exact results of a model, and how far onnxruntime is from them."""

    inputs: list[Inputs]
    exact: list[list[np.ndarray]]
    names: tuple[str, ...]
    given: list[np.ndarray]
    errors: list[float]

    @classmethod
    def of(cls, model: str | onnx.ModelProto, inputs: list[Inputs]) -> "Yardstick":
        exact = [in_float64(parsed(model, inputs[0]), one) for one in inputs]
        peer = Peer(model if isinstance(model, str) else model.SerializeToString())
        found = [peer.run(one) for one in inputs]
        return cls(inputs, exact, peer.names, found[0], errors(found, exact))

    def expect_as_exact(self, program: wb.Program, rounded: float = EXACT) -> None:
        """Writes a program: that means the same, and is computed no worse than the model."""
        made = wb.to_onnx(program)
        onnx.checker.check_model(made, full_check=True)
        meant = in_float64(parsed(made, self.inputs[0]), self.inputs[0])
        assert max(errors([meant], self.exact[:1])) <= rounded
        peer = Peer(made.SerializeToString())
        assert peer.names == self.names
        found = [peer.run(one) for one in self.inputs]
        for one, given in zip(found[0], self.given, strict=True):
            assert (one.shape, one.dtype) == (given.shape, given.dtype)
        for error, own in zip(errors(found, self.exact), self.errors, strict=True):
            assert error <= FACTOR * own + DIGIT


def parsed(model: str | onnx.ModelProto, inputs: Inputs) -> wb.Program:
    return wb.parse_onnx(model, map_input_dims={k: v.shape for k, v in inputs.items()})


def in_float64(program: wb.Program, inputs: Inputs) -> list[np.ndarray]:
    given = {name: inputs[name] for name in program.parameters}
    return [np.asarray(x) for x in Interpreter(program, float64=True).run(given)]


def errors(found: list[list[np.ndarray]], exact: list[list[np.ndarray]]) -> list[float]:
    """The relative error of each output, over all inputs."""
    each = [list(map(relative_rms, a, b)) for a, b in zip(found, exact, strict=True)]
    return [float(np.sqrt(np.mean(np.square(one)))) for one in zip(*each, strict=True)]


@lru_cache(maxsize=1)
def yardstick(name: str) -> Yardstick:
    return Yardstick.of(str(MODELS[name].path), varied(MODELS[name].inputs()))


@pytest.mark.parametrize("model", subjects())
def test_a_model_written_again_is_the_model_before_and_after_passes(model: Model):
    measure = yardstick(model.name)
    measure.expect_as_exact(wb.parse_onnx(model.path))
    fixed = parsed(str(model.path), model.inputs())
    for name in ("optimize", "gpu"):
        program = fixed.clone()
        run_pass(PIPELINES[name], program)
        measure.expect_as_exact(program, ROUNDED)
    if model.name in OF_CPU:
        measure.expect_as_exact(wb.compile(fixed, "cpu").program, ROUNDED)


def expect_written(model: onnx.ModelProto, inputs: Inputs, **options: Any) -> wb.Program:
    """After the passes for a device, what is written means the same and is computed as exactly."""
    program = wb.parse_onnx(model, **options)
    run_pass(PIPELINES["gpu"], program)
    Yardstick.of(model, varied(inputs)).expect_as_exact(program, ROUNDED)
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
