"""Variants of kernels that come with the package: their files, and their use until a device is tuned."""

import json
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.bench import ship_choices
from workbench.gpu import choices
from workbench.gpu.choices import FOLDER, Choices, file_name, shipped
from workbench.gpu.devices.registry import device as device_of
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run import runner


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_a_file_names_its_device_and_variants(path: Path):
    found = json.loads(path.read_text())
    assert file_name(found["device"]) == path.name
    assert shipped(found["device"]) == found["choices"]
    assert all(isinstance(x, str) and x for pair in found["choices"].items() for x in pair)


@pytest.mark.parametrize(("device", "like"), sorted(choices._ALIKE.items()))
def test_a_device_without_a_file_has_that_of_one_with_its_multiprocessors(device: str, like: str):
    assert not (FOLDER / file_name(device)).exists()
    assert shipped(device) == shipped(like) != {}


def test_a_device_without_a_file_has_none():
    assert not shipped("a device / that nobody has")


def test_its_variants_are_used_until_others_are_chosen(monkeypatch: pytest.MonkeyPatch):
    program = wb.trace(lambda x, y: x @ y, x=(96, 160), y=(160, 96))
    values = np.random.default_rng(0)
    given = {
        "x": values.standard_normal((96, 160)).astype(np.float32),
        "y": values.standard_normal((160, 96)).astype(np.float32),
    }
    plain = wb.compile(program, "gpu", record=False)
    first = Choices()
    lower(plain.program, device_of(None).dialect, first)
    ((problem, variants),) = first.offers.items()
    monkeypatch.setattr(runner, "shipped", lambda _: {problem: variants[1]})
    build = wb.compile(program, "gpu", record=False)
    estimated = [k.source for k in plain.kernels()]
    assert [k.source for k in build.kernels()] != estimated
    np.testing.assert_allclose(build.run(given)[0], plain.run(given)[0], 1e-4, 1e-4)
    build.runner.choose({problem: variants[0]})
    assert [k.source for k in build.kernels()] == estimated


def test_what_several_networks_chose_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    a, b = {"one": "x", "two": "y"}, {"one": "x", "two": "z"}
    for name, chosen in (("a", [["A GPU", a]]), ("b", [["A GPU", b], ["A GPU", {"one": "w"}]])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"choices": chosen}))
    monkeypatch.setattr(ship_choices, "FOLDER", tmp_path / "tuned")
    monkeypatch.setattr("sys.argv", ["", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    ship_choices.main()
    assert "2 choices" in capsys.readouterr().out
    found = json.loads((tmp_path / "tuned" / "a_gpu.json").read_text())
    assert found["device"] == "A GPU"
    assert found["choices"]["one"] == "x"
    assert found["choices"]["two"] in "yz"
