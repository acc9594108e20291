"""A small model in a file, and calls of the driver in this process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench.compat.migraphx.driver import main


@dataclass(frozen=True)
class Called:
    """The result of one call of the driver."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests does not trace them."""
    import os

    for name in [n for n in os.environ if n.startswith("MIGRAPHX")]:
        monkeypatch.delenv(name)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls the driver."""

    def drive(*words: object) -> Called:
        capfd.readouterr()
        code = main([str(w) for w in words])
        found = capfd.readouterr()
        return Called(code, found.out, found.err)

    return drive


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """relu(x · w + 1), with the batch left open."""
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4) / 10, "w")
    one = numpy_helper.from_array(np.ones(4, np.float32), "one")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "first/MatMul"),
        helper.make_node("Add", ["product", "one"], ["sum"], "first/Add"),
        helper.make_node("Relu", ["sum"], ["y"], "last/Relu"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph(nodes, "small", [x], [y], [w, one])
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path
