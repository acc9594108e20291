"""Folders for Triton's Python backend: what its processes do with them, with a stand-in for its module."""

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    text_format,
)

import workbench as wb
from tests.compat.aitemplate.models import SIZE, meaning, near, scaled, some
from tests.test_cli import call
from workbench.compat.aitemplate import Model
from workbench.compat.triton import write_repository
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape

W, V = some(0, SIZE, SIZE), some(1, SIZE, SIZE)


class Request:
    def __init__(self, arrays: dict[str, np.ndarray], wanted: tuple[str, ...] = ()) -> None:
        self.arrays, self.wanted = arrays, wanted

    def requested_output_names(self) -> tuple[str, ...]:
        return self.wanted


def triton() -> ModuleType:
    """As much of Triton's module as its documentation promises to a model."""
    made: Any = ModuleType("triton_python_backend_utils")

    def tensor(name: str, array: np.ndarray) -> SimpleNamespace:
        assert array.flags.c_contiguous
        return SimpleNamespace(name=name, as_numpy=lambda: array)

    def found(request: Request, name: str) -> SimpleNamespace | None:
        return tensor(name, request.arrays[name]) if name in request.arrays else None

    class Response:
        def __init__(self, output_tensors: list[Any], error: Any = None) -> None:
            self.outputs = {t.name: t.as_numpy() for t in output_tensors}
            self.error = error

    made.Tensor, made.get_input_tensor_by_name, made.InferenceResponse = tensor, found, Response
    made.TritonError = str
    made.TritonModelException = type("TritonModelException", (Exception,), {})
    return made


def parsed(text: str) -> dict[str, Any]:
    """A configuration as protobuf reads it, by fields that Triton documents; others are errors."""
    types = [f"TYPE_{t}" for t in ["BOOL", "INT64", "FP16", "FP32"]]
    kinds = [f"KIND_{k}" for k in ["AUTO", "GPU", "CPU"]]
    proto = descriptor_pb2.FileDescriptorProto(name="config.proto", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for name, values in (("Type", types), ("Kind", kinds)):
        enum = proto.enum_type.add(name=name)
        for k, value in enumerate(values):
            enum.value.add(name=value, number=k)

    def message(called: str, /, **fields: Any) -> None:
        made = proto.message_type.add(name=called)
        for k, (key, (kind, many)) in enumerate(fields.items(), 1):
            label = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
            added = made.field.add(name=key, number=k, label=label)
            if isinstance(kind, str):
                added.type_name = f".{kind}"
                added.type = field.TYPE_ENUM if kind in ("Type", "Kind") else field.TYPE_MESSAGE
            else:
                added.type = kind

    text_, whole = (field.TYPE_STRING, False), (field.TYPE_INT64, False)
    message("Tensor", name=text_, data_type=("Type", False), dims=(field.TYPE_INT64, True))
    message("Group", count=whole, kind=("Kind", False))
    message("Value", string_value=text_)
    message("Entry", key=text_, value=("Value", False))
    message(
        "Config", name=text_, backend=text_, max_batch_size=whole, input=("Tensor", True),
        output=("Tensor", True), instance_group=("Group", True), parameters=("Entry", True),
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    config = message_factory.GetMessageClass(pool.FindMessageTypeByName("Config"))()
    text_format.Parse(text, config)
    found = json_format.MessageToDict(config, preserving_proto_field_name=True)
    return found | {"parameters": {e["key"]: e["value"] for e in found["parameters"]}}


@pytest.fixture(autouse=True)
def pb_utils(monkeypatch) -> ModuleType:
    made = triton()
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def serve(folder: Path) -> Any:
    """An instance, started as the Python backend starts one."""
    spec = importlib.util.spec_from_file_location("model", folder / "1" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.TritonPythonModel()
    config = parsed((folder / "config.pbtxt").read_text())
    made.initialize(
        {
            "model_config": json.dumps(config),
            "model_instance_kind": "CPU",
            "model_instance_device_id": "0",
        }
    )
    return made


@pytest.fixture
def instance(tmp_path):
    with Model.of(scaled(), ["y"], {"w": W, "v": V}, target="gpu") as model:
        folder = write_repository(model, tmp_path, "scaled", runtimes=3)
    made = serve(folder)
    yield made
    made.finalize()


def test_outputs_are_those_of_the_reference_and_need_no_compiler(tmp_path, monkeypatch):
    with Model.of(scaled(), ["y"], {"w": W, "v": V}, target="gpu") as model:
        folder = write_repository(model, tmp_path, "scaled")
        compiler = model.build.runner.here().compiler

    def refuse(*_: Any) -> None:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr(type(compiler), "compile", refuse)
    made = serve(folder)
    x = some(2, 4, SIZE)
    (response,) = made.execute([Request({"x": x})])
    assert response.error is None
    near(response.outputs["y"], meaning(x, W, V))
    made.finalize()


def test_requests_at_once_get_their_own_results(instance):
    xs = [some(k, 4, SIZE) for k in range(40)]

    def ask(k: int) -> list[Any]:
        return instance.execute([Request({"x": xs[k]}), Request({"x": xs[k + 1]}, ("y",))])

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(ask, range(39)))
    for k, responses in enumerate(found):
        for x, response in zip(xs[k : k + 2], responses, strict=True):
            near(response.outputs["y"], meaning(x, W, V))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request({}), "no input 'x'; inputs are x"),
        (Request({"x": some(1, 3, SIZE)}), "x"),
        (Request({"x": some(1, 4, SIZE).astype(np.float64)}), "Got wrong dtype"),
        (Request({"x": some(1, 4, SIZE)}, ("z",)), "no output is called 'z'; outputs are y"),
    ],
)
def test_an_error_is_that_of_one_request(instance, request_, said):
    x = some(2, 4, SIZE)
    wrong, right = instance.execute([request_, Request({"x": x})])
    assert said in wrong.error
    assert not wrong.outputs
    near(right.outputs["y"], meaning(x, W, V))


def test_the_configuration_has_types_and_lengths(tmp_path):
    program = Program("kinds")
    main = program.main
    rows = main.add_parameter("rows", Shape.dynamic("half", [Dim(1, 4, name="n"), 3]))
    one = main.add_parameter('a "name" \\ \n ü', Shape("int64", ()))
    main.add_return(main.add("add", rows, rows), main.add("add", one, one))
    build = wb.compile(program, "cpu")
    folder = write_repository(build, tmp_path, "kinds", 2)
    config = parsed((folder / "config.pbtxt").read_text())
    assert config["input"] == [
        {"name": "rows", "data_type": "TYPE_FP16", "dims": ["-1", "3"]},
        {"name": 'a "name" \\ \n ü', "data_type": "TYPE_INT64", "dims": ["1"]},
    ]
    assert [t["dims"] for t in config["output"]] == [["-1", "3"], ["1"]]
    assert config["instance_group"] == [{"count": "1", "kind": "KIND_CPU"}]
    made = serve(folder)
    given = {"rows": some(0, 2, 3).astype(np.float16), 'a "name" \\ \n ü': np.array([21])}
    (response,) = made.execute([Request(given)])
    assert response.error is None
    doubled, answer = response.outputs.values()
    np.testing.assert_array_equal(doubled, 2 * given["rows"])
    assert answer.tolist() == [42]
    made.finalize()


def test_what_cannot_be_served_is_refused(tmp_path):
    model = Model.of(scaled(), ["y"], {"w": W}, ["v"], target="cpu")
    with pytest.raises(OperationError, match="constant 'v' is unbound"):
        write_repository(model, tmp_path, "scaled")
    model.close()
    build = wb.compile(scaled(), "cpu")
    for name in ("../up", ".hidden", "a b", "x" * 300):
        with pytest.raises(OperationError, match="cannot be a folder"):
            write_repository(build, tmp_path, name)
    with pytest.raises(OperationError, match="runtimes: expected at least 1"):
        write_repository(build, tmp_path, "x", 0)
    wide = Program("wide")
    x = wide.main.add_parameter("x", Shape("bf16", (2,)))
    wide.main.add_return(wide.main.add("add", x, x))
    with pytest.raises(OperationError, match="no arrays of bf16"):
        write_repository(wb.compile(wide, "cpu"), tmp_path, "wide")
    assert not list(tmp_path.iterdir())


def test_a_damaged_folder_says_so_when_it_is_loaded(tmp_path, pb_utils):
    folder = write_repository(wb.compile(scaled(), "cpu"), tmp_path, "scaled")
    (folder / "1" / "model" / "model.mxr").write_bytes(b"nothing")
    with pytest.raises(pb_utils.TritonModelException, match=r"model"):
        serve(folder)


def test_the_command_writes_it(tmp_path, capsys):
    path = tmp_path / "scaled.onnx"
    wb.to_onnx(scaled(), path)
    assert call("export", str(path), "--serve", str(tmp_path / "models"), "--target", "cpu") == 0
    assert "tritonserver --model-repository" in capsys.readouterr().out
    made = serve(tmp_path / "models" / "scaled")
    x = some(2, 4, SIZE)
    (response,) = made.execute([Request({"x": x, "w": W, "v": V})])
    (found,) = response.outputs.values()
    near(found, meaning(x, W, V))
    made.finalize()
    assert call("export", str(path)) == 2
