"""Performance reports: whole runs, each instruction, each kind of operation, and the overhead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, copysign, floor, isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any

from workbench.compat.migraphx.offloading import on_device, runs_on_device
from workbench.compiler.builds.build import Build
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import float_text
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.buffers import Write
from workbench.compiler.progress import progress_bar
from workbench.compiler.report.timings import COPY
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.tracing import Dry, Timed
from workbench.compiler.text.printing import instruction_text, names, printed_modules

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.gpu.run.runner import DeviceRunner

Times = Sequence[float]
"""Measured times in milliseconds, shortest first."""


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions of the same operation, and their total time."""

    name: str
    ms: float
    count: int
    percent: float

    @property
    def each(self) -> float:
        """Milliseconds per instruction."""
        return self.ms / self.count


class PerfReport:
    """Times of a program, measured as MIGraphX's ``perf_report`` does; ``str`` is its printed form.

    A time is the mean of the middle half of its measurements. Percentages are of the time of all
    instructions, rounded up.
    """

    def __init__(
        self,
        program: Program,
        total: Times,
        instructions: Mapping[int, Times],
        overhead: Times,
        batch: int = 1,
        detailed: bool = False,
    ) -> None:
        """Keep the measurements, in milliseconds; those of instructions by id."""
        self.program = program
        self.total = sorted(total)
        self.instructions = {id: sorted(times) for id, times in instructions.items()}
        self.overhead = sorted(overhead)
        self.batch = batch
        self.detailed = detailed

    @property
    def total_ms(self) -> float:
        """The time of a whole run."""
        return common_average(self.total)

    @property
    def rate(self) -> float:
        """Inferences per second: runs times the batch size."""
        return 1e3 / self.total_ms * self.batch if self.total_ms else 0.0

    @property
    def overhead_ms(self) -> float:
        """The time of a run that computes nothing."""
        return common_average(self.overhead)

    @property
    def instructions_ms(self) -> float:
        """The total time of the instructions, each measured separately."""
        return sum(self.ms(i) for i in self._measured())

    def ms(self, instruction: Instruction) -> float:
        """The time of one instruction; 0 for inputs and constants, which a run does not compute."""
        return common_average(self.instructions.get(instruction.id, ()))

    def _measured(self) -> list[Instruction]:
        shown = [m for m in printed_modules(self.program) if not m.bypass]
        return [i for m in shown for i in m if i.name != "@return"]

    def groups(self) -> list[Group]:
        """Total times by operation, the longest first; ``detailed`` distinguishes types and shapes."""
        whole = self.instructions_ms
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        for instruction in self._measured():
            name = group_of(instruction, self.detailed)
            sums[name] = sums.get(name, 0.0) + self.ms(instruction)
            counts[name] = counts.get(name, 0) + 1
        order = sorted(((ms, counts[name], name) for name, ms in sums.items()), reverse=True)
        share = 100 / whole if whole else 0.0
        return [Group(name, ms, n, float(ceil(ms * share))) for ms, n, name in order]

    def lines(self) -> list[str]:
        """The printed form, line by line: instructions, then ``summary_lines``."""
        named, whole = names(self.program), self.instructions_ms
        share = 100 / whole if whole else 0.0
        found: list[str] = []
        for module in printed_modules(self.program):
            found += [] if module.bypass else self._module_lines(module, named, share)
        if not self.program.main.has_return:
            found.append("")
        return [*found, *self.summary_lines()]

    def _module_lines(self, module: Module, named: dict[int, str], share: float) -> list[str]:
        found: list[str] = []
        for instruction in module:
            line = instruction_text(instruction, named)
            if instruction.name != "@return":
                ms = self.ms(instruction)
                line += f": {float_text(ms)}ms, {float_text(float(ceil(ms * share)))}%"
            found.append(line)
        return found

    def summary_lines(self) -> list[str]:
        """The printed form without the instructions: groups, then the times of whole runs."""
        found = ["Summary:"]
        for g in self.groups():
            each = f"{float_text(g.ms)}ms / {g.count} = {float_text(g.each)}ms"
            found.append(f"{g.name}: {each}, {float_text(g.percent)}%")
        t = {k: v if isinstance(v, int) else float_text(v) for k, v in self._numbers().items()}
        spread = f"Min: {t['min']}ms, Max: {t['max']}ms, Mean: {t['mean']}ms"
        return [
            *found,
            "",
            f"Batch size: {t['batch']}",
            f"Rate: {t['rate']} inferences/sec",
            f"Total time: {t['total']}ms ({spread}, Median: {t['median']}ms)",
            f"Percentiles (90%, 95%, 99%): ({t['90%']}ms, {t['95%']}ms, {t['99%']}ms)",
            f"Total instructions time: {t['instructions']}ms",
            f"Overhead time: {t['overhead']}ms, {t['calculated overhead']}ms",
            f"Overhead: {t['overhead %']}%, {t['calculated overhead %']}%",
        ]

    def _numbers(self) -> dict[str, int | float]:
        total, each, dry = self.total_ms, self.instructions_ms, self.overhead_ms
        return {
            "batch": self.batch,
            "rate": self.rate,
            "total": total,
            "min": self.total[0],
            "max": self.total[-1],
            "mean": sum(self.total) / len(self.total),
            "median": median(self.total),
            **{f"{p}%": percentile(self.total, p / 100) for p in (90, 95, 99)},
            "instructions": each,
            "overhead": dry,
            "calculated overhead": total - each,
            "overhead %": rounded(dry * 100 / total if total else 0.0),
            "calculated overhead %": rounded((total - each) * 100 / total if total else 0.0),
        }

    def table(self) -> DataFrame:
        """A row per instruction, in the order of the program: its line, group, ms and percent."""
        import pandas as pd  # noqa: PLC0415

        rows = [{"id": i.id, **row} for i, row in zip(self._measured(), self._rows(), strict=True)]
        columns = ["id", "name", "op", "group", "shape", "ms", "percent"]
        return pd.DataFrame(rows, columns=columns).set_index("id")

    def summary(self) -> DataFrame:
        """A row per group of instructions, the longest first: total ms, count, ms each, percent."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {"group": g.name, "ms": g.ms, "count": g.count, "ms each": g.each, "percent": g.percent}
            for g in self.groups()
        ]
        columns = ["group", "ms", "count", "ms each", "percent"]
        return pd.DataFrame(rows, columns=columns).set_index("group")

    def _rows(self) -> list[dict[str, Any]]:
        named, whole = names(self.program), self.instructions_ms
        share = 100 / whole if whole else 0.0
        return [
            {
                "name": named[i.id],
                "op": i.name,
                "group": group_of(i, self.detailed),
                "shape": str(i.shape),
                "ms": self.ms(i),
                "percent": float(ceil(self.ms(i) * share)),
            }
            for i in self._measured()
        ]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values: ``total``, ``instructions``, ``groups``; times in milliseconds."""
        return {
            "iterations": len(self.total),
            "detailed": self.detailed,
            "total": self._numbers(),
            "instructions": self._rows(),
            "groups": [
                {"name": g.name, "ms": g.ms, "count": g.count, "percent": g.percent}
                for g in self.groups()
            ],
        }

    def __str__(self) -> str:
        """The printed form."""
        return "\n".join(self.lines()) + "\n"

    def __repr__(self) -> str:
        """Time and rate."""
        return f"<PerfReport: {self.total_ms:.3g} ms a run, {self.rate:.4g} inferences/s>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        head = "".join(f"<br>{escape(line)}" for line in self.summary_lines()[-7:])
        return f"<p>{escape(repr(self))}{head}</p>{self.summary().head(20).to_html(border=0)}"


def perf_report(
    program: Program | Build,
    inputs: Mapping[str, Any],
    iterations: int = 100,
    batch: int = 1,
    detailed: bool = False,
    progress: bool | None = None,
    copies: bool = True,
) -> PerfReport:
    """Measure a compiled program the way MIGraphX does.

    After one run to warm up come ``iterations`` whole runs, the same number with every instruction timed,
    and the same number that compute nothing. On a device, instructions are timed by events, and the
    overhead is the host's time to launch a run.

    Args:
        program: The program, or its build, which may be for a device.
        inputs: An array for each parameter, by name.
        iterations: The number of measurements.
        batch: The number of inferences per run; the rate is multiplied by it.
        detailed: Distinguish types and shapes of an operation in the summary.
        progress: Show a progress bar; by default when it takes longer than a second.
        copies: Whether a run on a device copies its inputs there and its results back.

    Raises:
        DeviceError: A kernel failed.
        OperationError: ``iterations`` or ``batch`` is less than 1.
        InputError: An input is missing, unknown, or has the wrong type or shape.
        EvaluationError: An instruction failed.
    """
    _expect_positive("iterations", iterations)
    _expect_positive("batch", batch)
    build = program.specialised(inputs) if isinstance(program, Build) else None
    if build is not None and runs_on_device(build):
        found = _on_device(on_device(build), inputs, iterations, progress, copies)
        return PerfReport(build.program, *found, batch, detailed)
    program = program.program if isinstance(program, Build) else program
    whole, timed, dry = PlannedInterpreter(program), Timed(program), Dry(program)
    whole.run(inputs)
    timed.run(inputs)
    timed.times.clear()
    total: list[float] = []
    overhead: list[float] = []
    work = [total] * iterations + [None] * iterations + [overhead] * iterations
    with progress_bar(work, progress, "perf") as rounds:
        for times in rounds:
            if times is None:
                timed.run(inputs)
            else:
                runner = whole if times is total else dry
                times.append(milliseconds(lambda runner=runner: runner.run(inputs)))
    each = {id: [s * 1e3 for s in seconds] for id, seconds in timed.times.items()}
    return PerfReport(program, total, each, overhead, batch, detailed)


def _on_device(
    runner: DeviceRunner,
    inputs: Mapping[str, Any],
    iterations: int,
    progress: bool | None,
    copies: bool,
) -> tuple[list[float], dict[int, list[float]], list[float]]:
    """Milliseconds of whole runs, of each instruction, and of the host to launch a run."""
    _, measured = runner.profiled(inputs, iterations, progress)
    each: dict[int, list[float]] = {}
    for row in measured.rows:
        if row.where != COPY or (copies and row.kernel == "upload"):
            known = each.get(row.id, [0.0] * len(row.seconds))
            each[row.id] = [a + 1e3 * b for a, b in zip(known, row.seconds, strict=False)]
    executable = runner.executable()
    launched, total = list[float](), list[float]()
    for _ in range(iterations):
        launched.append(milliseconds(executable.again))
        total.append(launched[-1] + milliseconds(executable.wait))
        if copies:
            total[-1] = milliseconds(lambda: executable.run(inputs))
    if measured.run is not None and not executable.plan.is_fixed:  # there are host steps
        launched = [1e3 * measured.run.launch]
    return total, each, launched


def time_run(
    program: Program | Build, inputs: Mapping[str, Any], iterations: int = 100, copies: bool = True
) -> float:
    """Milliseconds of one run: the mean of ``iterations`` runs after a warm-up.

    Args:
        program: The program, or its build, which may be for a device.
        inputs: An array for each parameter, by name.
        iterations: The number of runs.
        copies: Whether a run on a device copies its inputs there and its results back.

    Raises:
        OperationError: ``iterations`` is less than 1.
    """
    _expect_positive("iterations", iterations)
    run, wait = _whole_run(program, inputs, copies)

    def repeated() -> None:
        for _ in range(iterations):
            run()
        wait()

    run()
    wait()
    return milliseconds(repeated) / iterations


def _whole_run(
    program: Program | Build, inputs: Mapping[str, Any], copies: bool
) -> tuple[Callable[[], object], Callable[[], None]]:
    """A function that runs the program once, and one that waits for it."""
    build = program.specialised(inputs) if isinstance(program, Build) else None
    if build is not None and runs_on_device(build):
        executable = on_device(build).executable()
        executable.run(inputs)
        run = (lambda: executable.run(inputs)) if copies else executable.again
        return run, executable.wait
    interpreter = PlannedInterpreter(program.program if isinstance(program, Build) else program)
    return lambda: interpreter.run(inputs), lambda: None


def milliseconds(work: Callable[[], object]) -> float:
    """The time of a function, in milliseconds."""
    started = perf_counter()
    work()
    return (perf_counter() - started) * 1e3


def _expect_positive(what: str, value: int) -> None:
    if value < 1:
        raise OperationError(f"{what}={value}; expected 1 or more")


def group_of(instruction: Instruction, detailed: bool = False) -> str:
    """The group of an instruction's time: its operation, and for a kernel the operations in it."""
    op = instruction.op
    name = op.op.name if isinstance(op, Write) else op.name
    parts = [i.name for m in instruction.modules if m.bypass for i in m if i.name[0] != "@"]
    if parts:
        name += f"::{'_'.join(parts[:6])}{'_etc' if len(parts) > 6 else ''}_kernel"
    if not detailed:
        return name
    sizes = ", ".join(sizes_text(i.shape) for i in instruction.inputs)
    return f"{name}<{instruction.shape.type.type_name}({sizes})>"


def sizes_text(shape: Shape) -> str:
    """A shape in short: ``2x3``, or with strides ``2x3:1x2`` if it is not row-major."""
    if shape.subs is not None or shape.dims is not None:
        return str(shape)
    text = "x".join(map(str, shape.lens))
    return text if shape.standard else f"{text}:{'x'.join(map(str, shape.strides))}"


def common_average(times: Times) -> float:
    """The mean of the middle half; 0 if there are no times."""
    cut = len(times) // 4
    middle = times[cut : len(times) - cut]
    return sum(middle) / len(middle) if middle else 0.0


def median(times: Times) -> float:
    """The middle one of sorted times, or the mean of the two in the middle."""
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2


def percentile(times: Times, part: float) -> float:
    """The time at a fraction of sorted times, with the index rounded down."""
    return times[int(part * (len(times) - 1))]


def rounded(value: float) -> float:
    """A number rounded to the nearest integer, halves away from 0."""
    return copysign(floor(abs(value) + 0.5), value) if isfinite(value) else value
