"""PoCL where it cannot compile: found out in another process, said, and answered with `cpu`."""

import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest

from workbench.gpu.devices import pocl
from workbench.knobs import knobs

RUN = """
import numpy as np
import workbench as wb
text = 'module: "main"\\nx = @param:x -> float_type, {2}, {1}\\ny = neg(x) -> float_type, {2}, {1}\\n'
build = wb.compile(wb.parse(text), target="gpu")
print(build.run({"x": np.ones(2, np.float32)}).outputs)
"""


def test_without_a_linker_a_program_runs_on_the_cpu(tmp_path):
    environment = os.environ | {"PATH": str(tmp_path), "WORKBENCH_CACHE": str(tmp_path)}
    for name in ("POCL_CACHE_DIR", "WORKBENCH_DEVICE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "array([-1., -1.]" in done.stdout
    assert "no linker `ld` on the PATH" in done.stderr
    assert "Install a linker" in done.stderr
    assert "runs on `cpu` now" in done.stderr


def test_what_works_is_probed_once(tmp_path, monkeypatch):
    calls: list[object] = []

    def run(*args: object, **_: object) -> SimpleNamespace:
        calls.append(args)
        return SimpleNamespace(returncode=len(calls) == 1, stderr="Final linking failed")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    with knobs.scope(cache=str(tmp_path / "cache")):
        with pytest.raises(pocl.UnusableError, match=r"Final linking failed.*target='cpu'"):
            pocl.probe("1")
        for version in ("1", "1", "2"):
            pocl.probe(version)
    assert len(calls) == 3


def test_no_folder_and_no_room_are_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with knobs.scope(cache=str(tmp_path / "file")):
        monkeypatch.setattr(pocl, "keep", lambda *_: False)
        with pytest.raises(pocl.UnusableError, match=r"has room.*WORKBENCH_CACHE"):
            pocl.settle()

        def refuse(**_: object) -> str:
            raise FileNotFoundError("No usable temporary directory found")

        monkeypatch.setattr(tempfile, "mkdtemp", refuse)
        with pytest.raises(pocl.UnusableError, match="no folder can be written: No usable"):
            pocl.settle()
