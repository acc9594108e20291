"""(n) Files of 5,000, 20,000 and 50,000 nodes beside Netron and Model Explorer: first picture, frames.

The peers are installed apart by `make viewers`; each serves the file itself, and its server runs before the
clock does. All three read the file within the time. Model Explorer reads ONNX by its extension
`model_explorer_onnx`.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import onnx

from tests.bench import browser, ours
from tests.bench.measure import Claim, Contender, Outcome, race
from tests.bench.views import LAYERS
from tests.models import samples, small

PEERS = "WORKBENCH_VIEWERS"
"""The variable with the folder of the peers' commands; without it, they are not measured."""
SUBJECTS = tuple(LAYERS)
OURS, NETRON, EXPLORER = "GraphView", "Netron", "Model Explorer"
WAIT_MS = 180_000
TURNS = 3
SHOWN = {
    OURS: browser.PAINTED,
    NETRON: "() => document.querySelector('g.node[transform]')",
    EXPLORER: "() => document.querySelector('webgl-renderer canvas.main')",
}
AREA = {OURS: "canvas", NETRON: "#target", EXPLORER: "webgl-renderer canvas.main"}


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times each viewer from the file to the first picture, in turn, then drags each."""
    from playwright.sync_api import Error

    facts: list[tuple[str, Any]] = []
    rates: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        _stage(Path(folder), subject) as (fresh, path),
        _peers(path) as addresses,
    ):
        found = {n: _peer(n, a, fresh) for n, a in addresses.items()}
        if with_ours:
            found[OURS] = Contender(lambda page: _own(page, path), fresh)
        for name, contender in [*found.items()]:
            try:
                rates[name] = _rate(contender, name)
            except Error as error:
                del found[name]
                facts.append((f"{subject}: {name}", str(error).partition("\n")[0]))
        timings = race("beside", subject, found, repeat=TURNS, seconds=seconds)
    facts.append((f"{subject}: frames a second while dragged (median)", rates))
    least = {name: min(timing.seconds) for name, timing in timings.items()}
    facts.append((f"{subject}: least seconds from file to first picture", least))
    claims = [
        Claim("beside", subject, f"{OURS} ÷ {name}", least[OURS] / least[name], 1)
        for name in least
        if OURS in least and name != OURS
    ]
    return Outcome(tuple(timings.values()), tuple(claims), tuple(facts))


@contextmanager
def _stage(folder: Path, subject: str) -> Generator[tuple[Callable[[], Any], Path]]:
    """A maker of pages (each closes the one before) and the file."""
    path = folder / "encoder.onnx"
    onnx.save(small.encoder(LAYERS[subject]), path)
    with browser.chromium(shutil.which("chromium"), browser.WITH_WEBGL) as chromium:
        pages: list[Any] = []

        def fresh() -> Any:
            while pages:
                pages.pop().context.close()
            pages.append(browser.new_page(chromium, allowed=("http://localhost:",)))
            pages[-1].set_default_timeout(WAIT_MS)
            return pages[-1]

        yield fresh, path


@contextmanager
def _peers(path: Path) -> Generator[dict[str, str]]:
    """The addresses of the peers' servers, which end with the context."""
    folder = os.environ.get(PEERS)
    if not folder:
        yield {}
        return
    ports = [_free_port(), _free_port()]
    asked = quote(f'{{"models": [{{"url": "{path}"}}]}}')
    commands = [
        ["netron", "--host", "localhost", "--port", str(ports[0]), str(path)],
        ["model-explorer", "--host", "localhost", "--port", str(ports[1]), "--no_open_in_browser",
         "--skip_health_check", "--extensions", "model_explorer_onnx", str(path)],
    ]  # fmt: skip
    env = os.environ | {"BROWSER": "true"}
    servers = [
        subprocess.Popen([Path(folder) / name, *rest], env=env, stdout=subprocess.DEVNULL)
        for name, *rest in commands
    ]
    try:
        for port in ports:
            _await(port)
        yield {
            NETRON: f"http://localhost:{ports[0]}",
            EXPLORER: f"http://localhost:{ports[1]}/?data={asked}",
        }
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def _await(port: int) -> None:
    """Wait until a server listens."""
    end = time.monotonic() + WAIT_MS / 1e3
    while time.monotonic() < end:
        try:
            socket.create_connection(("localhost", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"no server listens on port {port}")


def _peer(name: str, address: str, fresh: Callable[[], Any]) -> Contender:
    def prepare() -> Any:
        page = fresh()
        page.context.add_cookies([{"name": "consent", "value": "1", "url": address}])
        return page

    def show(page: Any) -> Any:
        page.goto(address, wait_until="commit")
        return _shown(page, name)

    return Contender(show, prepare, at_most=2)


def _own(page: Any, path: Path) -> Any:
    """The file read, `GraphView`, its page, and Chromium until the canvas is drawn on."""
    from workbench.widgets import GraphView

    program = ours.parse(path, samples.tokens(small.VOCABULARY, small.SEQUENCE))
    target = path.with_suffix(".html")
    GraphView(program).to_html(target)
    page.goto(target.as_uri(), wait_until="commit")
    return _shown(page, OURS)


def _shown(page: Any, name: str) -> Any:
    page.wait_for_function(SHOWN[name], polling="raf", timeout=WAIT_MS)
    return page


def _rate(contender: Contender, name: str) -> float:
    """The median frame rate while the view is dragged as it opens."""
    page = contender.run(contender.prepare())
    page.wait_for_timeout(1000)
    return round(browser.typical_rate(browser.drag(page.locator(AREA[name]).first)), 1)
