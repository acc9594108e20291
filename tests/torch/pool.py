"""Architectures measured in processes of their own, several at a time, each with a time limit."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.torch.rows import Row

FIRST = (
    "mobileone",
    "maxvit",
    "densenet",
    "efficientnetv2",
    "swin",
    "inception",
    "hrnet",
    "ghostnet",
)
"""Parts of the names of those that take longest; they begin first, so that none is left over at the end."""


def in_processes(
    names: Sequence[str], device: str, target: str, jobs: int, limit: float
) -> Iterator[Row]:
    """The rows of architectures as they come; an error, a crash or a time limit is a row, too.

    Args:
        names: The architectures.
        device: Where weights and inputs are.
        target: What the workbench compiles for; the device's own if it is empty.
        jobs: The number of processes at a time.
        limit: Seconds for each.
    """
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    ordered = sorted(names, key=lambda n: not any(part in n for part in FIRST))
    with ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as folder:
        made = [
            pool.submit(_measured, n, device, target, limit, threads, Path(folder, str(k)))
            for k, n in enumerate(ordered)
        ]
        for future in as_completed(made):
            yield future.result()


def _measured(name: str, device: str, target: str, limit: float, threads: str, path: Path) -> Row:
    command = [sys.executable, "-m", "tests.torch.measured", name, device, target, str(path)]
    log = path.with_suffix(".log")
    env = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Row(name, device, seconds=limit, error=f"took more than {limit:.0f} s")
    if path.exists():
        return Row(**json.loads(path.read_text()))
    end = log.read_text(errors="replace").strip()[-600:]
    return Row(name, device, error=f"the process ended with code {code}: {end}")
