"""The first notebook in a real JupyterLab: every cell works, widgets draw, a click is heard."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.jupyter.lab import Lab, Notebook

pytestmark = pytest.mark.jupyter

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01-first-look.ipynb"
INK = """canvas => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4)
    if (pixels[i + 3]) colours.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
  return colours.size;
}"""

NODES = """canvas => canvas.__wb.nodes()
  .filter((node) => node.kind === "node" && node.id !== null)
  .map(({ id, x, y, w, h }) => ({ id, x: x + w / 2, y: y + h / 2 }))
  .filter(({ x, y }) => x > 0 && y > 0 && x < canvas.clientWidth && y < canvas.clientHeight)"""


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Generator[Notebook]:
    """The notebook after all its cells have run."""
    with lab.open(NOTEBOOK) as notebook:
        notebook.run_all()
        yield notebook


def has(notebook: Notebook, code: str, mime: str) -> bool:
    outputs = notebook.outputs(notebook.find(code))
    return any(mime in output.get("data", {}) for output in outputs)


def test_every_cell_runs(opened: Notebook):
    assert opened.errors() == []


@pytest.mark.parametrize(
    ("code", "mime"),
    [
        ("recording.table()", "text/html"),
        ("result.timings()", "text/html"),
        ("result.plot_timings()", "image/png"),
        ("report.table()", "text/html"),
        ("report.plot()", "image/png"),
    ],
)
def test_tables_and_plots_are_shown(opened: Notebook, code: str, mime: str):
    assert has(opened, code, mime)


def test_the_device_agrees_with_the_reference(opened: Notebook):
    said = opened.text('target="gpu"').splitlines()
    difference = next(line for line in said if line.startswith("largest difference"))
    assert float(difference.rpartition(" ")[2]) < 1e-4


def test_the_network_knows_which_way_up_the_page_is(opened: Notebook):
    cell = opened.outputs(opened.find("build.run("))
    assert "90: np.float32(0.9" in cell[-1]["data"]["text/plain"]


@pytest.mark.parametrize(
    ("name", "code"), [("program", "wb.parse_onnx("), ("explorer", "build.explore()")]
)
def test_a_widget_is_drawn(opened: Notebook, pictures: Path, name: str, code: str):
    cell = opened.cell(opened.find(code))
    canvas = cell.locator(".wb-canvas").first
    canvas.wait_for(state="visible", timeout=20_000)
    opened.settle()
    cell.screenshot(path=pictures / f"notebook-{name}.png")
    assert canvas.evaluate(INK) > 8


def test_a_click_on_a_node_selects_it_in_python(opened: Notebook, pictures: Path):
    cell = opened.cell(opened.find("build.explore()"))
    canvas = cell.locator(".wb-canvas").last
    canvas.wait_for(state="visible", timeout=20_000)
    for node in canvas.evaluate(NODES)[:2]:
        canvas.click(position={"x": node["x"], "y": node["y"]})
        cell.locator(f'.wb-inspector[data-id="{node["id"]}"]').wait_for(timeout=5_000)
        cell.screenshot(path=pictures / "notebook-selected.png")
        assert opened.run("print(explorer.selected)") == str(node["id"])
        cell = opened.cell(opened.find("build.explore()"))


def test_a_choice_in_python_is_shown(opened: Notebook):
    opened.run("explorer.selected = build.recording[0].after.main.outputs[0].id")
    chosen = opened.run("print(explorer.selected)")
    cell = opened.cell(opened.find("build.explore()"))
    cell.locator(f'.wb-inspector[data-id="{chosen}"]').wait_for(timeout=5_000)


def test_the_browser_has_nothing_to_complain_about(opened: Notebook):
    assert opened.complaints == []
