"""Tests of tests/conftest.py: no silent skips of browser tests, and golden texts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = [Path(__file__).parents[1] / name for name in ("conftest.py", "parallel.py")]
MARKED = "import pytest\n@pytest.mark.{mark}\ndef test_it(): pytest.skip('no browser here')\n"
WHOLE = "import pytest\npytest.skip('no browser here', allow_module_level=True)\n"
GOLDEN = "def test_it(golden): golden('text', 'as printed')\n"


CASES = {
    "test_browser.py": MARKED.format(mark="browser"),
    "test_jupyter.py": MARKED.format(mark="jupyter"),
    "test_slow.py": MARKED.format(mark="slow"),
    "browser/test_whole.py": WHOLE,
    "compiler/test_whole.py": WHOLE,
}


def plant(folder: Path, files: dict[str, str]) -> None:
    for path, code in files.items():
        file = folder / "tests" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    for plugin in PLUGINS:
        shutil.copy(plugin, folder / "tests")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = browser\n jupyter\n slow\n")


def run(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """pytest on the planted tests, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
    environment = os.environ | variables
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(
        [*command, "tests"],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )


@pytest.fixture(scope="module", params=["1", "0"])
def outcomes(request, tmp_path_factory) -> tuple[str, dict[str, str]]:
    """Whether skips are forbidden, and what became of each file."""
    folder = tmp_path_factory.mktemp("skips")
    plant(folder, CASES)
    printed = run(
        folder, "-rA", "--continue-on-collection-errors", WORKBENCH_FORBID_SKIPS=request.param
    ).stdout
    said = re.findall(
        r"^(FAILED|ERROR|SKIPPED) (?:\[\d+\] )?tests/([\w/]+\.py)", printed, re.MULTILINE
    )
    return request.param, {path: word for word, path in said}


@pytest.mark.parametrize("path", CASES)
def test_a_skip_that_hides_a_view_fails(outcomes: tuple[str, dict[str, str]], path: str):
    forbid, words = outcomes
    hides = forbid == "1" and path not in {"test_slow.py", "compiler/test_whole.py"}
    assert (words[path] in {"FAILED", "ERROR"}) == hides


def test_golden_texts_are_compared_and_updated(tmp_path):
    plant(tmp_path, {"test_a.py": GOLDEN})
    assert run(tmp_path).returncode == 1
    assert run(tmp_path, "--update-golden").returncode == 0
    assert run(tmp_path).returncode == 0
    plant(tmp_path, {"test_a.py": GOLDEN.replace("printed", "changed")})
    assert run(tmp_path).returncode == 1


PROPERTY = """
import pytest
from hypothesis import given, settings, strategies as st
drawn = []
@pytest.mark.parametrize("k", range(60))
@settings(max_examples=3)
@given(x=st.integers(0, 10**9))
def test_it(k, x): drawn.append((k, x))
def test_what_was_drawn(): print("DRAWN", drawn)
"""


def drawn(folder: Path, run_seed: str) -> tuple[str, list[str]]:
    """The examples and test names that a run with this seed printed."""
    done = run(folder, "-s", "-v", WORKBENCH_TEST_SEED=run_seed)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert f"WORKBENCH_TEST_SEED={run_seed}" in lines
    names = [n for line in lines for n in re.findall(r"::(test_it\S+)", line)]
    return next(line for line in lines if "DRAWN" in line), names


def test_a_seed_gives_some_property_tests_other_examples_beside_the_fixed_ones(tmp_path):
    plant(tmp_path, {"test_a.py": PROPERTY})
    (first, names), again, (other, _) = (drawn(tmp_path, s) for s in ("1", "1", "2"))
    assert (first, names) == again
    assert first != other
    fixed = [n for n in names if "-seed" not in n]
    assert fixed == [f"test_it[{k}]" for k in range(60)]
    assert 0 < len(names) - len(fixed) < 20
