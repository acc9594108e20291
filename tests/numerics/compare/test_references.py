"""References by name: arrays, files and onnxruntime; what does not fit the model is refused with a reason."""

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import workbench as wb
from tests.models.registry import MODELS, Model
from tests.numerics.capture.test_tensor_names import agrees, computed, program_of
from workbench.compiler.errors import EvaluationError, InputError, ModelError, OperationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.capture.tensor_names import tensor
from workbench.numerics.compare.references import named_values

RUN = [m for m in MODELS.values() if m.kind in ("small", "wheel") and not m.heavy]


def network(shape: Shape | None = None) -> Program:
    """A relu of x, as the node act and the tensor y; the program returns it."""
    program = Program("network")
    program.source_nodes["act"] = SourceNode("act", "Relu", (), ("x",), ("y",))
    x = program.main.add_parameter("x", shape or Shape("float", (2, 3)))
    with program.source("act"):
        y = program.main.add("relu", x)
    program.main.add_return(y)
    return program


VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)


# Arrays


@pytest.mark.parametrize("name", ["y", "act", "x"])
def test_arrays_are_known_by_tensor_and_by_node(name: str):
    assert named_values({name: VALUE.tolist()}, network())[name].tolist() == VALUE.tolist()


def test_arrays_are_known_by_module():
    program = program_of(MODELS["small_encoder"])
    value = np.zeros((1, 12, 32))
    assert named_values({"encoder.layer.0": value}, program).keys() == {"encoder.layer.0"}


def test_an_unknown_name_has_near_ones():
    with pytest.raises(InputError, match=r"node or module 'acts'; did you mean 'act'\?$"):
        named_values({"acts": VALUE}, network())
    with pytest.raises(InputError, match=r"'a' \(and 3 more such\); there are .*; skip_unknown"):
        named_values({**dict.fromkeys("abcd", VALUE), "y": VALUE}, network())


def test_unknown_names_are_skipped_on_request_unless_nothing_is_left():
    found = named_values({"y": VALUE, "else": VALUE}, network(), skip_unknown=True)
    assert found.keys() == {"y"}
    with pytest.raises(InputError, match="'else'"):
        named_values({"else": VALUE}, network(), skip_unknown=True)
    with pytest.raises(InputError, match="has no arrays"):
        named_values({}, network())


@pytest.mark.parametrize("value", [VALUE.T, VALUE[0], VALUE[:, :0], np.float32(1)])
def test_wrong_lens_are_named(value: Any):
    with pytest.raises(
        InputError, match=r"'y' has the lens \[.*\]; the program computes float_type"
    ):
        named_values({"y": value}, network())


def test_open_lengths_take_what_is_in_their_range():
    program = network(Shape.dynamic("float", (Dim(1, 4), Dim(3, 3))))
    assert named_values({"y": np.zeros((4, 3))}, program)["y"].shape == (4, 3)
    for lens in ((5, 3), (4, 2), (4,)):
        with pytest.raises(InputError, match="lens"):
            named_values({"y": np.zeros(lens)}, program)


@pytest.mark.parametrize("lens", [(), (0, 3)])
def test_rank_0_and_empty_arrays_fit(lens: tuple[int, ...]):
    program = network(Shape("float", lens))
    assert named_values({"y": np.full(lens, np.nan)}, program)["y"].shape == lens


@pytest.mark.parametrize(
    "value",
    [np.full((2, 3), "a"), np.full((2, 3), 1j), np.full((2, 3), None), np.zeros((2, 3), "f4,f4")],
    ids=lambda v: str(v.dtype),
)
def test_only_real_numbers_are_values(value: Array):
    with pytest.raises(InputError, match=r"'y' is an array of .*; expected real numbers"):
        named_values({"y": value}, network())


def test_what_is_no_reference_is_refused():
    with pytest.raises(OperationError, match=r"a reference is a list; expected arrays by name"):
        named_values([VALUE], network())  # pyright: ignore[reportArgumentType]
    with pytest.raises(OperationError, match=r"is a model; .* model='m\.onnx'"):
        named_values("m.onnx", network())
    with pytest.raises(InputError, match=r"no file onnxruntim; .*'onnxruntime'"):
        named_values("onnxruntim", network())


# Files


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_a_file_is_read(budget: int, tmp_path: Path):
    np.savez(tmp_path / "r.npz", y=VALUE, x=-VALUE)
    found = named_values(tmp_path / "r.npz", network(), budget=budget)
    assert found["y"].tolist() == VALUE.tolist()
    assert found["x"].tolist() == (-VALUE).tolist()
    assert isinstance(found, ValueStore)
    assert found.peak <= budget


def test_types_that_files_lose_are_restored(tmp_path: Path):
    value = VALUE.astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "r.npz", y=value)
    found = named_values(tmp_path / "r.npz", network(Shape("bf16", (2, 3))))["y"]
    assert found.dtype == value.dtype
    assert found.tolist() == value.tolist()
    with pytest.raises(InputError, match=r"array of \|V2; expected real numbers"):
        named_values(tmp_path / "r.npz", network())


def test_files_that_do_not_fit_are_refused(tmp_path: Path):
    path = tmp_path / "r.npz"
    with pytest.raises(InputError, match=r"no file .*r\.npz"):
        named_values(str(path), network())
    np.savez(path, y=np.array([object()]))
    with pytest.raises(InputError, match="Python objects"):
        named_values(path, network())
    np.savez(path, y=np.zeros((200, 300)))
    with pytest.raises(InputError, match=r"value 'y' of \[200, 300\] .* tensor float_type"):
        named_values(path, network())
    np.savez(path, y=VALUE, z=VALUE)
    with pytest.raises(InputError, match=r"r\.npz: .* 'z'"):
        named_values(path, network())
    assert set(named_values(path, network(), skip_unknown=True)) == {"y"}
    path.write_bytes(b"not a zip")
    with pytest.raises(InputError, match=r"expected an \.npz file"):
        named_values(path, network())


# onnxruntime


@pytest.mark.parametrize("model", RUN, ids=lambda m: m.name)
def test_onnxruntime_computes_every_tensor(model: Model):
    program, inputs = program_of(model), model.inputs()
    found = named_values("onnxruntime", program, inputs, model=model.path)
    nodes = {n for node in onnx.load(model.path).graph.node for n in node.output if n}
    assert set(found) == nodes
    values = computed(program, inputs)
    wrong = [n for n in found if not agrees(values[tensor(program, n)], found[n], model.tolerance)]
    assert wrong == []


@pytest.mark.parametrize("name", ["small_cnn", "small_external"])
def test_groups_give_the_same_values_in_little_memory(name: str):
    model = MODELS[name]
    program, inputs = wb.parse_onnx(model.path), model.inputs()
    whole = named_values("onnxruntime", program, inputs, model=model.path)
    budget = sum(v.nbytes for v in whole.values()) // 4
    parts = named_values("onnxruntime", program, inputs, model=model.path, budget=budget)
    assert isinstance(parts, ValueStore)
    assert parts.peak <= budget
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[n], parts[n]) for n in whole)


def test_missing_inputs_are_generated_from_the_seed():
    model = onnx.load(MODELS["small_cnn"].path)
    program = wb.parse_onnx(model)
    first, again, other = (
        named_values("onnxruntime", program, model=model, seed=seed)["logits"] for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_onnxruntime_without_what_it_needs_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    path = MODELS["small_cnn"].path
    program = wb.parse_onnx(path)
    with pytest.raises(OperationError, match="give it as model="):
        named_values("onnxruntime", program)
    with pytest.raises(ModelError, match="no such file"):
        named_values("onnxruntime", program, model=tmp_path / "absent.onnx")
    (tmp_path / "text.onnx").write_text("text")
    with pytest.raises(ModelError, match=r"text\.onnx: not an ONNX model"):
        named_values("onnxruntime", program, model=tmp_path / "text.onnx")
    with pytest.raises(InputError, match="no tensor in common"):
        named_values("onnxruntime", network(), model=path)
    with pytest.raises(EvaluationError, match="onnxruntime cannot run the model"):
        named_values("onnxruntime", program, {"image": np.zeros((1, 2), np.float32)}, model=path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(OperationError, match=r"pip install graph-workbench\[ort\]"):
        named_values("onnxruntime", program, model=path)


def test_an_input_that_became_a_constant_has_to_be_given():
    path, inputs = MODELS["small_cnn"].path, MODELS["small_cnn"].inputs()
    program = wb.parse_onnx(path, constant_inputs=inputs)
    with pytest.raises(
        InputError, match="input 'image', which is not one of the program's parameters"
    ):
        named_values("onnxruntime", program, model=path)
    assert "logits" in named_values("onnxruntime", program, inputs, model=path)
