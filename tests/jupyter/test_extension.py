"""The extension of JupyterLab: saved views without their kernel, and model files in the file browser."""

import json
import re
import shutil
from collections.abc import Generator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page

from tests.jupyter.lab import IDLE, OPEN_MS, Lab, Notebook, ask, until
from tests.jupyter.test_first_look import INK, NODES
from tests.models.registry import MODELS
from workbench.widgets.saved import LIMIT, MIME

pytestmark = pytest.mark.jupyter
LONG = 60_000
MODEL = 'it\'s a "model".onnx'
CELLS = {
    ".wb-graph": "import workbench as wb\nprogram = wb.parse_onnx({model!r})\nprogram",
    ".wb-explorer": "build = wb.compile(program, 'cpu')\nexplorer = build.explore()\nexplorer",
    ".wb-frame": "view = wb.open(program, 'cpu')\nview",
}
"""The code of a view's cell by the class of the view."""
DIE = """() => {
  const { sessionContext } = window.jupyterapp.shell.currentWidget.context;
  sessionContext.session.kernel.requestExecute({ code: "import os; os._exit(1)" });
}"""
RESTARTED = f"""async () => {{
  const {{ sessionContext }} = window.jupyterapp.shell.currentWidget.context;
  return await ({IDLE})(sessionContext.session.kernel);
}}"""
KERNELS = "async () => (await (await fetch('/api/kernels')).json()).length"


def written(folder: Path) -> Path:
    """A notebook with a cell for each view."""
    model = str(MODELS["small_cnn"].path)
    cells = [nbformat.v4.new_code_cell(code.format(model=model)) for code in CELLS.values()]
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / "saved.ipynb"
    nbformat.write(book, path)
    return path


@pytest.fixture(scope="module")
def live(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook after a run in which each view was the live widget; its kernel is gone."""
    path = written(tmp_path_factory.mktemp("extension"))
    with lab.open(path) as notebook:
        notebook.run_all()
        assert notebook.errors() == []
        for number, view in enumerate(CELLS):
            notebook.cell(number).locator(f"{view} .wb-canvas").first.wait_for(timeout=LONG)
        assert notebook.page.locator(".wb-savednote").count() == 0
        assert notebook.complaints == []
        chosen = notebook.run("explorer.selected = 2; print(explorer.selected)")
        assert chosen == "2"
        frame = notebook.cell(2).locator(".wb-frame")
        frame.evaluate("frame => (frame.isTheSame = true)")
        frame.locator(".wb-action", has_text="Compile").click()
        frame.locator(".wb-noteline", has_text="Build for").wait_for(timeout=LONG)
        frame.locator("[data-tab=memory]").click()
        frame.locator(".wb-tablepane tbody tr").first.wait_for(timeout=LONG)
        frame.locator("[data-tab=graph]").click()
        notebook.save()
        assert frame.evaluate("frame => frame.isTheSame && frame.isConnected")
        assert notebook.complaints == []
    return path


@pytest.fixture(scope="module")
def reopened(lab: Lab, live: Path) -> Generator[Notebook]:
    """The notebook again, with a kernel that knows nothing of it."""
    with lab.reopen(live) as notebook:
        yield notebook


def test_a_saved_view_has_the_state_that_it_was_left_in(reopened: Notebook):
    cell = reopened.cell(1)
    cell.locator('.wb-inspector[data-id="2"]').wait_for(timeout=LONG)
    cell = reopened.cell(2)
    cell.locator(".wb-noteline", has_text="Build for").wait_for(timeout=LONG)
    cell.locator("[data-tab=memory]").click()
    cell.locator(".wb-tablepane tbody tr").first.wait_for(timeout=LONG)
    cell.locator("[data-tab=graph]").click()
    sizes = [len(json.dumps(o["data"][MIME])) for k in range(3) for o in reopened.outputs(k)]
    assert len(sizes) == 3
    assert max(sizes) <= LIMIT


@pytest.mark.parametrize(("number", "view"), [*enumerate(CELLS)])
def test_a_saved_view_is_drawn_and_selects_without_its_kernel(
    reopened: Notebook, pictures: Path, number: int, view: str
):
    cell = reopened.cell(number)
    canvas = cell.locator(f"{view} .wb-canvas:visible").last
    canvas.wait_for(timeout=LONG)
    cell.locator(".wb-savednote").wait_for(timeout=LONG)
    reopened.page.wait_for_timeout(500)
    assert canvas.evaluate(INK) > 8
    node = canvas.evaluate(NODES)[0]
    canvas.click(position={"x": node["x"], "y": node["y"]})
    cell.locator(f'.wb-inspector[data-id="{node["id"]}"]').wait_for(timeout=LONG)
    cell.screenshot(path=pictures / f"saved{view}.png")
    assert "model not found" not in cell.inner_text()


def test_another_pass_of_a_saved_explorer_is_shown(reopened: Notebook):
    cell = reopened.cell(1)
    cell.locator(".wb-explorer").get_by_role("button", name="Next pass that changed").click()
    cell.locator(".wb-diff .wb-line, .wb-diff [data-id]").first.wait_for(timeout=LONG)
    assert "not stored" not in cell.inner_text()


def test_running_the_cells_again_gives_live_views(reopened: Notebook):
    reopened.run_all()
    assert reopened.errors() == []
    reopened.cell(2).locator(".wb-frame .wb-canvas:visible").first.wait_for(timeout=LONG)
    assert reopened.page.locator(".wb-savednote").count() == 0
    assert reopened.run("view.selected = 3; print(view.selected)") == "3"


def test_an_untrusted_notebook_without_a_kernel_shows_its_views(
    lab: Lab, live: Path, pictures: Path
):
    book = json.loads((lab.root / live.name).read_text())
    other = {"name": "that-is-not-here", "display_name": "Another", "language": "befunge"}
    book["metadata"] = {"kernelspec": other, "language_info": {"name": "befunge"}}
    book["cells"][0]["source"] = "# signed by nobody"
    graph = book["cells"][0]["outputs"][0]["data"]
    graph[MIME]["version"] = 99
    (lab.root / "untrusted.ipynb").write_text(json.dumps(book))
    page = lab.page
    page.evaluate(
        "() => void window.jupyterapp.commands.execute('docmanager:open', { path: 'untrusted.ipynb' })"
    )
    cells = page.locator(".jp-NotebookPanel:visible .jp-Cell")
    still = cells.nth(0).locator("img.wb-still")
    still.wait_for(timeout=LONG)
    assert still.evaluate("image => image.naturalWidth")
    assert 600 < still.bounding_box()["width"] < 1400
    assert still.get_attribute("alt") == "".join(graph["text/plain"])
    for number, view in list(enumerate(CELLS))[1:]:
        cells.nth(number).scroll_into_view_if_needed()
        cells.nth(number).locator(f"{view} .wb-canvas:visible").last.wait_for(timeout=LONG)
    page.locator(".jp-Dialog select").select_option(label="No Kernel", timeout=LONG)
    page.locator(".jp-Dialog").get_by_role("button", name="Select").click()
    page.get_by_role("button", name="No Kernel").first.wait_for()
    page.screenshot(path=pictures / "saved-untrusted.png")
    assert "model not found" not in page.locator(".jp-NotebookPanel:visible").inner_text()
    page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")


def test_a_notebook_that_lab_saved_is_converted_with_pictures(lab: Lab, live: Path):
    from nbconvert import HTMLExporter

    text, _ = HTMLExporter().from_filename(lab.root / live.name)
    assert 'application/vnd.jupyter.widget-view+json"' not in text.partition("<main")[2]
    assert len(
        re.findall('<img [^>]*src="data:image/svg|<svg ', text.partition("<main")[2])
    ) >= len(CELLS)


# Model files


@pytest.fixture
def browser(lab: Lab) -> Generator[Page]:
    """The page with a model and a file that is none in its file browser."""
    shutil.copy(MODELS["small_cnn"].path, lab.root / MODEL)
    (lab.root / "words.pb").write_text("no model")
    ask(lab.page, "() => window.jupyterapp.commands.execute('filebrowser:refresh')")
    lab.page.locator(".jp-DirListing-item", has_text="words.pb").wait_for(timeout=OPEN_MS)
    before = ask(lab.page, KERNELS)
    yield lab.page
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")
    until(lab.page, f"async () => await ({KERNELS})() === {before}", milliseconds=LONG)


def row(page: Page, name: str):
    return page.locator(".jp-DirListing-item", has_text=name)


def test_a_double_click_opens_the_workbench_which_compiles(browser: Page, lab: Lab, pictures: Path):
    before = ask(browser, KERNELS)
    name = 'it\'s a "model".onnx'
    row(browser, name).dblclick()
    frame = browser.locator(".graph-workbench-document .wb-frame")
    frame.locator(".wb-canvas:visible").first.wait_for(timeout=LONG)
    frame.locator(".wb-action", has_text="Compile").click()
    frame.locator(".wb-noteline", has_text="Build for").wait_for(timeout=LONG)
    browser.screenshot(path=pictures / "lab-file.png")
    assert ask(browser, KERNELS) == before + 1

    browser.keyboard.press("Control+s")
    ask(browser, "() => window.jupyterapp.commands.execute('docmanager:save')")
    browser.wait_for_timeout(300)
    assert (lab.root / MODEL).read_bytes() == MODELS["small_cnn"].path.read_bytes()


def test_the_menu_opens_a_file_and_says_why_it_cannot(browser: Page, pictures: Path):
    row(browser, "words.pb").click(button="right")
    browser.locator(".lm-Menu-item", has_text="Open in workbench").click()
    said = browser.locator(".graph-workbench-message [role=alert]")
    said.wait_for(timeout=LONG)
    browser.screenshot(path=pictures / "lab-file-failed.png")
    assert "cannot be opened. words.pb: not a GraphDef" in said.inner_text()
    assert "Traceback" not in said.inner_text()
    browser.get_by_role("button", name="Open again").click()
    said.wait_for(timeout=LONG)


def test_a_kernel_that_dies_is_said_and_another_opens_the_file(browser: Page, pictures: Path):
    row(browser, MODEL).dblclick()
    frame = browser.locator(".graph-workbench-document .wb-frame")
    frame.locator(".wb-canvas:visible").first.wait_for(timeout=LONG)
    browser.evaluate(DIE)
    said = browser.locator(".graph-workbench-message [role=alert]")
    said.wait_for(timeout=LONG)
    assert "kernel stopped" in said.inner_text()
    until(browser, RESTARTED, milliseconds=LONG)
    assert said.is_visible()
    browser.screenshot(path=pictures / "lab-file-died.png")
    browser.get_by_role("button", name="Open again").click()
    said.wait_for(state="hidden", timeout=LONG)
    frame.locator(".wb-action:not([disabled])", has_text="Compile").click(timeout=LONG)
    frame.locator(".wb-noteline", has_text="Build for").wait_for(timeout=LONG)
