"""A test that hangs ends its process: it is reported once, and the others run."""

import re
import subprocess
import sys
from pathlib import Path

from tests import parallel

CONFTEST = """
from tests import parallel
pytest_configure = parallel.hold_events
def pytest_xdist_make_scheduler(config, log): return parallel.Scheduling(config, log)
def pytest_configure_node(node): parallel.take_events(node)
"""
HANGS = """
import time, pytest
@pytest.mark.parametrize("number", range(3))
def test_one(number): time.sleep(60 * (number == 1))
"""
PASSES = "def test_another(): pass\n"
INI = "[pytest]\nfaulthandler_timeout = 0.5\nfaulthandler_exit_on_timeout = true\n"


def test_a_test_that_hangs_is_reported_once_and_all_others_run(tmp_path: Path):
    folder = tmp_path / "tests"
    folder.mkdir()
    files = {"__init__": "", "conftest": CONFTEST, "test_hangs": HANGS, "test_passes": PASSES}
    files["parallel"] = Path(parallel.__file__).read_text()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text(INI)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--no-loadscope-reorder", "-q"]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert re.search(r"^1 failed, 3 passed", run.stdout, re.MULTILINE), run.stdout + run.stderr
    assert "crashed while running 'tests/test_hangs.py::test_one[1]'" in run.stdout
    assert "Timeout" in run.stderr
    assert "in test_one" in run.stderr
