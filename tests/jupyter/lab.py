"""A real JupyterLab in headless Chromium: starts it, opens notebooks, runs cells, reads outputs."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
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
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "pictures"
OPEN = """async (path) => {
  const opened = window.opened ??= {};
  opened[path] = await window.jupyterapp.commands.execute("docmanager:open", { path });
  return opened[path].id;
}"""
CLOSE = """async (path) => {
  await window.opened[path].context.sessionContext.shutdown();
  window.opened[path].dispose();
}"""
CHOSEN = """(path) => {
  const { shell } = window.jupyterapp, panel = window.opened[path];
  if (shell.currentWidget === panel) return true;
  shell.activateById(panel.id);
}"""
IDLE = """async (kernel) => kernel?.status === "idle" || (
  kernel?.status === "starting" && kernel.connectionStatus === "connected"
  && Boolean(await kernel.requestKernelInfo())
)"""
"""A kernel reports from several threads: "starting" may come after the last "idle" that JupyterLab reads."""
RESTS = f"""async (path) => {{
  const app = window.jupyterapp, panel = window.opened[path];
  return await ({IDLE})(panel.context.sessionContext.session?.kernel)
    && app.commands.isEnabled("notebook:run-all-cells")
    && panel.content.widgets.every((cell) => cell.model.executionState !== "running");
}}"""
RAN = """(path) => {
  const code = [...window.opened[path].content.model.cells]
    .filter((cell) => cell.type === "code" && cell.sharedModel.getSource().length);
  const failed = ({ outputs }) =>
    Array.from({ length: outputs.length }, (_, i) => outputs.get(i).type).includes("error");
  return code.every((cell) => cell.executionCount) || code.some(failed);
}"""
CELLS = "(path) => window.opened[path].content.model.toJSON().cells"
RUN = """async ({ path, code }) => {
  const { commands } = window.jupyterapp, notebook = window.opened[path].content;
  notebook.activeCellIndex = notebook.widgets.length - 1;
  await commands.execute("notebook:insert-cell-below");
  notebook.activeCell.model.sharedModel.setSource(code);
  await commands.execute("notebook:run-cell");
  return notebook.activeCellIndex;
}"""
SCROLL = "({ path, index }) => window.opened[path].content.scrollToItem(index, 'start')"
STILL = """() => {
  const drawn = [...document.querySelectorAll(".wb-canvas")].map((c) => c.__wb?.stats.frames).join();
  const still = drawn === window.drawn;
  window.drawn = drawn;
  return still;
}"""


def ask(page: Page, script: str, argument: Any = None, milliseconds: int = RUN_MS) -> Any:
    """The answer of a function of the page; an error if there is none in time: Playwright has no limit."""
    late = f"refuse(new Error('no answer in {milliseconds} ms'))"
    limit = f"new Promise((_, refuse) => setTimeout(() => {late}, {milliseconds}))"
    return page.evaluate(f"(given) => Promise.race([({script})(given), {limit}])", argument)


def until(page: Page, condition: str, argument: Any = None, milliseconds: int = RUN_MS) -> None:
    """Waits until a function of the page, which may be asynchronous, returns what is true.

    Playwright's ``wait_for_function`` takes the promise of an asynchronous function for what is true.

    Raises:
        TimeoutError: It never did.
    """
    deadline = time.monotonic() + milliseconds / 1000
    while not ask(page, condition, argument, milliseconds):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true in {milliseconds} ms: {condition}")
        page.wait_for_timeout(POLLING_MS)


class Notebook:
    """A notebook that is open in JupyterLab's page; what the page complains of while it is."""

    def __init__(self, page: Page, path: str) -> None:
        self.page = page
        self.path = path
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", self._error)
        self._id = ask(page, OPEN, path)
        self.rest(OPEN_MS)

    def save(self) -> None:
        """Saves the notebook."""
        self._choose()
        ask(self.page, "() => window.jupyterapp.commands.execute('docmanager:save')")

    def close(self) -> None:
        """Ends the kernel and closes the notebook."""
        ask(self.page, CLOSE, self.path)
        self.page.remove_listener("console", self._console)
        self.page.remove_listener("pageerror", self._error)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def _error(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _choose(self) -> None:
        self._wait(CHOSEN, OPEN_MS)

    def _wait(self, condition: str, milliseconds: int = RUN_MS) -> None:
        until(self.page, condition, self.path, milliseconds)

    def run_all(self) -> None:
        """Runs every cell and waits until the kernel rests."""
        self._choose()
        ask(self.page, "() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self._wait(RAN)
        self.rest()

    def rest(self, milliseconds: int = RUN_MS) -> None:
        """Waits until the kernel rests."""
        try:
            self._choose()
            self._wait(RESTS, milliseconds)
        except Error as error:
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=PICTURES / "not-at-rest.png")
            raise AssertionError(f"the kernel is not at rest; {self.complaints}") from error

    def settle(self) -> None:
        """Waits until no view is drawn anew."""
        self._wait(STILL, OPEN_MS)

    def cells(self) -> list[dict[str, Any]]:
        """The cells as they would be saved."""
        return ask(self.page, CELLS, self.path)

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
        self._choose()
        cell = ask(self.page, RUN, {"path": self.path, "code": code})
        self.rest()
        outputs = self.outputs(cell)
        errors = [o for o in outputs if o["output_type"] == "error"]
        assert not errors, errors
        return "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream").strip()

    def cell(self, index: int) -> Locator:
        """A cell, scrolled into view."""
        self._choose()
        ask(self.page, SCROLL, {"path": self.path, "index": index})
        cell = self.page.locator(f'#{self._id} .jp-Cell[data-windowed-list-index="{index}"]')
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
    """A running JupyterLab in one page, for its start takes as long as most notebooks do."""

    def __init__(self, root: Path, page: Page) -> None:
        self.root = root
        self.page = page

    @contextmanager
    def open(self, path: Path) -> Generator[Notebook]:
        """Copies a notebook below the server's root, opens it and closes it."""
        shutil.copy(path, self.root / path.name)
        with self.reopen(path) as notebook:
            yield notebook

    @contextmanager
    def reopen(self, path: Path) -> Generator[Notebook]:
        """Opens a notebook that lies below the server's root, and closes it."""
        notebook = Notebook(self.page, path.name)
        try:
            yield notebook
        finally:
            notebook.close()


@contextmanager
def running(folder: Path, browser: Browser) -> Generator[Lab]:
    """Starts JupyterLab with its files below a folder, to be looked at in a browser; ends it."""
    token = secrets.token_hex(16)
    shown = {"viewport": {"width": 1400, "height": 1000}, "reduced_motion": "reduce"}
    here = ["jupyterlab", f"--LabApp.extra_labextensions_path={_extension(folder)}"]
    with (
        server(folder, token, sys.executable, here) as url,
        browser.new_context(**shown) as context,
    ):
        page = context.new_page()
        page.goto(f"{url}lab?token={token}", wait_until="load")
        page.wait_for_selector("#jp-main-dock-panel", timeout=OPEN_MS)
        ask(page, "() => window.jupyterapp.restored", milliseconds=OPEN_MS)
        yield Lab(folder / "root", page)


@contextmanager
def server(folder: Path, token: str, python: str | Path, module: list[str]) -> Generator[str]:
    """Runs an interpreter's Jupyter, named by its module and options; its address."""
    (folder / "root").mkdir()
    for plugin, values in QUIET.items():
        settings = folder / "settings/@jupyterlab" / f"{plugin}.jupyterlab-settings"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps(values))
    command = [str(python), "-m", *module, "--no-browser", "--expose-app-in-browser"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.open_browser=False"]
    command += [f"--ServerApp.root_dir={folder / 'root'}", f"--IdentityProvider.token={token}"]
    command += ["--allow-root"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, env=_environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield _address(folder, process)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def _extension(folder: Path) -> Path:
    """The extension as the wheel installs it, of the files that are here now."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    for source, target in shared.items():
        shutil.copytree(ROOT / source, folder / "installed" / target)
    return folder / "installed/share/jupyter/labextensions"


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
