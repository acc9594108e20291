"""`workbench serve-bench`: rows, pictures and traces."""

import json

import pytest

import workbench as wb
from tests.compat.aitemplate.models import SIZE, scaled, some
from tests.test_cli import call, printed
from workbench.compat.aitemplate import Model

QUICK = ("--seconds", "0.02", "--json")


def test_a_file_is_put_under_load(tmp_path, capsys):
    model, plot, trace = (tmp_path / n for n in ("scaled.onnx", "load.png", "streams.json"))
    wb.to_onnx(scaled(), model)
    more = ("--streams", "1,2", "--target", "gpu", "--plot", str(plot), "--trace", str(trace))
    found = json.loads(printed(capsys, "serve-bench", str(model), *QUICK, *more))
    assert [load["streams"] for load in found["loads"]] == [1, 2]
    assert all(load["p50 ms"] <= load["p99 ms"] for load in found["loads"])
    assert plot.stat().st_size
    assert any(e["ph"] == "X" for e in json.loads(trace.read_text())["traceEvents"])


def test_a_saved_model_keeps_its_constants(tmp_path, capsys):
    w = some(0, SIZE, SIZE)
    with Model.of(scaled(), ["y"], {"w": w, "v": w}, target="cpu") as model:
        model.save(tmp_path / "saved")
    found = json.loads(
        printed(capsys, "serve-bench", str(tmp_path / "saved"), "--streams", "1", *QUICK)
    )
    assert found["loads"][0]["batch"] == 4


@pytest.mark.parametrize(
    ("options", "code"),
    [(("--streams", "1,x"), 2), (("--streams", "0"), 1), (("--batches", "2"), 1)],
)
def test_wrong_numbers_are_refused(tmp_path, options, code):
    model = tmp_path / "scaled.onnx"
    wb.to_onnx(scaled(), model)
    assert call("serve-bench", str(model), *options) == code
