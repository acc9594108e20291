"""Differences from onnxruntime that can be a rounding, and those that cannot."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx.nnsmith import compare


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``y = exp(x)``, and whether 0.5 is less."""
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node("Less", ["half", "y"], ["b"])]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in "xy")
    b = helper.make_tensor_value_info("b", onnx.TensorProto.BOOL, [4])
    half = onnx.numpy_helper.from_array(np.float32(0.5), "half")
    graph = helper.make_graph(nodes, "g", [x], [y, b], [half])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    path = tmp_path / "0.onnx"
    onnx.save(made, path)
    np.savez(path.with_suffix(".npz"), x=np.log([1, 2, 0.25, 0.5]).astype(np.float32))
    return path


def test_a_model_agrees(model: Path):
    assert compare.compared(model, ["ref", "cpu"]) == {"ref": "", "cpu": ""}


def test_a_wrong_number_is_a_problem(model: Path, monkeypatch: pytest.MonkeyPatch):
    peer = compare.peer
    monkeypatch.setattr(compare, "peer", lambda m, x: [v * 1.01 for v in peer(m, x)])
    assert "4 of 4 elements, first [0]: 1.0 for 1.00" in compare.compared(model, ["ref"])["ref"]


def test_the_other_side_of_a_comparison_is_a_rounding(model: Path, monkeypatch: pytest.MonkeyPatch):
    def peer(_: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        y = np.exp(inputs["x"]) + np.float32(1e-7)
        return [y, np.less(0.5, y)]

    monkeypatch.setattr(compare, "peer", peer)
    assert compare.compared(model, ["ref"]) == {"ref": ""}


def test_a_reference_that_fails_is_a_problem_of_every_target(
    model: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> None:
        raise LookupError("planted")

    monkeypatch.setattr(compare, "sure", fails)
    assert compare.compared(model, ["cpu"]) == {"cpu": "on the reference, LookupError: planted"}
