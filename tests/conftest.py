"""What every test can use: golden transcripts, hypothesis profiles, and the ban on quiet skips."""

import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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
    folders = set(collector.path.relative_to(ROOT).parts) if collector.path else set()
    if report.skipped and folders & SEEN_BY_A_PERSON and _fails_skips():
        _forbid(report)
    return report
