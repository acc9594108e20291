"""Rows of timings, for kernels, host steps, copies and the whole run, from measurements on a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.report.result import fused_ids, kernel_sources
from workbench.compiler.report.timings import COPY, DEVICE, HOST, RunTimes, Spread, Timing
from workbench.compiler.text.printing import names
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.places import parts_of
from workbench.gpu.lowering.plan import KernelStep, Plan, Step
from workbench.gpu.report.steps import is_of_loop, moved, step_text, step_work
from workbench.gpu.run.sequence import Costs

Samples = dict[str, list[float]]
"""Seconds of each item, one per repetition."""


@dataclass
class Taken:
    """All measurements of a profile in seconds: a list per item, a number per repetition."""

    steps: list[list[float]]
    """The time of each step; for a kernel on the device's clock, without the overhead of events."""
    launches: list[list[float]]
    """The host's time for the launch of each step."""
    uploads: Samples = field(default_factory=Samples)
    """The time of each upload, by the parameter's name."""
    downloads: Samples = field(default_factory=Samples)
    """The time of each download, by the output's name."""
    whole: list[float] = field(default_factory=list[float])
    profiled: list[float] = field(default_factory=list[float])
    wall: list[float] = field(default_factory=list[float])
    graph: list[float] = field(default_factory=list[float])
    pairs: list[int] = field(default_factory=list[int])
    """For each whole run, the number of the repetition after it."""

    @classmethod
    def of(cls, steps: int) -> Taken:
        """Nothing yet."""
        return cls([[] for _ in range(steps)], [[] for _ in range(steps)])


def output_names(plan: Plan) -> list[str]:
    """The names of the outputs."""
    named, count = plan.program.output_names, len(plan.outputs)
    return [*named[:count], *(f"output_{k}" for k in range(len(named), count))]


def rows_of(plan: Plan, taken: Taken) -> tuple[Timing, ...]:
    """Uploads, the steps of the plan in order, and downloads."""
    named = names(plan.program)
    parameters = plan.program.main.parameters
    uploads = (
        _copy(parameters[name], name, "upload", seconds) for name, seconds in taken.uploads.items()
    )
    outputs = zip(output_names(plan), plan.program.main.outputs, strict=True)
    downloads = (
        _copy(output, name, "download", taken.downloads[name])
        for name, output in outputs
        if name in taken.downloads
    )
    return (*uploads, *_steps(plan.timed, taken, named), *downloads)


def _copy(instruction: Instruction, name: str, way: str, seconds: list[float]) -> Timing:
    bytes = sum(s.bytes for s in parts_of(instruction.shape) if s.is_tensor)
    op = "@param" if way == "upload" else "@return"
    return Timing(instruction.id, name, way, op, COPY, tuple(seconds), bytes=bytes)


def _steps(
    timed: Sequence[tuple[Step, int]], taken: Taken, named: Mapping[int, str]
) -> Iterator[Timing]:
    of_one: dict[int, list[int]] = {}
    for k, (step, _) in enumerate(timed):
        of_one.setdefault(step.instruction.id, []).append(k)
    medians = [Spread.of(s).median for s in taken.steps]
    for k, (step, runs) in enumerate(timed):
        mates = of_one[step.instruction.id]
        slowest = max(mates, key=medians.__getitem__)
        yield _step(step, runs, k, mates, k == slowest, taken, named)


def _step(
    step: Step,
    runs: int,
    k: int,
    mates: list[int],
    is_slowest: bool,
    taken: Taken,
    named: Mapping[int, str],
) -> Timing:
    i = step.instruction
    work = step_work(step)
    part = f" ({mates.index(k) + 1} of {len(mates)})" if len(mates) > 1 else ""
    on_device = isinstance(step, KernelStep)
    return Timing(
        id=i.id,
        name=named[i.id],
        kernel=step_text(step) + part,
        op=i.name,
        where=DEVICE if on_device else HOST,
        seconds=tuple(taken.steps[k]),
        flops=work.flops * runs if is_slowest else 0,
        bytes=(work.bytes if len(mates) == 1 and not is_of_loop(step) else moved(step)) * runs,
        sources=kernel_sources(i),
        aliases=fused_ids(i),
        launches=runs if on_device else 0,
        launch=Spread.of(taken.launches[k]).median if on_device else 0.0,
        type=_arithmetic(step),
    )


def _arithmetic(step: Step) -> str:
    """The units or the type of a step's arithmetic; narrower floats are computed in f32 elsewhere."""
    if isinstance(step, KernelStep) and step.launch.kernel.matrix:
        return step.launch.kernel.units
    instruction = step.instruction
    shapes = [i.shape for i in instruction.inputs] + [instruction.shape]
    types = {s.type for shape in shapes for s in parts_of(shape) if s.is_tensor}
    return "f64" if DType.DOUBLE in types else "f32"


def run_times(
    device: Device, rows: Sequence[Timing], taken: Taken, costs: Costs, mode: str, marked: int
) -> RunTimes:
    """The times of the whole run."""
    queued = [t for t in rows if t.where == DEVICE]
    sums = np.sum([t.seconds for t in queued], 0) if queued else np.zeros(len(taken.profiled))
    return RunTimes(
        device=f"{device.facts.name} ({device.spec})",
        repetitions=len(taken.profiled),
        kernels=Spread.of(sums).median,
        whole=Spread.of(taken.whole),
        profiled=Spread.of(taken.profiled),
        wall=Spread.of(taken.wall),
        launches=sum(t.launches for t in queued),
        launch=sum(t.launch for t in queued),
        event=costs.event,
        empty=costs.empty,
        graph=Spread.of(taken.graph) if taken.graph else None,
        mode=mode,
        marked=marked,
        difference=_more(sums, taken),
        slowdown=_more(np.array(taken.profiled), taken),
    )


def _more(seconds: Array, taken: Taken) -> float:
    """The relative increase over the whole run before it: the median over the repetitions."""
    pairs = zip(taken.pairs, taken.whole, strict=True)
    return Spread.of([float(seconds[k]) / whole - 1 for k, whole in pairs if whole]).median
