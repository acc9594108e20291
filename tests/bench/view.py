"""(e) A graph of 5,000 instructions in headless Chromium, beside Netron: first paint and drag."""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from tests.bench import browser, ours
from tests.bench.measure import Claim, Contender, Outcome, race
from tests.models import samples, small

LAYERS = {"517 nodes": 10, "2,404 nodes": 47, "5,107 nodes": 100}
SUBJECTS = tuple(LAYERS)
JUDGED = {"2,404 nodes", "5,107 nodes"}  # 5,000 instructions, and twice as many
AS_IT_OPENS, OPENED, NETRON = "GraphView", "GraphView, all groups open", "Netron"
READY_MS = 120_000
EVERYTHING = "[title^='Show everything'], [aria-label^='Show everything']"


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times the opening of one encoder and counts frames while it is dragged."""
    with _stage(subject) as (fresh, path), _netron(fresh, path) as netron:
        contenders: dict[str, Contender] = {}
        if with_ours:
            program = _program(path)
            contenders |= {n: _graph_view(fresh, program, path, n) for n in (AS_IT_OPENS, OPENED)}
        contenders[NETRON] = netron
        found = race("view", subject, contenders, repeat=7, seconds=seconds)
        rates = {name: _rates(contender) for name, contender in contenders.items()}
    facts = [(f"{subject}: frames a second while dragged (worst, median)", rates)]
    if with_ours:
        facts.append((f"{subject}: instructions", len(program.main)))
    claims: list[Claim] = []
    if with_ours and subject in JUDGED:
        for name in (AS_IT_OPENS, OPENED):
            text = f"{name}: call to first paint"
            claims.append(Claim("view", subject, text, found[name].median, 2.0, unit="s"))
            text = f"{name}: slowest while dragged"
            claims.append(Claim("view", subject, text, rates[name][0], 30, True, unit="frames/s"))
    return Outcome(tuple(found.values()), tuple(claims), tuple(facts))


@contextmanager
def _stage(subject: str) -> Generator[tuple[Callable[[], Any], Path]]:
    """A maker of pages (each closes the one before) and the file of the encoder."""
    with (
        tempfile.TemporaryDirectory() as folder,
        browser.chromium(shutil.which("chromium")) as chromium,
    ):
        path = Path(folder) / "encoder.onnx"
        onnx.save(small.encoder(LAYERS[subject]), path)
        pages: list[Any] = []

        def fresh() -> Any:
            while pages:
                pages.pop().context.close()
            pages.append(browser.new_page(chromium, allowed=("http://localhost:",)))
            return pages[-1]

        yield fresh, path


def _program(path: Path) -> Any:
    """The encoder, parsed."""
    return ours.parse(path, samples.tokens(small.VOCABULARY, small.SEQUENCE))


def _graph_view(fresh: Callable[[], Any], program: Any, path: Path, name: str) -> Contender:
    """`GraphView(program)`, its page, and Chromium until the canvas is drawn on."""

    def show(page: Any) -> Any:
        from workbench.widgets import GraphView

        view = GraphView(program)
        if name == OPENED:
            view.expanded = list(view.columns()["groups"]["key"])
        target = path.with_suffix(".html")
        view.to_html(target)
        page.goto(target.as_uri(), wait_until="commit")
        page.wait_for_function(browser.PAINTED, polling="raf", timeout=READY_MS)
        return page

    return Contender(show, fresh)


@contextmanager
def _netron(fresh: Callable[[], Any], path: Path) -> Generator[Contender]:
    """Netron's page from its own server, until the first nodes have their places."""
    import netron

    with contextlib.redirect_stdout(io.StringIO()):
        server = netron.start(str(path), browse=False)
    address = f"http://{server[0]}:{server[1]}"

    def prepare() -> Any:
        page = fresh()
        page.context.add_cookies([{"name": "consent", "value": "1", "url": address}])
        return page

    def show(page: Any) -> Any:
        page.goto(address, wait_until="commit")
        page.wait_for_selector("g.node[transform]", state="attached", timeout=READY_MS)
        return page

    yield Contender(show, prepare, at_most=2)
    with contextlib.redirect_stdout(io.StringIO()):
        netron.stop(server)


def _rates(contender: Contender) -> tuple[float, float]:
    """The worst and the median frame rate while the opened view is dragged.

    It is dragged as it opens and, where there is a button for it, with everything in sight.
    """
    page = contender.run(contender.prepare())
    area, everything = page.locator("canvas, #target").first, page.locator(EVERYTHING)
    page.wait_for_timeout(500)
    gaps = [browser.drag(area)]
    if everything.count():
        everything.first.click()
        page.wait_for_timeout(500)
        gaps.append(browser.drag(area))
    worst = min(browser.worst_rate(g) for g in gaps)
    return round(worst, 1), round(min(browser.typical_rate(g) for g in gaps), 1)
