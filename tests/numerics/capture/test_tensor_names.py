"""Names of tensors: each leads to the instruction that computes what onnxruntime computes under that name."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench as wb
from tests.models.registry import MODELS, Inputs, Model
from tests.tf.graphs import Graph
from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.capture.tensor_names import module_values, node_values, tensor, tensors

CHECKED = [m for m in MODELS.values() if m.kind in ("small", "wheel") and not m.heavy]


def exposed(path: Path, inputs: Inputs) -> dict[str, Any]:
    """The values of all tensors of the main graph, computed by onnxruntime."""
    import onnxruntime

    model = onnx.load(path)
    known = {o.name for o in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip([o.name for o in peer.get_outputs()], peer.run(None, inputs), strict=True))


def computed(program: Program, inputs: Inputs) -> dict[Instruction, Any]:
    """The value of every instruction of the main module."""
    values: dict[Instruction, Any] = {
        i: i.literal.numpy() for i in program.main if i.literal is not None
    }
    values |= {p: inputs[name] for name, p in program.main.parameters.items()}

    def keep(instruction: Instruction, value: Any, _: object) -> None:
        values[instruction] = value

    Interpreter(program).run(inputs, hook=keep)
    return values


def agrees(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    if found.shape != wanted.shape:
        return False
    a, b = (np.asarray(x, np.float64).ravel() for x in (found, wanted))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return bool(same.all()) or Metric.RELATIVE_RMS.of(a, b) <= tolerance


def program_of(model: Model) -> Program:
    lens = {k: v.shape for k, v in model.inputs().items()}
    return wb.parse_onnx(model.path, map_input_dims=lens)


@pytest.mark.parametrize("model", CHECKED, ids=lambda m: m.name)
def test_every_tensor_of_onnxruntime_is_found(model: Model, tmp_path: Path):
    program, inputs = program_of(model), model.inputs()
    wanted = exposed(model.path, inputs)
    assert wanted.keys() <= tensors(program).keys()
    assert wrong(program, inputs, wanted, model.tolerance) == []
    assert wrong(without_notes(program, tmp_path), inputs, wanted, model.tolerance) == []


def wrong(program: Program, inputs: Inputs, wanted: dict[str, Any], tolerance: float) -> list[str]:
    """The names that lead to another value than onnxruntime's."""
    values, found = computed(program, inputs), tensors(program)
    names = wanted.keys() & found.keys()
    return [n for n in names if not agrees(values[found[n]], wanted[n], tolerance)]


@pytest.mark.parametrize("name", ["small_decoder", "magika", "blazeface128", "silero_16k_static"])
def test_nearly_all_names_are_found_without_notes(name: str, tmp_path: Path):
    program = program_of(MODELS[name])
    nodes = {n for node in program.source_nodes.values() for n in node.outputs}
    noted = tensors(program).keys() & nodes
    assert len(noted - tensors(without_notes(program, tmp_path)).keys()) <= 0.05 * len(noted)


def without_notes(program: Program, folder: Path) -> Program:
    """The program read from a file of MIGraphX's, which has no ids and so no notes."""
    wb.save(program, folder / "program.mxr")
    read = wb.load(folder / "program.mxr")
    assert isinstance(read, Program)
    assert not read.tensors
    return read


def program_with(nodes: list[onnx.NodeProto], outputs: list[str]) -> Program:
    """A model on one input, x, of 4 by 6 floats; the outputs have no declared type."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph(nodes, "g", [x], values)
    return wb.parse_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


@pytest.mark.parametrize("noted", [True, False])
def test_outputs_of_one_node_are_told_apart(noted: bool, tmp_path: Path):
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], name="split", axis=1),
        helper.make_node("Neg", ["b"], ["minus"]),
        helper.make_node("Exp", ["a"], ["grown"]),
        helper.make_node("Sub", ["grown", "minus"], ["y"], name="end"),
    ]
    program = program_with(nodes, ["y"])
    program = program if noted else without_notes(program, tmp_path)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    values = computed(program, {"x": x})
    found = tensors(program)
    assert np.array_equal(values[found["a"]], x[:, :3])
    assert np.array_equal(values[found["b"]], x[:, 3:])
    assert node_values(program)["split"] is found["a"]
    assert found["x"] is program.main.parameters["x"]


def test_what_is_not_certain_is_left_out(tmp_path: Path):
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], name="split", axis=1),
        helper.make_node("Sub", ["b", "a"], ["y"], name="end"),
    ]
    found = tensors(without_notes(program_with(nodes, ["y"]), tmp_path))
    assert found.keys() == {"x", "y"}


@pytest.mark.parametrize("noted", [True, False])
def test_names_of_tensorflow_are_in_its_layout(noted: bool, tmp_path: Path):
    graph = Graph()
    x = graph.given("x", 1, 4, 4, 6)
    graph.node("halves", "Split", graph.const("axis", 3), x, num_split=2)
    graph.node("negative", "Neg", "halves:1")
    program = wb.parse_tf(graph.bytes(), output_names=["negative"])
    program = program if noted else without_notes(program, tmp_path)
    assert tensors(program).keys() >= {"x", "negative"}
    inputs = {"x": np.arange(96, dtype=np.float32).reshape(1, 6, 4, 4)}
    values, found = computed(program, inputs), tensors(program)
    assert np.array_equal(values[found["negative"]], -inputs["x"][:, 3:])
    channels_last = inputs["x"].transpose(0, 2, 3, 1)
    assert np.array_equal(values[found["x:0"]], channels_last)
    assert np.array_equal(values[found["negative:0"]], -channels_last[..., 3:])
    if noted:
        assert np.array_equal(values[found["halves:1"]], channels_last[..., 3:])
        assert tensor(program, "halves") is found["halves:0"]
    else:
        assert found.keys() == {
            "x",
            "x:0",
            "negative",
            "negative:0",
            "axis:0",
        }  # which half is unclear


def test_names_survive_copies_and_files(tmp_path: Path):
    program = program_of(MODELS["small_cnn"])
    wb.save(program, tmp_path / "cnn.wb")
    names = {name: i.id for name, i in tensors(program).items()}
    for copy in (
        program.clone(),
        wb.load(tmp_path / "cnn.wb"),
        wb.compile(program).recording.first,
    ):
        assert isinstance(copy, Program)
        assert {name: i.id for name, i in tensors(copy).items()} == names


def test_a_name_whose_instruction_was_removed_is_left_out():
    program = program_with(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])], ["y"]
    )
    relu = tensors(program)["a"]
    program.main.replace(relu, program.main.parameters["x"])
    assert tensors(program).keys() == {"x", "y"}


def test_an_unknown_name_has_near_ones():
    program = program_of(MODELS["small_cnn"])
    assert tensor(program, "image") is program.main.parameters["image"]
    name = next(n.name for n in program.source_nodes.values() if n.op_type == "MaxPool")
    assert tensor(program, name).name == "pooling"
    with pytest.raises(GraphError, match=r"node or module 'logit'; did you mean 'logits'"):
        tensor(program, "logit")
    with pytest.raises(GraphError, match=r"no tensor, node or module 'z'$"):
        tensor(Program(), "z")


def test_the_result_of_a_module_is_that_of_its_last_node():
    program = program_of(MODELS["small_encoder"])
    found, names = module_values(program), tensors(program)
    modules = {"encoder.layer.0.feed_forward", "encoder.layer.1.attention", "encoder", "pooler"}
    assert modules <= found.keys()
    for module in modules:
        nodes = [n for n in program.source_nodes.values() if n.op_type != "Initializer"]
        inside = [n for n in nodes if f"{'.'.join(n.scope)}.".startswith(f"{module}.")]
        last = [names[n.outputs[0]] for n in inside][-1]
        assert found[module] in (last, *last.inputs)  # an output of the program is copied
    assert tensor(program, "pooler") is found["pooler"]


def test_scopes_of_sequences_are_those_of_pytorch():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="/layer1/layer1.0/act/Relu"),
        helper.make_node("Neg", ["a"], ["b"], name="/layer1/layer1.0/Neg"),
        helper.make_node("Exp", ["b"], ["c"], name="/layer1/layer1.1/act/Exp"),
        helper.make_node("Add", ["a", "c"], ["y"], name="/end/Add"),
    ]
    program = program_with(nodes, ["y"])
    found, names = module_values(program), tensors(program)
    wanted = {"layer1.0.act": "a", "layer1.1": "c", "layer1.1.act": "c", "end": "y"}
    assert found == {module: names[name] for module, name in wanted.items()}
    # two values leave layer1.0, and layer1: a and b, a and c
