"""(f) Peak memory of loading and running, each in a process of its own, beside onnxruntime."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench import ours, peers
from tests.bench.measure import Claim, Outcome
from tests.bench.run_time import SUBJECTS
from tests.models.registry import MODELS

__all__ = ["SUBJECTS", "measure"]

KINDS = {"onnxruntime CPU": "onnxruntime", "workbench cpu": "cpu"}
MB = 1e6
SMALL = 1.0
"""Megabytes below which whole pages and the allocator's habits decide, so that nothing is claimed."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Megabytes beyond the imported libraries: while the model is loaded, and while it runs."""
    found = {
        who: _in_a_process(subject, kind)
        for who, kind in KINDS.items()
        if with_ours or kind == "onnxruntime"
    }
    facts = tuple(
        (f"memory, {subject}, {who}", f"{m['load']:.1f} MB to load, {m['run']:.1f} MB to run")
        for who, m in found.items()
    )
    if not with_ours:
        return Outcome(facts=facts)
    peer, own = (found[who]["run"] for who in KINDS)
    claim = Claim("memory", subject, "workbench cpu / onnxruntime CPU", own / peer, 1.5)
    return Outcome(claims=(claim,) if peer > SMALL else (), facts=facts)


def _in_a_process(subject: str, kind: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.memory", subject, kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak() -> float:
    """The largest resident size since the start or the last `forget_peak`, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return float(line.split()[1]) * 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def forget_peak() -> None:
    """Let the peak count from here on, where the system can do that."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def _runner(kind: str, path: Path, inputs: dict[str, Any]) -> Any:
    """The function that runs a model, loaded here."""
    if kind == "onnxruntime":
        session = peers.session(path)
        return lambda: session.run(None, inputs)
    build = ours.compiled(path, inputs, kind)
    return lambda: build.run(inputs)


def _child(subject: str, kind: str) -> dict[str, float]:
    """The memory of one contender beyond that of a run of the smallest model."""
    model, first = MODELS[subject], MODELS["small_cnn"]
    path, inputs = model.path, model.inputs()
    _runner(kind, first.path, first.inputs())()
    forget_peak()
    before = peak()
    run = _runner(kind, path, inputs)
    load = peak() - before
    forget_peak()
    for _ in range(2):
        run()
    return {"load": load / MB, "run": (peak() - before) / MB}


if __name__ == "__main__":
    print(json.dumps(_child(*sys.argv[1:])))
