"""The third notebook in a real JupyterLab: a script of MIGraphX's, and what the workbench adds to it."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.jupyter.lab import Lab, Notebook, ask

pytestmark = pytest.mark.jupyter

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "coming-from-migraphx.ipynb"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Generator[Notebook]:
    """The notebook after all its cells have run."""
    with lab.open(NOTEBOOK) as notebook:
        notebook.run_all()
        yield notebook


def test_every_cell_runs(opened: Notebook):
    assert opened.errors() == []


def test_a_script_of_migraphx_says_what_migraphx_says(opened: Notebook):
    assert "{'x': float_type, {1, 3, 224, 224}" in opened.text("was: import migraphx")
    assert "softmax[axis=1]" in opened.text("results = p.run")
    assert opened.text("from_dlpack").count("= True") == 3
    assert "numpy.float32" in opened.text("from_dlpack")
    assert "= dot(" in opened.text('migraphx.macro("gemm"')


def test_each_addition_has_its_answer(opened: Notebook):
    assert "+@" in opened.text("unified_diff(")
    assert "pointwise(" in opened.text("unified_diff(")
    assert "softsign_of[scale=2]" in opened.text("custom_op(")
    assert "n + 2[3..66]" in opened.text("sym.var(")
    assert "expected k" in opened.text("sym.var(")
    assert "instead of" in opened.text("quantize_int8")
    assert "the largest value is" in opened.text("run_trace")
    assert "inferences/s" in opened.text("run_trace")
    assert "checks passed" in opened.text('mode="bisect"')
    assert "from HardSwish" in opened.text('mode="bisect"')
    assert opened.text("migraphx.save").count("= True") == 2
    assert '"passed": true' in opened.text("migraphx.save")


@pytest.mark.parametrize(
    ("name", "code"), [("model", "was: import migraphx"), ("explored", "p.build.explore()")]
)
def test_a_view_is_drawn_in_either_theme(opened: Notebook, pictures: Path, name: str, code: str):
    cell = opened.cell(opened.find(code))
    canvas = cell.locator(".wb-canvas").first
    canvas.wait_for(state="visible", timeout=20_000)
    for theme in ("Light", "Dark"):
        wear(opened, theme)
        cell.screenshot(path=pictures / f"migraphx-{name}-{theme.lower()}.png")
        assert cell.locator(".wb-root.wb-dark").count() == (theme == "Dark")
    assert canvas.bounding_box()["height"] > 100


SHOWN = {
    "run": "results = p.run", "arguments": "from_dlpack", "macro": 'migraphx.macro("gemm"',
    "diff": "unified_diff(", "custom": "custom_op(", "symbols": "sym.var(",
    "calibration": "quantize_int8", "trace": "run_trace", "verify": 'mode="bisect"', "files": "mkdtemp()",
}  # fmt: skip


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_cells_are_photographed(opened: Notebook, pictures: Path, theme: str):
    wear(opened, theme)
    for name, code in SHOWN.items():
        cell = opened.cell(opened.find(code))
        cell.screenshot(path=pictures / f"migraphx-{name}-{theme.lower()}.png")
        assert cell.locator(".jp-OutputArea-output").count() > 0


def test_the_calibration_is_a_table_and_a_picture(opened: Notebook):
    outputs = opened.outputs(opened.find("quantize_int8"))
    found = {mime for o in outputs for mime in o.get("data", {})}
    assert {"text/html", "image/png"} <= found


def test_the_browser_does_not_complain(opened: Notebook):
    assert opened.complaints == []


def wear(notebook: Notebook, theme: str) -> None:
    """Put JupyterLab into its light or its dark theme."""
    ask(
        notebook.page,
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
        f"JupyterLab {theme}",
    )
    light = str(theme == "Light").lower()
    notebook.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")
    notebook.settle()
