"""The search for the fastest kernels: a program is profiled with one variant of each problem at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from workbench.compiler.counts import is_count
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.progress import progress_bar
from workbench.compiler.report.tuning import Problem, Tuning
from workbench.compiler.text.printing import names
from workbench.gpu.choices import Choices
from workbench.gpu.code.cache_folder import cache_folder, keep, kept_json
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import KernelStep, Plan
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.profile import profiled

Seconds: TypeAlias = dict[str, dict[str, float]]
"""The time of each variant of each problem."""
Make: TypeAlias = Callable[[Mapping[str, str]], Executable]
"""A function that loads the program with some variants."""
_REPETITIONS = 5
_NOISE = 0.03
"""The share by which another variant has to be faster than the one that was estimated to be."""
_CLEAR = 1.1
"""The gain of a variant that is tried in the whole program even without those that gain less."""
_BURST = 10
"""Runs of a whole program between two events."""
_MOST_KEPT = 20_000
"""The most problems whose times are kept on disk; the oldest go."""


def search(
    program: Program,
    device: Device,
    load: Callable[[Plan], Executable],
    inputs: Mapping[str, Any],
    most: int,
    progress: bool | None,
) -> Tuning:
    """Measure the variants of all problems of a program, those that are not known for this device.

    Args:
        program: The compiled program.
        device: The device.
        load: Compiles and loads a plan.
        inputs: An array for each parameter.
        most: The most variants of a problem.
        progress: Show a progress bar; None shows one after the first second.

    Raises:
        OperationError: The number of variants is not positive.
        DeviceError: A kernel failed.
    """
    if not is_count(most):
        raise OperationError(f"most: expected at least 1 variant of each problem, found {most!r}")
    first = Choices()
    plan = lower(program, device.dialect, first)
    offers = {problem: texts[:most] for problem, texts in first.offers.items()}
    known = _read(device)
    rounds = _rounds(offers, known)

    def make(chosen: Mapping[str, str]) -> Executable:
        return load(lower(program, device.dialect, Choices(chosen)))

    try:
        with progress_bar(rounds, progress, "tune") as turns:
            for chosen in turns:
                _measure(make, inputs, chosen, known)
    finally:
        if rounds:  # what was measured before an interruption, too
            _write(device, known)
    found = _tuning(plan, offers, known, device)
    return _fastest_together(found, lambda chosen: _run_seconds(make, inputs, chosen))


def _rounds(offers: Mapping[str, tuple[str, ...]], known: Seconds) -> list[dict[str, str]]:
    """The variants to measure together: one that is not known of each problem that has any."""
    left = {p: [t for t in texts if t not in known.get(p, {})] for p, texts in offers.items()}
    count = max(map(len, left.values()), default=0)
    return [{p: texts[k] for p, texts in left.items() if k < len(texts)} for k in range(count)]


def _measure(
    make: Make, inputs: Mapping[str, Any], chosen: Mapping[str, str], known: Seconds
) -> None:
    """Profile the program with these variants, and note what each took."""
    executable = make(chosen)
    _, measured = profiled(executable, inputs, _REPETITIONS, progress=False)
    took: dict[int, float] = {}
    for row in measured.rows:
        took[row.id] = took.get(row.id, 0.0) + median(row.seconds) / max(row.launches, 1)
    for problem, ids in _instructions(executable.plan).items():
        if problem in chosen:
            # One of equal problems may have a longer prologue; all variants have the same ones.
            known.setdefault(problem, {})[chosen[problem]] = sum(took[i] for i in ids) / len(ids)


def _instructions(plan: Plan) -> dict[str, list[int]]:
    """The ids of the instructions that are each problem."""
    found: dict[str, dict[int, None]] = {}
    for step, _ in plan.timed:  # not those of branches, which are timed as a whole
        if isinstance(step, KernelStep) and step.launch.problem:
            found.setdefault(step.launch.problem, {})[step.instruction.id] = None
    return {problem: list(ids) for problem, ids in found.items()}


def _tuning(
    plan: Plan, offers: Mapping[str, tuple[str, ...]], known: Seconds, device: Device
) -> Tuning:
    """The fastest variant of each problem; the estimated one unless another is clearly faster."""
    called = names(plan.program)
    problems: list[tuple[float, Problem]] = []
    for problem, ids in _instructions(plan).items():
        seconds = {text: known[problem][text] for text in offers[problem]}
        first, *others = offers[problem]
        best = min(others, key=seconds.__getitem__, default=first)
        chosen = best if seconds[best] < seconds[first] * (1 - _NOISE) else first
        made = Problem(problem, seconds, chosen, tuple(called[i] for i in ids))
        problems.append((seconds[first] * len(ids), made))
    ordered = sorted(problems, key=lambda pair: -pair[0])
    return Tuning([problem for _, problem in ordered], device.facts.name)


def _fastest_together(tuning: Tuning, run_seconds: Callable[[Mapping[str, str]], float]) -> Tuning:
    """The choices with which the whole program is fastest: all, those that gain much, or none.

    A kernel that is faster between two events need not be so in a run: it finds the caches as its neighbours
    leave them, and overlaps with them.
    """
    gains = {p.name: p for p in tuning if p.gain > 1}
    clear = {n: p for n, p in gains.items() if p.gain >= _CLEAR}
    if not gains:
        return tuning
    sets = [gains, clear, {}] if 0 < len(clear) < len(gains) else [gains, {}]
    seconds = [inf] * len(sets)
    for turn in (*range(len(sets)), *reversed(range(len(sets)))):  # none is always the first
        took = run_seconds({n: p.chosen for n, p in sets[turn].items()})
        seconds[turn] = min(seconds[turn], took)
    best = sets[seconds.index(min(seconds))]
    problems = [p if p.name in best else replace(p, chosen=next(iter(p.seconds))) for p in tuning]
    return Tuning(problems, tuning.device)


def _run_seconds(make: Make, inputs: Mapping[str, Any], chosen: Mapping[str, str]) -> float:
    """The time of a run of the whole program with these variants, without copies."""
    executable = make(chosen)
    try:
        for _ in range(3):  # the second run captures a graph where there are graphs
            executable.run(inputs)
        return min(_burst(executable) for _ in range(2 * _REPETITIONS)) / _BURST
    finally:
        executable.close()


def _burst(executable: Executable) -> float:
    device, stream = executable.device, executable.stream
    executable.again()
    first = device.record(stream)
    for _ in range(_BURST):
        executable.again()
    last = device.record(stream)
    return device.elapsed(first, last)


# On disk


def _path(device: Device) -> Path | None:
    folder = cache_folder("tuning")
    return None if folder is None else folder / f"{device.digest}.json"


def _read(device: Device) -> Seconds:
    """The times that were measured on this device before; none if they cannot be read."""
    with suppress(ValueError, TypeError, AttributeError):
        found = {
            problem: {text: float(seconds) for text, seconds in variants.items()}
            for problem, variants in kept_json(_path(device)).items()
        }
        if all(0 < seconds < inf for variants in found.values() for seconds in variants.values()):
            return found
    return {}


def _write(device: Device, known: Seconds) -> None:
    path = _path(device)
    if path is not None:
        last = dict(list(known.items())[-_MOST_KEPT:])
        keep(path, json.dumps(last, indent=1).encode())
