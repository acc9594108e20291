"""The linker of CI: a kernel without libraries if it needs none, all else as the linker was told."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / ".ci" / "bin"
KERNEL = "float twice(float x) { return x + x; }"
CALLS = "#include <string.h>\nvoid clear(char *x, int n) { memset(x, 0, n); }"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc compiles what is linked")
@pytest.mark.parametrize(
    ("source", "name", "needs_libc"),
    [(KERNEL, "tempfile_a", False), (CALLS, "tempfile_a", True), (CALLS, "other", True)],
)
def test_libraries_are_linked_where_they_are_needed(tmp_path, source, name, needs_libc):
    made = tmp_path / "a folder" / f"{name}.so"
    made.parent.mkdir()
    compiled = ["gcc", "-c", "-fPIC", "-O1", "-xc", "-", "-o", f"{made}.o"]
    subprocess.run(compiled, input=source, text=True, check=True)
    environment = os.environ | {"PATH": f"{FOLDER}:{os.environ['PATH']}"}
    linked = ["ld", "-shared", "-o", made, f"{made}.o"]
    subprocess.run([*linked, "--as-needed", "-lc"], env=environment, check=True)
    assert (b"libc.so.6" in made.read_bytes()) == needs_libc
