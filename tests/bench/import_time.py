"""(d) The time that `import workbench` takes, and what it pulls in."""

import json
import subprocess
import sys

from tests.bench.measure import Claim, Outcome, Timing

SUBJECTS = ("import",)
OURS, ROUNDS = "workbench", 10
PEERS = ("numpy", "onnx", "onnxruntime", "onnxscript", "torch")
UNWANTED = ("IPython", "anywidget", "ipywidgets", "matplotlib", "onnx", "pandas")
SCRIPT = """
import json, sys, time
start = time.perf_counter()
import {name}
passed = time.perf_counter() - start
print(json.dumps([passed, sorted({{m.partition(".")[0] for m in sys.modules}})]))
"""


def fresh_import(name: str) -> tuple[float, list[str]]:
    """The seconds that importing a package takes in a new process, and the packages then loaded."""
    command = [sys.executable, "-c", SCRIPT.format(name=name)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, packages = json.loads(output.splitlines()[-1])
    return seconds, packages


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Times imports in new processes, package after package, round after round."""
    names = ([OURS] if with_ours else []) + list(PEERS)
    for name in names:
        fresh_import(name)
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            found[name].append(fresh_import(name)[0])
    timings = {n: Timing("import", subject, f"import {n}", tuple(s)) for n, s in found.items()}
    if not with_ours:
        return Outcome(tuple(timings.values()))
    pulled_in = [p for p in fresh_import(OURS)[1] if p in UNWANTED]
    median = timings[OURS].median
    claims = (
        Claim("import", subject, "import workbench", median, 0.3, unit="s"),
        Claim("import", subject, "unwanted packages pulled in", len(pulled_in), 0, unit=""),
    )
    return Outcome(tuple(timings.values()), claims, (("pulled in by import", pulled_in),))
