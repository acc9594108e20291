"""The workbench in a real JupyterLab: buttons compile, profile and compare; Python has what they made."""

import json
from collections.abc import Generator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator

from tests.jupyter.lab import Lab, Notebook
from tests.models.registry import MODELS

pytestmark = pytest.mark.jupyter
LONG = 60_000


@pytest.fixture(scope="module")
def notebook(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Generator[Notebook]:
    """A notebook with the workbench on a small model, which is open and not yet compiled."""
    code = f"import workbench as wb\nview = wb.open({str(MODELS['small_cnn'].path)!r}, 'cpu')\nview"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path_factory.mktemp("workbench") / "workbench.ipynb"
    nbformat.write(book, path)
    with lab.open(path) as opened:
        opened.run_all()
        opened.page.locator(".wb-frame .wb-canvas").first.wait_for(state="visible", timeout=LONG)
        yield opened


def press(notebook: Notebook, name: str) -> Locator:
    """Presses an action's button, and waits for its end."""
    page = notebook.page
    page.locator(".wb-action", has_text=name).click()
    button = page.locator(".wb-action:not([disabled])", has_text=name)
    button.wait_for(state="visible", timeout=LONG)
    return button


def ask(notebook: Notebook, expression: str):
    """A value of the kernel."""
    return json.loads(notebook.run(f"import json; print(json.dumps({expression}))"))


def test_buttons_do_what_python_then_has(notebook: Notebook, pictures: Path):
    frame = notebook.page.locator(".wb-frame")
    press(notebook, "Compile")
    press(notebook, "Profile")
    assert ask(notebook, "view.session.did") == ["compile", "profile"]
    assert ask(notebook, "len(view.result.timings())") > 5
    frame.locator("[data-tab=timings]").click()
    row = frame.locator(".wb-tablepane tbody tr").nth(2)
    row.click()
    assert ask(notebook, "view.selected") == int(row.get_attribute("data-id"))
    press(notebook, "Compare")
    assert ask(notebook, "view.report.passed")
    frame.locator("[data-tab=numbers]").click()
    frame.locator(".wb-tablepane:visible tbody tr").first.wait_for(timeout=LONG)
    frame.screenshot(path=pictures / "lab-workbench.png")
    assert notebook.errors() == []


def test_a_pass_is_switched_off_and_the_code_says_so(notebook: Notebook):
    frame = notebook.page.locator(".wb-frame")
    before = ask(notebook, "len(view.build.program.main)")
    frame.locator("[data-pass=fuse_pointwise] input").click()
    frame.locator(".wb-noteline", has_text="without fuse_pointwise: ").wait_for(timeout=LONG)
    assert ask(notebook, "len(view.build.program.main)") > before
    assert "disable=('fuse_pointwise',)" in ask(notebook, "view.code")
    frame.locator("[data-tab=passes]").click()
    frame.locator(".wb-explorer .wb-canvas").first.wait_for(state="visible", timeout=LONG)
    step = ask(notebook, "view.passes_step")
    frame.locator(".wb-explorer").get_by_role("button", name="Next pass that changed").click()
    frame.page.wait_for_timeout(300)
    assert ask(notebook, "view.passes_step") > step


def test_what_python_selects_is_selected_in_the_view(notebook: Notebook):
    frame = notebook.page.locator(".wb-frame")
    frame.locator("[data-tab=memory]").click()
    id = ask(notebook, "view.build.memory().buffers[3].id")
    notebook.run(f"view.selected = {id}")
    row = frame.locator(f".wb-tablepane:visible tr.wb-chosen[data-id='{id}']")
    row.wait_for(timeout=LONG)
    notebook.run("view.pane = 'graph'; view.do('bisect')")
    assert "nothing wrong" in frame.locator(".wb-noteline").inner_text(timeout=LONG)
