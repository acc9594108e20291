"""Models of TensorFlow Lite as programs: values, names, quantized tensors, and files that are damaged."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.builds.models import read_model, reading_code
from workbench.compiler.errors import ModelError
from workbench.compiler.tflite import operators, parse_tflite, tflite_op
from workbench.compiler.tflite.registry import _HANDLERS

HERE = Path(__file__).parent
GOLDENS = np.load(HERE / "goldens.npz")
NAMES = sorted({key.partition("/")[0] for key in GOLDENS.files})
# TensorFlow Lite rounds means of integers in its own way: one step of the scale, which a sigmoid makes three.
TOLERANCES = {"mobile_dynamic": 2e-3, "residual_float_io": 3 / 255, "mobile_float_io": 1 / 255}
STEPS = {"mobile_int8": 1, "residual_int8": 3}
VARIABLE = "WORKBENCH_TENSORFLOW"


def model(name: str) -> bytes:
    return GOLDENS[f"{name}/model"].tobytes()


def differences(name: str, target: str, goldens=GOLDENS) -> list[str]:
    program = parse_tflite(goldens[f"{name}/model"].tobytes())
    inputs = {n: goldens[f"{name}/in{k}"] for k, n in enumerate(program.parameters)}
    wrong: list[str] = []
    for k, (label, found) in enumerate(wb.compile(program, target=target).run(inputs).items()):
        wanted, value = goldens[f"{name}/out{k}"], np.asarray(found)
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        scale = (
            max(1.0, np.abs(wanted.astype(float)).max(initial=0)) if wanted.dtype.kind == "f" else 1
        )
        off = np.abs(value.astype(float) - wanted.astype(float)).max(initial=0) / scale
        if off > STEPS.get(name, TOLERANCES.get(name, 1e-6)):
            wrong.append(f"{label}: {off}")
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_tensorflow_lite(name: str):
    assert differences(name, "ref") == []


@pytest.mark.parametrize("name", ["mobile", "residual", "residual_int8"])
def test_passes_keep_the_values(name: str):
    assert differences(name, "cpu") == []


def test_quantized_models_have_integers_where_the_file_has_them():
    program = parse_tflite(model("residual_int8"))
    kinds = [i.shape.type for i in program.main if i.literal is not None and i.shape.ndim == 4]
    assert wb.DType.INT8 in kinds
    counts = [i.name for i in program.main]
    assert counts.count("quantizelinear") >= 5
    assert counts.count("dequantizelinear") >= counts.count("quantizelinear")
    assert program.main.outputs[0].shape.type is wb.DType.INT8


def test_nodes_have_the_models_names_and_operators():
    program = parse_tflite(model("mobile"))
    kinds = [s.op_type for s in program.source_nodes.values()]
    assert kinds == ["CONV_2D", "DEPTHWISE_CONV_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX"]
    (convolution, _) = (i for i in program.main if i.name == "convolution")
    assert program.source_nodes[convolution.sources[0]].op_type == "CONV_2D"


def test_files_are_opened_by_their_suffix(tmp_path: Path):
    path = tmp_path / "net.tflite"
    path.write_bytes(model("pools"))
    assert read_model(path).name == "net.tflite"
    assert reading_code("net.tflite") == "wb.parse_tflite('net.tflite')"


def test_the_samples_try_most_operators():
    found = {s.op_type for n in NAMES for s in parse_tflite(model(n)).source_nodes.values()}
    left = set(operators()) - found
    assert len(found) > 60
    assert left <= {
        "ADD_N", "ATAN2", "RELU6", "DEQUANTIZE", "FILL", "HARD_SWISH", "LOGICAL_NOT", "LOGICAL_OR", "PRELU",
        "RELU_0_TO_1", "RELU_N1_TO_1", "SHAPE", "SQUEEZE", "EXPAND_DIMS", "POW", "SELECT_V2", "RSQRT",
        "L2_NORMALIZATION", "SQUARE", "ZEROS_LIKE", "BROADCAST_TO", "QUANTIZE",
    }  # fmt: skip


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(ModelError, match=r"'tflite' is not installed.*graph-workbench\[tflite\]"):
        wb.parse_tflite("net.tflite")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected 'TFL3'"),
        (b"\x08\x00\x00\x00ONNX", "expected 'TFL3'"),
        (b"\xff\xff\xff\x7fTFL3", "the model is damaged"),
        ("nothing.tflite", "cannot read 'nothing.tflite'"),
    ],
)
def test_what_is_no_model_is_refused(data, message: str):
    with pytest.raises(ModelError, match=message):
        wb.parse_tflite(data)


@pytest.mark.parametrize("name", ["mobile_int8", "moves"])
def test_damaged_models_are_refused_or_read(name: str):
    """Each damaged byte gives an error with a message, or a program; nothing else."""
    plain, random = model(name), np.random.default_rng(5)
    refused = 0
    for _ in range(120):
        data = bytearray(plain)
        for place in random.integers(8, len(data), 3):
            data[place] = random.choice([0, 1, 127, 128, 255])
        try:
            parse_tflite(bytes(data))
        except ModelError:
            refused += 1
    for cut in range(8, len(plain), len(plain) // 20):
        with pytest.raises(ModelError):
            parse_tflite(plain[:cut])
    assert refused


def test_an_unknown_operator_is_named_and_a_handler_can_be_added(monkeypatch):
    kept = _HANDLERS["MAX_POOL_2D"]
    monkeypatch.delitem(_HANDLERS, "MAX_POOL_2D")
    with pytest.raises(ModelError, match=r"unknown operators: MAX_POOL_2D \(2×\)"):
        parse_tflite(model("pools"))
    tflite_op("MAX_POOL_2D")(kept)
    assert parse_tflite(model("pools"))


@pytest.mark.tensorflow
def test_goldens_are_what_tensorflow_lite_computes(tmp_path: Path):
    python = os.environ.get(VARIABLE)
    assert python, f"run `make tensorflow`, or set {VARIABLE} to a Python that has TensorFlow"
    target = tmp_path / "goldens.npz"
    command = [python, str(HERE / "make_goldens.py"), str(target)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not finished.returncode, finished.stderr[-2000:]
    with np.load(target) as fresh:
        assert {key.partition("/")[0] for key in fresh.files} == set(NAMES)
        assert {n: differences(n, "ref", fresh) for n in NAMES} == {n: [] for n in NAMES}
