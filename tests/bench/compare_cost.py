"""(k) Comparing every value with the reference, beside a run and beside Polygraphy; and bisecting.

Each contender has a process of its own with one thread, and its processor time counts:
so what else the machine does changes little. Polygraphy is installed apart by `make polygraphy`.
"""

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest import mock

import numpy as np

from tests.bench import growth, ours
from tests.bench.measure import Claim, Outcome, Timing, processor_times
from tests.bench.memory import forget_peak, peak
from tests.models import samples, small
from tests.models.registry import MODELS

ENCODER = "encoder_12"
SUBJECTS = (
    "resnet50", "bert_base", "light_resnet50", "light_densenet121", "pplcnet_orient", ENCODER,
)  # fmt: skip
BISECTED = (ENCODER, "bert_base")
"""The encoders whose compilation is bisected."""
RUN, COMPARE, WHOLE = "one ref run", "compare", "parse, compile, compare"
DOUBLE = "one ref run in float64"
"""The run that a comparison makes for its reference."""
AS_TYPED = "compare with ref as typed"
"""A comparison whose reference computes in the program's own types."""
POLYGRAPHY, POLYGRAPHY_WHOLE = "Polygraphy", "Polygraphy with loading"
GPU_RUN, GPU_COMPILE = "one OpenCL run", "compile for OpenCL"
SOUND, FAULTY = "bisect beside compiling, nothing wrong", "bisect beside compiling, a wrong rewrite"
OF_A_RUN, OF_POLYGRAPHY, OF_A_GPU_RUN = 3.0, 0.4, 15.0
BISECTIONS = 4
BUDGET = 512 * 2**20
MIB = 2**20
PEER = "WORKBENCH_POLYGRAPHY"
"""The variable with the Python that has Polygraphy."""
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "WORKBENCH_THREADS": "1",
}  # fmt: skip


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Processor seconds of a comparison, of a run and of Polygraphy; memory beyond the loaded build."""
    found: dict[str, dict[str, Any]] = _polygraphy(subject, seconds)
    facts: dict[str, float] = {}
    if with_ours:
        found |= _own(subject, "times", seconds)
        facts = _own(subject, "memory", seconds)
    if with_ours and subject in BISECTED:
        found |= _own(subject, "bisect", seconds)
    timings = tuple(
        Timing("compare", subject, name, tuple(s["processor"])) for name, s in found.items()
    )
    walls = ((f"compare, {subject}, {name}", _described(s)) for name, s in found.items())
    sizes = ((f"memory, {subject}, {name}", f"{size:.0f} MiB") for name, size in facts.items())
    least = {t.name: min(t.seconds) for t in timings}
    return Outcome(timings, tuple(_claims(subject, least, facts)), (*walls, *sizes))


def _described(times: Mapping[str, list[float]]) -> str:
    cpu, wall = times["processor"], times["wall"]
    return (
        f"{min(cpu) * 1e3:,.1f} ms of processor time at least, {median(cpu) * 1e3:,.1f} in the median; "
        f"{median(wall) * 1e3:,.1f} ms on the clock; {len(cpu)} times"
    )


def _claims(subject: str, least: Mapping[str, float], sizes: Mapping[str, float]) -> list[Claim]:
    """The goals, of the least processor times."""
    pairs = [
        (COMPARE, RUN, OF_A_RUN), (AS_TYPED, RUN, OF_A_RUN), (COMPARE, DOUBLE, OF_A_RUN),
        (COMPARE, POLYGRAPHY, OF_POLYGRAPHY),
        (WHOLE, POLYGRAPHY_WHOLE, OF_POLYGRAPHY),
    ]  # fmt: skip
    made = [
        Claim("compare", subject, f"{a} / {b}", least[a] / least[b], limit)
        for a, b, limit in pairs
        if {a, b} <= least.keys()
    ]
    for name in {SOUND, FAULTY} & least.keys():
        ratio = least[name] / least[GPU_RUN]
        made.append(Claim("compare", subject, f"{name} / {GPU_RUN}", ratio, OF_A_GPU_RUN))
    for name, size in sizes.items():
        made.append(Claim("compare", subject, name, size, BUDGET / MIB, unit="MiB"))
    return made


# Processes


def _own(subject: str, kind: str, seconds: float) -> dict[str, Any]:
    return _answer([sys.executable, "-m", "tests.bench.compare_cost", subject, kind, str(seconds)])


def _polygraphy(subject: str, seconds: float) -> dict[str, Any]:
    """Polygraphy's times; nothing where it is not installed."""
    python = os.environ.get(PEER)
    if not python:
        return {}
    path, inputs = _model(subject)
    with TemporaryDirectory() as folder:
        given = Path(folder) / "inputs.npz"
        np.savez(given, **inputs)
        module = ["-W", "ignore", "-m", "tests.bench.polygraphy_peer"]
        return _answer([python, *module, str(path), str(given), str(seconds)])


def _answer(command: list[str]) -> dict[str, Any]:
    """The JSON in the last line of a command's output."""
    env = os.environ | ONE_THREAD
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


# In a process


def _model(subject: str) -> tuple[Path, dict[str, Any]]:
    if subject == ENCODER:
        return growth.written(12), samples.tokens(small.VOCABULARY, small.SEQUENCE)
    return MODELS[subject].path, MODELS[subject].inputs()


def _times(path: Path, inputs: dict[str, Any], seconds: float) -> dict[str, Any]:
    import workbench as wb

    ref, build = (ours.compiled(path, inputs, target) for target in ("ref", "cpu"))

    def whole() -> None:
        wb.compare(ours.compiled(path, inputs, "cpu"), inputs, progress=False)

    steps = {
        RUN: lambda: ref.run(inputs),
        DOUBLE: lambda: ref.run(inputs, precision="float64"),
        COMPARE: lambda: wb.compare(build, inputs, progress=False),
        AS_TYPED: lambda: wb.compare(build, inputs, reference_precision="float32", progress=False),
        WHOLE: whole,
    }
    return processor_times(steps, seconds=seconds)


def _memory(path: Path, inputs: dict[str, Any], _: float) -> dict[str, float]:
    """Mebibytes of a comparison beyond the build that has run once: resident, and in NumPy's arrays."""
    import workbench as wb

    build = ours.compiled(path, inputs, "cpu")
    build.run(inputs)
    forget_peak()
    before = peak()
    wb.compare(build, inputs, progress=False)
    resident = peak() - before
    tracemalloc.start()
    wb.compare(build, inputs, progress=False)
    allocated = tracemalloc.get_traced_memory()[1]
    return {"compare, resident": resident / MIB, "compare, allocated": allocated / MIB}


def _bisect(path: Path, inputs: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Bisecting a compilation for OpenCL, with and without a rule that is wrong in every layer."""
    import workbench as wb
    from workbench.compiler.passes.base import RewritePass
    from workbench.compiler.rewrite import op, var

    @wb.rule(op("erf", var("x")))
    def erf_is_tanh(b: Any, x: Any) -> Any:
        """erf(x) → tanh(x)"""
        return b("tanh", x)

    class Mistaken(RewritePass):
        """Break every erf."""

        name: ClassVar[str] = "mistaken"
        rules: ClassVar = (erf_is_tanh,)

    program = ours.parse(path, inputs)
    build = wb.compile(program, "gpu")
    wrong = [Mistaken(), "gpu"]
    assert wb.bisect(program, inputs, target="gpu", passes=wrong, progress=False).found
    steps = {
        GPU_RUN: lambda: build.run(inputs),
        GPU_COMPILE: lambda: wb.compile(program, "gpu"),
    }
    sound = partial(wb.bisect, program, inputs, target="gpu", progress=False)
    return processor_times(steps, seconds=seconds) | {
        SOUND: _beside_compiling(sound, inputs),
        FAULTY: _beside_compiling(partial(sound, passes=wrong), inputs),
    }


def _beside_compiling(bisect: Callable[[], Any], inputs: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of bisections without those of compiling, loading and a first run inside them.

    Those take ten times as long, so that a difference of two measurements would say little.
    """
    module = import_module("workbench.numerics.bisect.bisect")
    clocks = {"processor": time.process_time, "wall": time.perf_counter}
    found: dict[str, list[float]] = {name: [] for name in clocks}
    inside: dict[str, float] = {}
    compiled = module.compile

    def ready(*given: Any, **options: Any) -> Any:
        began = {name: clock() for name, clock in clocks.items()}
        made = compiled(*given, **options)
        made.run(inputs)
        inside.update({name: clock() - began[name] for name, clock in clocks.items()})
        return made

    with mock.patch.object(module, "compile", ready):
        for _ in range(BISECTIONS):
            began = {name: clock() for name, clock in clocks.items()}
            bisect()
            for name, clock in clocks.items():
                found[name].append(clock() - began[name] - inside[name])
    return found


if __name__ == "__main__":
    subject, kind, limit = sys.argv[1:]
    child = {"times": _times, "memory": _memory, "bisect": _bisect}[kind]
    print(json.dumps(child(*_model(subject), float(limit))))
