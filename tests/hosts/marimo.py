"""marimo: live views, the selection in other cells, and marimo's theme."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent

from playwright.sync_api import Browser

from tests.hosts.cells import CELLS, LONG, expect_drawn, expect_work, model, quiet

CELL = "@app.cell\ndef _({takes}):\n{code}\n    return {gives}\n\n"
WRAPPED = """import marimo as mo
chosen = mo.ui.anywidget(wb.widgets.GraphView(program))
chosen"""
SAID = 'mo.md(f"chosen: {chosen.selected}")'


def try_all(python: Path, folder: Path, browser: Browser) -> None:
    """Draw all views and use them."""
    shutil.copy(model(), folder / "small_cnn.onnx")
    (folder / "all.py").write_text(written(), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": 1300, "height": 1000}, reduced_motion="reduce", color_scheme="dark"
    )
    with serving(python, folder) as url, context:
        page = context.new_page()
        complaints = quiet(page, "no noise")
        page.goto(url)
        outputs = page.locator("marimo-anywidget")
        outputs.nth(len(CELLS)).locator(".wb-canvas").first.wait_for(timeout=LONG)
        for number, name in enumerate(CELLS):
            expect_drawn(outputs.nth(number), f"marimo-{name}")
        expect_work(page.locator(".wb-frame"))
        expect_drawn(outputs.nth(len(CELLS)), "marimo-chosen")
        selected = page.locator(".wb-inspector[data-id]").last.get_attribute("data-id")
        page.get_by_text(f"chosen: {selected}").wait_for(timeout=LONG)
        assert page.locator(".wb-dark").count() == 0, "the system is dark, marimo is light"
        assert complaints == []


def written() -> str:
    """The notebook as marimo stores it: functions that take and give what cells share."""
    gives = [("wb", "program"), ("build", "explorer"), ("view",), ("report",), ()]
    takes = [
        (),
        ("wb", "program"),
        ("wb", "program"),
        ("wb", "program"),
        ("wb", "program", "build"),
    ]
    cells = [*zip(CELLS.values(), takes, gives, strict=True)]
    cells += [(WRAPPED, ("wb", "program"), ("mo", "chosen")), (SAID, ("mo", "chosen"), ())]
    text = [
        CELL.format(takes=", ".join(a), code=indent(code, "    "), gives=f"({', '.join(b)},)" if b else "")
        for code, a, b in cells
    ]  # fmt: skip
    return "import marimo\n\napp = marimo.App()\n\n" + "".join(text)


@contextmanager
def serving(python: Path, folder: Path) -> Generator[str]:
    """Serves the notebook; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [str(python), "-m", "marimo", "run", "all.py", "--headless", "--no-token"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", port],
            cwd=folder, env=os.environ | {"HOME": str(folder)}, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield answering(f"http://127.0.0.1:{port}/", process)
        finally:
            process.terminate()
            process.wait(20)


def answering(url: str, process: subprocess.Popen[bytes]) -> str:
    """The address, once there is an answer."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}health", timeout=5).close()
        except urllib.error.URLError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
        else:
            return url
    raise RuntimeError("marimo did not start")
