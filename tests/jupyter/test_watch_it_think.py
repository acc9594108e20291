"""The second notebook in a real JupyterLab: passes taken apart, and a rule of one's own."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.jupyter.lab import Lab, Notebook

pytestmark = pytest.mark.jupyter

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "04-passes-and-laws.ipynb"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Generator[Notebook]:
    """The notebook after all its cells have run."""
    with lab.open(NOTEBOOK) as notebook:
        notebook.run_all()
        yield notebook


def test_every_cell_runs(opened: Notebook):
    assert opened.errors() == []


def test_each_answer_is_there(opened: Notebook):
    assert "fuse_attention(attn_enabled=True)" in opened.text("pipelines = wb.pipelines()")
    assert "find_div_const" in opened.text("would_change")
    assert "→" in opened.text("edits=1")
    assert "fused_reduce @" in opened.text("why_not(")
    assert "the law holds" in opened.text("check_rule(find_relu)")
    assert "FAILED" in opened.text("check_rule(find_sub)")
    assert "by find_sub" in opened.text("class Wrong")


@pytest.mark.parametrize(
    ("name", "code"),
    [("block", "def block("), ("kernels", 'passes="gpu")'), ("own-pass", "build.explore()")],
)
def test_a_widget_is_drawn(opened: Notebook, pictures: Path, name: str, code: str):
    cell = opened.cell(opened.find(code))
    canvas = cell.locator(".wb-canvas").first
    canvas.wait_for(state="visible", timeout=20_000)
    opened.settle()
    cell.screenshot(path=pictures / f"notebook-{name}.png")
    assert canvas.bounding_box()["height"] > 100
