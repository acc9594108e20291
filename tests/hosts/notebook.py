"""Notebook 7: live views, saved ones without their kernel, and a model from the file browser."""

import secrets
import shutil
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, Page

from tests.hosts.cells import CELLS, LONG, expect_drawn, expect_work, model, quiet
from tests.jupyter.lab import server

COMMAND = "name => void window.jupyterapp.commands.execute(name)"
ENDED = "async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }"
RESTS = """() => {
  const { commands, shell } = window.jupyterapp;
  return shell.currentWidget?.context?.sessionContext?.session?.kernel?.status === "idle"
    && commands.isEnabled("notebook:run-all-cells");
}"""
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
NOISE = "reading 'schema'"
"""Of Notebook's own page, with no extension too."""


def try_all(python: Path, folder: Path, browser: Browser) -> None:
    """Draw all views, use them, and reopen the notebook."""
    token = secrets.token_hex(16)
    context = browser.new_context(viewport={"width": 1300, "height": 1000}, reduced_motion="reduce")
    with server(folder, token, python, ["notebook"]) as url, context:
        shutil.copy(model(), folder / "root/small_cnn.onnx")
        written(folder / "root/all.ipynb")
        page = context.new_page()
        complaints = quiet(page, NOISE)
        opened(page, f"{url}notebooks/all.ipynb?token={token}")
        page.wait_for_function(RESTS, timeout=LONG)
        page.evaluate(COMMAND, "notebook:run-all-cells")
        for number, name in enumerate(CELLS):
            expect_drawn(page.locator(".jp-CodeCell").nth(number), f"notebook-{name}")
        expect_work(page.locator(".wb-frame"))
        assert page.locator(".wb-savednote").count() == 0
        page.evaluate(COMMAND, "docmanager:save")
        page.wait_for_function(SAVED, timeout=LONG)
        page.evaluate(ENDED)
        opened(page, f"{url}notebooks/all.ipynb")
        for number, name in enumerate(CELLS):
            cell = page.locator(".jp-CodeCell").nth(number)
            expect_drawn(cell, f"notebook-saved-{name}")
            cell.locator(".wb-savednote").wait_for(timeout=LONG)
        page.goto(f"{url}tree")
        with context.expect_page() as document:
            page.locator(".jp-DirListing-item", has_text="small_cnn.onnx").dblclick(timeout=LONG)
        expect_drawn(document.value.locator(".graph-workbench-document"), "notebook-file")
        assert complaints == []


def written(path: Path) -> None:
    """Write the notebook."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS.values()])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, path)


def opened(page: Page, url: str) -> None:
    """Open the notebook."""
    page.goto(url)
    page.locator(".jp-CodeCell").first.wait_for(timeout=LONG)
