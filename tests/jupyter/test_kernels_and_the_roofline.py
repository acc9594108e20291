"""The fourth notebook in a real JupyterLab: kernels read, timed, compared, and linked with the graph."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.jupyter.lab import Lab, Notebook

pytestmark = pytest.mark.jupyter

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "10-kernels-and-the-roofline.ipynb"
LIST, EXPLORER = "kernels = fused.kernels()", "explorer = fused"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Generator[Notebook]:
    """The notebook after all its cells have run."""
    with lab.open(NOTEBOOK) as notebook:
        notebook.run_all()
        yield notebook


def test_every_cell_runs(opened: Notebook):
    assert opened.errors() == []


def test_each_answer_is_there(opened: Notebook):
    assert "KERNEL(" in opened.text("norm.body")
    assert "a run takes" in opened.text("slow = plain.run")
    said = opened.text("moved, flops")
    assert "plain: 25 kernels" in said
    assert "fused: 3 kernels" in said
    assert "hip:gfx90a" in opened.text("for device in")


@pytest.mark.parametrize("code", ["comparison.plot()", "plot_roofline(left)"])
def test_a_plot_is_shown(opened: Notebook, pictures: Path, code: str):
    cell = opened.find(code)
    assert any("image/png" in o.get("data", {}) for o in opened.outputs(cell))
    opened.cell(cell).screenshot(path=pictures / f"notebook-04-{cell}.png")


def test_the_kernels_are_a_widget_with_a_static_form(opened: Notebook, pictures: Path):
    cell = opened.find(LIST)
    found = {mime for o in opened.outputs(cell) for mime in o.get("data", {})}
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= found
    shown = opened.cell(cell)
    shown.locator("tr.wb-chosen").wait_for(state="visible", timeout=20_000)
    shown.get_by_role("tab", name="Machine code").click()
    shown.locator(".wb-codeline").nth(5).wait_for(timeout=20_000)
    shown.locator(".wb-kernels").screenshot(path=pictures / "notebook-kernels-widget.png")


def test_a_kernel_selects_its_instruction_in_the_graph_and_in_python(
    opened: Notebook, pictures: Path
):
    shown = opened.cell(opened.find(EXPLORER))
    rows = shown.locator("tr[data-kernel]")
    rows.first.wait_for(state="visible", timeout=20_000)
    for k in (1, 2):
        rows.nth(k).click()
        wanted = rows.nth(k).get_attribute("data-id")
        shown.locator(f'.wb-graph .wb-inspector[data-id="{wanted}"]').wait_for(timeout=20_000)
    opened.settle()
    shown.screenshot(path=pictures / "notebook-kernels-and-graph.png")
    assert opened.run("print(explorer.selected, explorer.graph.selected)") == f"{wanted} {wanted}"


def test_an_instruction_in_the_graph_shows_its_kernel(opened: Notebook):
    opened.run("explorer.graph.selected = explorer.kernels.rows[0]['id']")
    shown = opened.cell(opened.find(EXPLORER))
    shown.locator('tr.wb-chosen[data-kernel="0"]').wait_for(timeout=20_000)
