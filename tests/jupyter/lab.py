"""A real JupyterLab in headless Chromium: starts it, opens notebooks, runs cells, reads outputs."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    TimeoutError,
)

QUIET = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
START_SECONDS = 90
OPEN_MS = 60_000
RUN_MS = 180_000
POLLING_MS = 100
"""Instead of each frame, of which the page would then draw sixty a second, and serialize all cells."""
PICTURES = Path(__file__).parents[2] / "build" / "pictures"
RESTS = """() => {
  const app = window.jupyterapp, panel = app?.shell?.currentWidget;
  return panel?.context?.sessionContext?.session?.kernel?.status === "idle"
    && app.commands.isEnabled("notebook:run-all-cells")
    && panel.content.widgets.every((cell) => cell.model.executionState !== "running");
}"""
RAN = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.toJSON().cells;
  const code = cells.filter((cell) => cell.cell_type === "code" && cell.source.length);
  return code.every((cell) => cell.execution_count)
    || code.some((cell) => cell.outputs.some((output) => output.output_type === "error"));
}"""
CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"
RUN = """async (code) => {
  const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
  notebook.activeCellIndex = notebook.widgets.length - 1;
  await app.commands.execute("notebook:insert-cell-below");
  notebook.activeCell.model.sharedModel.setSource(code);
  await app.commands.execute("notebook:run-cell");
  return notebook.activeCellIndex;
}"""


class Notebook:
    """A notebook that is open in a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def run_all(self) -> None:
        """Runs every cell and waits until the kernel rests."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(RAN, timeout=RUN_MS, polling=POLLING_MS)
        self.rest()

    def rest(self, milliseconds: int = RUN_MS) -> None:
        """Waits until the kernel rests."""
        try:
            self.page.wait_for_function(RESTS, timeout=milliseconds, polling=POLLING_MS)
        except TimeoutError as error:
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=PICTURES / "not-at-rest.png")
            raise AssertionError(f"the kernel is not at rest; {self.complaints}") from error

    def cells(self) -> list[dict[str, Any]]:
        """The cells as they would be saved."""
        return self.page.evaluate(CELLS)

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a cell."""
        return self.cells()[cell].get("outputs", [])

    def text(self, code: str) -> str:
        """The text printed by the cell with this code, and the text form of its result."""
        outputs = self.outputs(self.find(code))
        shown = [o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs]
        return "\n".join("".join(s) for s in shown)

    def errors(self) -> list[str]:
        """Every error that a cell ended in."""
        outputs = [output for cell in self.cells() for output in cell.get("outputs", [])]
        return [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]

    def run(self, code: str) -> str:
        """Runs code in a new last cell; the text that it printed."""
        cell = self.page.evaluate(RUN, code)
        self.rest()
        outputs = self.outputs(cell)
        errors = [o for o in outputs if o["output_type"] == "error"]
        assert not errors, errors
        return "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream").strip()

    def cell(self, index: int) -> Locator:
        """A cell, scrolled into view."""
        self.page.evaluate(
            "(i) => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", index
        )
        cell = self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')
        cell.wait_for(state="visible", timeout=20_000)
        return cell

    def find(self, code: str) -> int:
        """The number of the first code cell that has this text."""
        return next(
            number
            for number, cell in enumerate(self.cells())
            if cell["cell_type"] == "code" and code in "".join(cell["source"])
        )


class Lab:
    """A running JupyterLab and the browser that looks at it."""

    def __init__(self, root: Path, url: str, token: str, browser: Browser) -> None:
        self.root = root
        self.url = url
        self.token = token
        self.browser = browser

    def open(self, path: Path) -> Notebook:
        """Copies a notebook below the server's root and opens it."""
        shutil.copy(path, self.root / path.name)
        page = self.browser.new_page(viewport={"width": 1400, "height": 1000})
        notebook = Notebook(page)
        address = f"{self.url}lab/workspaces/{path.stem}/tree/{path.name}?token={self.token}"
        page.goto(address, wait_until="load")
        page.wait_for_selector(".jp-Notebook", timeout=OPEN_MS)
        notebook.rest(OPEN_MS)
        return notebook


@contextmanager
def running(folder: Path, browser: Browser) -> Generator[Lab]:
    """Starts JupyterLab with its files below a folder, to be looked at in a browser; ends it."""
    token = secrets.token_hex(16)
    with _server(folder, token) as url:
        yield Lab(folder / "root", url, token, browser)


@contextmanager
def _server(folder: Path, token: str) -> Generator[str]:
    (folder / "root").mkdir()
    for plugin, values in QUIET.items():
        settings = folder / "settings/@jupyterlab" / f"{plugin}.jupyterlab-settings"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps(values))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--expose-app-in-browser"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.open_browser=False"]
    command += [f"--ServerApp.root_dir={folder / 'root'}", f"--IdentityProvider.token={token}"]
    command += ["--allow-root"]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, env=_environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield _address(folder, server)
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait(20)


def _environment(folder: Path) -> dict[str, str]:
    places = {
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
    }
    return os.environ | {name: str(folder / place) for name, place in places.items()}


def _address(folder: Path, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        for note in (folder / "runtime").glob("jpserver-*.json"):
            if text := note.read_text():
                return json.loads(text)["url"]
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{(folder / 'server.log').read_text()}")
