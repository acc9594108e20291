"""The third notebook in a real JupyterLab: a script of MIGraphX's, and what the workbench adds to it."""

from pathlib import Path

import pytest

from tests.jupyter.lab import Lab, Notebook

pytestmark = [pytest.mark.jupyter, pytest.mark.xdist_group("jupyter")]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03-coming-from-migraphx.ipynb"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Notebook:
    """The notebook after all its cells have run."""
    notebook = lab.open(NOTEBOOK)
    notebook.run_all()
    return notebook


def text(notebook: Notebook, code: str) -> str:
    """What a cell printed, and the text form of what it showed."""
    outputs = notebook.outputs(notebook.find(code))
    shown = [o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs]
    return "\n".join("".join(s) for s in shown)


def test_every_cell_runs(opened: Notebook):
    assert opened.errors() == []


def test_a_script_of_migraphx_says_what_migraphx_says(opened: Notebook):
    assert "{'x': float_type, {1, 3, 224, 224}" in text(opened, "was: import migraphx")
    assert "softmax[axis=1]" in text(opened, "results = p.run")
    assert text(opened, "from_dlpack").count("= True") == 3
    assert "numpy.float32" in text(opened, "from_dlpack")
    assert "= dot(" in text(opened, 'migraphx.macro("gemm"')


def test_each_addition_has_its_answer(opened: Notebook):
    assert "+@" in text(opened, "unified_diff(")
    assert "pointwise(" in text(opened, "unified_diff(")
    assert "softsign_of[scale=2]" in text(opened, "custom_op(")
    assert "n + 2[3..66]" in text(opened, "sym.var(")
    assert "expected k" in text(opened, "sym.var(")
    assert "instead of" in text(opened, "quantize_int8")
    assert "the largest value is" in text(opened, "run_trace")
    assert "inferences/s" in text(opened, "run_trace")
    assert "checks passed" in text(opened, 'mode="bisect"')
    assert "from HardSwish" in text(opened, 'mode="bisect"')
    assert text(opened, "migraphx.save").count("= True") == 2
    assert '"passed": true' in text(opened, "migraphx.save")


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
    notebook.page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
        f"JupyterLab {theme}",
    )
    light = str(theme == "Light").lower()
    notebook.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")
    notebook.page.wait_for_timeout(1000)
