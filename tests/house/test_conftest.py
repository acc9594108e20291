"""What tests/conftest.py promises: no quiet skips of what a person would look at, and golden texts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
MARKED = "import pytest\n@pytest.mark.{mark}\ndef test_it(): pytest.skip('no browser here')\n"
WHOLE = "import pytest\npytest.skip('no browser here', allow_module_level=True)\n"
GOLDEN = "def test_it(golden): golden('text', 'as printed')\n"


def outcome(folder: Path, path: str, code: str, *options: str, forbid: str = "1") -> int:
    file = folder / "tests" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    shutil.copy(CONFTEST, folder / "tests" / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = browser\n jupyter\n slow\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests"]
    environment = os.environ | {"WORKBENCH_FORBID_SKIPS": forbid}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode


@pytest.mark.parametrize(
    ("path", "code", "forbid", "fails"),
    [
        ("test_a.py", MARKED.format(mark="browser"), "1", True),
        ("test_a.py", MARKED.format(mark="jupyter"), "1", True),
        ("test_a.py", MARKED.format(mark="slow"), "1", False),
        ("test_a.py", MARKED.format(mark="browser"), "0", False),
        ("browser/test_a.py", WHOLE, "1", True),
        ("compiler/test_a.py", WHOLE, "1", False),
    ],
)
def test_a_skip_that_hides_a_view_fails(tmp_path, path, code, forbid, fails):
    assert (outcome(tmp_path, path, code, forbid=forbid) in {1, 2}) == fails


def test_golden_texts_are_compared_and_updated(tmp_path):
    assert outcome(tmp_path, "test_a.py", GOLDEN) == 1
    assert outcome(tmp_path, "test_a.py", GOLDEN, "--update-golden") == 0
    assert outcome(tmp_path, "test_a.py", GOLDEN) == 0
    assert outcome(tmp_path, "test_a.py", GOLDEN.replace("printed", "changed")) == 1
