"""The modules that `import workbench` loads, and the names that it offers."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from workbench.knobs import Knobs, knobs

ROOT = Path(__file__).parents[2]
HEAVY = {"IPython", "anywidget", "graphviz", "ipywidgets", "matplotlib", "onnx", "pandas", "tqdm"}
HEAVY |= {"jax", "jaxlib", "torch", "typer", "onnxruntime", "scipy", "skimage"}
HEAVY |= {"cuda", "hip", "pyopencl", "rocm"}


def loaded_by(code: str) -> set[str]:
    show = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", f"{code}\n{show}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import workbench", set()),
        ("import workbench; dir(workbench); workbench.Shape", set()),
        ("import workbench; workbench.compile; workbench.rule; workbench.parse", set()),
        ("import workbench; workbench.devices; import workbench.gpu.devices.cuda", set()),
        ("import workbench; workbench.parse_onnx", {"onnx"}),
        ("import workbench; workbench.from_jax; workbench.to_stablehlo", {"onnx"}),
        ("import workbench.cli", {"typer"}),
    ],
)
def test_only_what_is_used_is_loaded(code: str, allowed: set[str]):
    assert loaded_by(code) & HEAVY <= allowed


def test_a_heavy_import_is_noticed():
    assert "graphviz" in loaded_by("import graphviz") & HEAVY


@pytest.mark.parametrize("name", sorted(workbench.__all__))
def test_every_name_of_the_front_door_is_there_and_documented(name: str):
    value = getattr(workbench, name)
    assert name == "__version__" or inspect.getdoc(value)


def test_the_front_door_tells_type_checkers_the_same_names():
    tree = ast.parse((ROOT / "workbench/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [(node.module, a) for node in block.body for a in node.names]
    typed = {a.asname: f"{module}:{a.name}" for module, a in imports}
    assert typed == {n: f"workbench.{home}:{n}" for n, home in workbench._HOME.items()}


def test_an_unknown_name_is_refused_with_what_there_is():
    with pytest.raises(AttributeError, match=r"no 'parse_caffe'; it has .*parse_onnx"):
        _ = workbench.parse_caffe


def test_every_option_stands_on_the_options_page():
    assert knobs.table() in (ROOT / "docs/options.md").read_text()


@pytest.mark.parametrize("knob", Knobs.all(), ids=lambda knob: knob.name)
def test_every_option_is_read_by_somebody(knob):
    paths = [p for p in (ROOT / "workbench").rglob("*.py") if p.name != "knobs.py"]
    assert any(f"knobs.{knob.name}" in path.read_text() for path in paths)


def test_options_come_from_scope_then_environment_then_default(monkeypatch):
    monkeypatch.delenv("WORKBENCH_VALIDATE", raising=False)
    assert knobs.validate is False
    monkeypatch.setenv("WORKBENCH_VALIDATE", "yes")
    assert knobs.validate is True
    with knobs.scope(validate=False):
        assert knobs.validate is False
    assert knobs.validate is True


def test_wrong_options_are_refused(monkeypatch):
    monkeypatch.setenv("WORKBENCH_VALIDATE", "maybe")
    with pytest.raises(ValueError, match=r"WORKBENCH_VALIDATE='maybe': expected 1 or 0"):
        _ = knobs.validate
    with pytest.raises(TypeError, match=r"no option 'valid'; the options are .*validate"):
        knobs.scope(valid=True).__enter__()


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_and_its_paired_text_are_the_same(path: Path):
    jupytext = pytest.importorskip("jupytext")
    paired = jupytext.read(path.with_suffix(".py"))
    cells = [(c.cell_type, c.source) for c in jupytext.read(path).cells]
    assert [(c.cell_type, c.source) for c in paired.cells] == cells
