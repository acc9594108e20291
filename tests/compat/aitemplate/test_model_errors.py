"""Every error that AITemplate's Model documents, with its reason."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from tests.compat.aitemplate.models import SIZE, room, scaled, some, there
from workbench.compat.aitemplate import (
    AITData,
    AITemplateError,
    AITemplateMemcpyKind,
    Model,
    dtype_size,
    dtype_str_to_enum,
)
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim

W, V, X = some(0, SIZE, SIZE), some(1, SIZE, SIZE), some(2, 4, SIZE)
NULL = AITData(0, [4, SIZE], "float32")
RUN = "Error in function: AITemplateModelContainerRun: "
SET = "Error in function: AITemplateModelContainerSetConstant: "


@pytest.fixture(scope="module", params=["gpu", "cpu"])
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    made = Model.of(scaled(Dim(2, 6)), ["y"], {"w": W}, ["v"], target=request.param)
    made.set_constant_with_tensor("v", V)
    with made:
        yield made


def with_(data: AITData, **changes: Any) -> AITData:
    return data._replace(**changes)


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "text"),
    [
        ([], ["y"], AITemplateError, RUN + "Got wrong number of inputs; expected 1, got 0"),
        (["x"], ["y", "y"], AITemplateError, "Got wrong number of outputs; expected 1, got 2"),
        (None, ["y"], AITemplateError, "inputs cannot be null"),
        (["x"], None, AITemplateError, "outputs cannot be null"),
        ({}, ["y"], ValueError, "Did not get correct number of inputs expected 1, got 0"),
        ({"z": "x"}, ["y"], ValueError, "Got unexpected input: z"),
        (["x"], {"z": "y"}, ValueError, "Got unexpected output: z"),
        (["x:float8"], ["y"], ValueError, "Got unsupported input dtype float8"),
        (["x:float16"], ["y"], AITemplateError, "param 0; expected kFloat, got kHalf"),
        (["x"], ["y:int64"], AITemplateError, "param 0; expected kFloat, got kLong"),
        (
            ["x:rank"],
            ["y"],
            AITemplateError,
            "Got wrong param shape for input 0; expected 2, got 1",
        ),
        (["x:low"], ["y"], AITemplateError, "in [2, 6], but got 1. Variable name: x_dim_0."),
        (["x:wide"], ["y"], AITemplateError, "in [8, 8], but got 9. Variable name: x_dim_1."),
        (["null"], ["y"], AITemplateError, "Constant x was not set! Set the value with"),
        (["x"], ["null"], AITemplateError, "Constant y was not set! Set the value with"),
        (["x"], ["y:small"], AITemplateError, "allocate outputs at get_output_maximum_shape()"),
    ],
)
def test_what_a_run_is_given(model: Model, inputs: Any, outputs: Any, error: Any, text: str):
    (x,), y = there(model, X), room(model)
    known = {
        "x": x, "y": y, "null": NULL, "x:float8": with_(x, dtype="float8"),
        "x:float16": with_(x, dtype="float16"), "y:int64": with_(y, dtype="int64"),
        "x:rank": with_(x, shape=[32]), "x:low": with_(x, shape=[1, 8]),
        "x:wide": with_(x, shape=[3, 9]), "y:small": with_(y, shape=[1, 8]),
    }  # fmt: skip

    def meant(given: Any) -> Any:
        if isinstance(given, dict):
            return {k: known[v] for k, v in cast("dict[str, str]", given).items()}
        return given and [known[g] for g in given]

    with pytest.raises(error) as caught:
        model.run(meant(inputs), meant(outputs))
    assert text in str(caught.value)


def test_tensors_are_contiguous_and_of_a_known_kind(model: Model):
    y = np.zeros((6, SIZE), np.float32)
    with pytest.raises(ValueError, match=r"inputs\[0\] failed check: contiguous and on GPU"):
        model.run_with_tensors([X[:, ::-1]], [y])
    with pytest.raises(ValueError, match=r"outputs\[0\] failed check: contiguous and on GPU"):
        model.run_with_tensors([X], [y.T])
    with pytest.raises(ValueError, match=r"inputs\[0\]: expected an array of NumPy"):
        model.run_with_tensors(["text"], [y])
    with pytest.raises(AITemplateError, match="expected kFloat, got double_type"):
        model.run_with_tensors([X.astype(np.float64)], [y])


class OnAnotherDevice:
    """A tensor of a device that has DLPack only."""

    def __dlpack__(self, **options: object) -> object:
        raise AssertionError("read")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_a_tensor_on_a_device_needs_its_array_interface(model: Model):
    with pytest.raises(NotImplementedError, match="__cuda_array_interface__"):
        model.run_with_tensors([OnAnotherDevice()], [np.zeros((6, SIZE), np.float32)])


def test_constants(model: Model):
    v = there(model, V)[0]
    for name, data, text in (
        ("u", v, SET + "Called SetConstant on u but can't find in either bound or unbound"),
        ("", v, "Constant name cannot be null"),
        ("v", NULL, "Tensor array cannot be null"),
        ("v", with_(v, shape=[4, 8]), "for unbound constant v: expected 256 but got 128. Check"),
        ("w", with_(v, shape=[4, 8]), "for bound constant w: expected 256 but got 128. Check"),
        ("v", with_(v, dtype="int32"), "expected kFloat, got kInt"),
    ):
        for call in (model.set_constant, model.set_double_buffer_constant):
            with pytest.raises(AITemplateError) as caught:
                call(name, data)
            assert text in str(caught.value)
    with pytest.raises(ValueError, match="Constant v must be contiguous and on the GPU"):
        model.set_constant_with_tensor("v", V.T)
    with pytest.raises(AITemplateError, match="Tensor array cannot be null"):
        model.set_constant_with_tensor("v", None)


def test_outputs_by_position_and_name(model: Model):
    with pytest.raises(ValueError, match="Name z not in OutputNameToIndexMap!"):
        model.get_output_maximum_shape("z")
    with pytest.raises(ValueError, match="there are 1 outputs"):
        model.get_output_dtype(1)
    with pytest.raises(TypeError, match="str or int"):
        model.get_output_maximum_shape(1.5)  # pyright: ignore[reportArgumentType]


def test_pointers_that_nothing_allocated():
    with Model.of(scaled(), ["y"], {"w": W, "v": V}, target="gpu") as model:
        x = there(model, X)[0]
        with pytest.raises(AITemplateError, match="is not in the memory of"):
            model.run([with_(x, data_ptr=12345)], [x])
        small, much = model.allocate_gpu_memory(4), np.zeros(1 << 16, np.uint8)
        with pytest.raises(AITemplateError, match="needs 65536"):
            model.memcpy(small, much, much.size, AITemplateMemcpyKind.HostToDevice)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"outputs": ["y", "z"]}, "2 output names; the program has 1"),
        ({"bound": {"u": W}}, "Cannot bind u"),
        ({"bound": {"w": W[:2]}}, "Cannot bind w: expected"),
        ({"bound": {"w": W.astype(np.float16)}}, "Cannot bind w: expected"),
        ({"unbound": ["w", "v"]}, "Tensor w is already bound!"),
        ({"num_runtimes": 0}, "num_runtimes must be positive, but got 0"),
    ],
)
def test_models_that_cannot_be_made(change: dict[str, Any], text: str):
    given: dict[str, Any] = {"outputs": ["y"], "bound": {"w": W}, "unbound": ["v"], "target": "cpu"}
    with pytest.raises(ValueError, match=text):
        Model.of(scaled(), **{**given, **change})


def test_files_that_are_no_models(tmp_path: Any):
    with pytest.raises(ModelError, match="no model"):
        Model(tmp_path)
    (tmp_path / "model.json").write_text('{"format": "other", "version": 1}')
    with pytest.raises(ModelError, match="'other'"):
        Model(tmp_path)
    (tmp_path / "model.json").write_text("[" * 100_000)
    with pytest.raises(ModelError, match="no model"):
        Model(tmp_path)
    with pytest.raises(ValueError, match="num_runtimes must be positive"):
        Model(tmp_path, num_runtimes=-1)


def test_types():
    assert [dtype_str_to_enum(n) for n in ("float16", "float", "int", "int64", "bool")] == [
        1, 2, 3, 4, 5,
    ]  # fmt: skip
    assert dtype_size("bfloat16") == 2
    with pytest.raises(ValueError, match="unsupported input dtype"):
        dtype_str_to_enum("complex64")
