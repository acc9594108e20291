"""(m) Views of graphs of 5,000, 20,000 and 50,000 nodes: first picture, frames, explorer, steps, page."""

import asyncio
import gc
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import onnx

from tests.bench import browser, ours
from tests.bench.measure import Claim, Outcome
from tests.models import samples, small

LAYERS = {"5,021 nodes": 100, "20,021 nodes": 400, "49,021 nodes": 980}
FLAT = ", no scopes"
SUBJECTS = tuple(name + flat for name in LAYERS for flat in ("", FLAT))
READY_MS = 120_000
MB = 1e6


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Times a graph view and a pass explorer of one encoder, with its scopes or without any."""
    if not with_ours:
        return Outcome()
    with tempfile.TemporaryDirectory() as folder:
        program = _program(subject, Path(folder) / "encoder.onnx")
        claims = [*_graph(program, Path(folder) / "graph.html"), *_explorer(program)]
    return Outcome(claims=tuple(Claim("views", subject, *claim) for claim in claims))


def _program(subject: str, path: Path) -> Any:
    model = small.encoder(LAYERS[subject.removesuffix(FLAT)])
    if subject.endswith(FLAT):
        for k, node in enumerate(model.graph.node):
            node.name = f"n{k}"
    onnx.save(model, path)
    return ours.parse(path, samples.tokens(small.VOCABULARY, small.SEQUENCE))


def _timed(run: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> tuple[float, Any]:
    gc.collect()
    start = clock()
    made = run()
    return clock() - start, made


def _graph(program: Any, path: Path) -> list[tuple[Any, ...]]:
    """The graph view: from the call to the first picture, and frames while dragged with all groups open.

    The call runs on one thread and waits for nothing, so processor time is what it takes on an idle machine;
    the browser's time is the clock's.
    """
    from workbench.widgets import GraphView

    called, view = _timed(lambda: GraphView(program), process_time)
    view.to_html(path)
    size = path.stat().st_size / MB
    with browser.chromium(shutil.which("chromium")) as chromium:
        painted, page = _painted_in(chromium, path)
        page.context.close()
        view.expanded = sorted(view.scene.openable())
        view.to_html(path)
        opened, page = _painted_in(chromium, path)
        gaps = browser.drag(page.locator("canvas").first)
    return [
        ("GraphView: call", called, 2.5, False, "s"),
        ("GraphView: call to first picture", called + painted, 2.5, False, "s"),
        ("GraphView: call to first picture, all groups open", called + opened, 5, False, "s"),
        ("GraphView: median frame rate, all groups open", browser.typical_rate(gaps), 50, True,
         "frames/s"),
        ("GraphView: page", size, 20, False, "MB"),
    ]  # fmt: skip


def _painted_in(chromium: Any, path: Path) -> tuple[float, Any]:
    """The seconds until a page shows its graph, and the page."""
    page = browser.new_page(chromium)
    return _timed(lambda: _painted(page, path))


def _painted(page: Any, path: Path) -> Any:
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_function(browser.PAINTED, polling="raf", timeout=READY_MS)
    return page


def _explorer(program: Any) -> list[tuple[Any, ...]]:
    """The pass explorer: its call, and every step that changed something, when it is first looked at.

    It runs on one thread and waits for nothing, so processor time is what it takes on an idle machine.
    """
    import workbench as wb
    from workbench.widgets import PassExplorer

    recording = wb.compile(program, "cpu").recording
    called, view = _timed(lambda: PassExplorer(recording), process_time)
    shown = view.step
    changed = [k for k, step in enumerate(recording.steps) if step.edits and k != shown]
    first, rest = asyncio.run(_first(view, changed))
    ahead = asyncio.run(_ahead(recording, changed))
    again = [_timed(lambda k=k: setattr(view, "step", k), process_time)[0] for k in changed]
    return [
        ("PassExplorer: call", called, 4, False, "s"),
        ("PassExplorer: step seen first, median", statistics.median(first), 0.3, False, "s"),
        ("PassExplorer: step seen first, slowest", max(first), 0.3, False, "s"),
        (
            "PassExplorer: the rest inside closed groups, slowest",
            max(rest, default=0.0),
            3,
            False,
            "s",
        ),
        ("PassExplorer: step made ahead, slowest", max(ahead), 0.3, False, "s"),
        ("PassExplorer: step seen again, slowest", max(again), 0.3, False, "s"),
    ]


async def _first(view: Any, steps: list[int]) -> tuple[list[float], list[float]]:
    """The seconds until each step is answered, and until what closed groups hide follows.

    It runs in a loop as a kernel does, but nothing is made ahead.
    """
    first: list[float] = []
    rest: list[float] = []
    for k in steps:
        first.append(_timed(lambda k=k: setattr(view, "step", k), process_time)[0])
        view._ahead.stop()  # pyright: ignore[reportPrivateUsage]
        if k not in view._made:  # pyright: ignore[reportPrivateUsage]
            finish = view._make_ahead  # pyright: ignore[reportPrivateUsage]
            rest.append(_timed(finish, process_time)[0])
    return first, rest


async def _ahead(recording: Any, steps: list[int]) -> list[float]:
    """The seconds that steps take one after the other, each looked at until the next has been made."""
    from workbench.widgets import PassExplorer

    view = PassExplorer(recording)
    times: list[float] = []
    for k in [k for k in steps if k > view.step]:
        while k not in view._made:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.05)
        times.append(_timed(lambda k=k: setattr(view, "step", k), process_time)[0])
    return times
