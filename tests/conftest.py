"""Fixtures of all tests: golden transcripts, hypothesis profiles, a seed, and the ban on silent skips."""

import gc
import os
import secrets
import shutil
import sys
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, seed, settings

from tests import parallel

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Workers share the cores, and NumPy's threads burn time while they wait for one: a third of it is left
# without them. Read when NumPy is loaded, which nothing above does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# nbformat loads jsonschema, and that a package that takes a second to make forty parsers, for a format that
# no notebook has. It does without.
sys.modules.setdefault("rfc3987_syntax", None)

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parent.parent
CHROMIUM_FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]
SEEN_BY_A_PERSON = {"browser", "jupyter"}
SLICE = 12
"""One property test in so many is run once more, with examples that the seed of the run gives."""

settings.register_profile("fast", max_examples=25, deadline=None, derandomize=True)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fast")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that rewrites golden transcripts."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what is printed now into tests/golden instead of comparing with it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """One seed and one folder of compiled kernels for all processes of a run."""
    parallel.hold_events(config)
    os.environ.setdefault("WORKBENCH_CACHE", str(ROOT / "build" / "cache"))
    os.environ.setdefault("WORKBENCH_TEST_SEED", str(secrets.randbelow(1 << 32)))
    gc.disable()


def pytest_collection_finish() -> None:
    """Leaves what collection made, which all lives on, out of garbage collections: an eighth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_report_header() -> str:
    """The variable that repeats what this run drew."""
    return f"WORKBENCH_TEST_SEED={os.environ['WORKBENCH_TEST_SEED']}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> parallel.Scheduling:
    """The scheduler of all parallel runs."""
    return parallel.Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Takes what a worker sends."""
    parallel.take_events(node)


class Seeded(pytest.Function):
    """A property test with examples of the run's seed in place of its fixed ones."""

    def runtest(self) -> None:
        """Runs the test with the seed, and leaves it without."""
        seed(int(os.environ["WORKBENCH_TEST_SEED"]))(self.function)
        try:
            super().runtest()
        finally:
            seed(None)(self.function)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the random slice beside the fixed tests, and what waits for a browser before all others."""
    parallel.restore_order(items)
    items[:] = [one for item in items for one in (item, *_seeded(item))]
    items.sort(key=lambda item: not any(item.iter_markers("jupyter")))


def _seeded(item: pytest.Item) -> list[pytest.Item]:
    known = f"{item.nodeid} {os.environ['WORKBENCH_TEST_SEED']}".encode()
    if not isinstance(item, pytest.Function) or zlib.crc32(known) % SLICE:
        return []
    if not getattr(item.function, "is_hypothesis_test", False):
        return []
    made = Seeded.from_parent(
        item.parent,
        name=f"{item.name}-seed",
        callspec=getattr(item, "callspec", None),
        callobj=item.obj,
        fixtureinfo=item._fixtureinfo,
        originalname=f"{item.originalname}-seed",
    )
    return [made]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name", text)` compares text with tests/golden/name.txt."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.relative_to(ROOT)} is missing: run `make golden`, and read it"
        assert text == path.read_text(encoding="utf-8"), "`make golden` accepts the new text"

    return check


@pytest.fixture(scope="session")
def pictures() -> Path:
    """The folder that screenshots are kept in, to be looked at."""
    folder = ROOT / "build" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def chromium() -> "Generator[Browser]":
    """Headless Chromium: one a process, for one process cannot hold two of Playwright's loops."""
    from playwright.sync_api import (
        sync_playwright,
    )  # where there is no browser there may be no Playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


def _fails_skips() -> bool:
    return os.environ.get("WORKBENCH_FORBID_SKIPS", "") not in {"", "0"}


def _forbid(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"WORKBENCH_FORBID_SKIPS is set, and {report.nodeid} was skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport]:
    """Makes a skipped browser or JupyterLab test a failure where skips are forbidden."""
    report = yield
    marks = {mark.name for mark in item.iter_markers()}
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if skipped and marks & SEEN_BY_A_PERSON and _fails_skips():
        _forbid(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport]:
    """Makes a browser or JupyterLab test file skipped as a whole a failure too."""
    report = yield
    if isinstance(collector, pytest.Directory):
        parallel.turn(collector.config, report.result)
    folders = set(collector.path.relative_to(ROOT).parts) if collector.path else set()
    if report.skipped and folders & SEEN_BY_A_PERSON and _fails_skips():
        _forbid(report)
    return report
