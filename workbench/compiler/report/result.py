"""The result of a run: outputs by name or index, and a timing of every instruction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.fused import Fused
from workbench.compiler.report.timings import HOST, Measured, RunTimes, Span, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Work:
    """The arithmetic and memory traffic of one evaluation of an instruction."""

    flops: int
    bytes: int


def work_of(instruction: Instruction) -> Work:
    """Floating-point operations and bytes moved; for a fused module, the sum of its operations.

    Bytes are those that enter and leave the kernel; values inside a fused module do not count.
    """
    inputs = [i.shape for i in instruction.inputs]
    if instruction.shape.is_dynamic or any(s.is_dynamic for s in inputs):
        return Work(0, 0)
    moved = instruction.op.bytes(inputs, instruction.shape)
    if isinstance(instruction.op, Fused):
        return Work(instruction.op.flops(inputs, instruction.shape, instruction.modules), moved)
    if not instruction.modules:
        return Work(instruction.op.flops(inputs, instruction.shape), moved)
    inner = [work_of(i).flops for m in instruction.modules for i in m if not i.name.startswith("@")]
    return Work(sum(inner), moved)


def kernel_text(instruction: Instruction) -> str:
    """The operation, or the parts of a fused one: ``add · relu``; one of several results says which."""
    if isinstance(instruction.op, GetTupleElem) and instruction.inputs[0].modules:
        return f"{kernel_text(instruction.inputs[0])} [{instruction.op.index}]"
    if not instruction.modules:
        return instruction.name
    parts = [i for m in instruction.modules for i in m if not i.name.startswith("@")]
    shown = [kernel_text(p) for p in parts[:6]]
    return " · ".join(shown) + (" · …" if len(parts) > 6 else "")


def kernel_sources(instruction: Instruction) -> tuple[str, ...]:
    """The model's nodes of an instruction, preceded by those of the parts fused into it."""
    parts = [i for m in instruction.modules for i in m if not i.name.startswith("@")]
    found = [name for part in parts for name in kernel_sources(part)]
    return tuple(dict.fromkeys([*found, *instruction.sources]))


def fused_ids(instruction: Instruction) -> frozenset[int]:
    """The ids of an instruction and of everything fused into it."""
    parts = [i for m in instruction.modules for i in m if not i.name.startswith("@")]
    return frozenset({instruction.id}).union(*map(fused_ids, parts))


class Result(Mapping[str, Any]):
    """Outputs of a run. ``result["name"]`` and ``result[0]`` are NumPy arrays, or lists of them."""

    def __init__(
        self,
        program: Program,
        outputs: tuple[Any, ...],
        times: Sequence[Mapping[int, float]] | Measured,
        seconds: float,
        inputs: dict[str, Any],
    ) -> None:
        """Store the outputs and the measurements.

        Args:
            program: The program that was run.
            outputs: The values of its outputs.
            times: The seconds of each instruction by id for each repetition, or a device's measurements.
            seconds: Wall time of all repetitions.
            inputs: The inputs of the run.
        """
        self.program = program
        self.outputs = outputs
        self.seconds = seconds
        """Wall time of all repetitions, in seconds."""
        self.inputs = inputs
        """The inputs of the run, including generated ones."""
        self._times = times
        named = program.output_names
        rest = range(len(named), len(outputs))
        self._names = [*named[: len(outputs)], *[f"output_{i}" for i in rest]]

    def __getitem__(self, key: str | int) -> Any:
        """An output by name or index.

        Raises:
            InputError: There is no such output.
        """
        if isinstance(key, int):
            if not -len(self.outputs) <= key < len(self.outputs):
                raise IndexError(f"no output {key}; the program has {len(self.outputs)}")
            return self.outputs[key]
        if key not in self._names:
            raise InputError(f"no output {key!r}; expected one of {', '.join(self._names)}")
        return self.outputs[self._names.index(key)]

    def __iter__(self) -> Iterator[str]:
        """The outputs' names."""
        return iter(self._names)

    def __len__(self) -> int:
        """The number of outputs."""
        return len(self._names)

    def __contains__(self, key: object) -> bool:
        """Whether there is an output of that name."""
        return key in self._names

    @cached_property
    def measured(self) -> Measured:
        """The measurements as data: rows, one run over time, the whole run.

        Raises:
            OperationError: The program ran on a device and was not profiled.
        """
        found = self._times
        made = found if isinstance(found, Measured) else interpreted(self.program, found)
        if made.run is None and not made.rows and _computes(self.program):
            raise OperationError(
                "this run was not timed, as a device times its kernels only on request; "
                "use run(inputs, profile=True)"
            )
        return made

    @property
    def run_times(self) -> RunTimes | None:
        """The whole run, the sum of its kernels, and the overhead of measuring; None if no device ran it."""
        return self.measured.run

    def timings(self) -> DataFrame:
        """A row per instruction, kernel or copy, slowest first.

        Columns: name in the text form, kernel, operation, where (device, host, copy), ms (median over the
        repetitions), spread (interquartile range in ms), share of the sum, MB moved, MFLOP, GB/s,
        GFLOP/s, source nodes; for a device also the percentages of the measured peaks,
        launches, and the host's time for a launch, which is not part of ms. An
        instruction of several kernels has a row per kernel; the slowest one carries its arithmetic.
        Measurements of the whole run are in the table's ``attrs``, and in ``run_times``.

        Raises:
            OperationError: The program ran on a device and was not profiled.
        """
        return self.measured.table()

    def plot_timings(self, ax: Axes | None = None, top: int = 20) -> Axes:
        """Horizontal bars of the slowest rows, in ms; rows that the device does not run are hatched."""
        from workbench.compiler.report.plots import plot_timings  # noqa: PLC0415

        return plot_timings(self.timings(), ax, top)

    def plot_roofline(self, ax: Axes | None = None) -> Axes:
        """Each kernel's arithmetic over its traffic, below the device's measured peaks."""
        from workbench.compiler.report.timing_plots import plot_roofline  # noqa: PLC0415

        return plot_roofline(self.measured, ax)

    def plot_timeline(self, ax: Axes | None = None) -> Axes:
        """One run over time: the host's launches and own work, copies, and the device."""
        from workbench.compiler.report.timing_plots import plot_timeline  # noqa: PLC0415

        return plot_timeline(self.measured, ax)

    def trace(self) -> dict[str, Any]:
        """One run in Chrome's trace format, for Perfetto and ``chrome://tracing``."""
        from workbench.compiler.report.trace_events import trace  # noqa: PLC0415

        return trace(self.measured)

    def save_trace(self, path: str | PathLike[str]) -> None:
        """Write ``trace()`` to a file."""
        from workbench.compiler.report.trace_events import save  # noqa: PLC0415

        save(self.measured, path)

    def __repr__(self) -> str:
        """Names, types and shapes of the outputs."""
        shown = [f"{n}: {_described(o)}" for n, o in zip(self._names, self.outputs, strict=True)]
        return f"<Result {'; '.join(shown)}; {self.seconds * 1e3:.3g} ms>"


def _computes(program: Program) -> bool:
    return any(i.inputs and not isinstance(i.op, Return) for i in program.main)


def interpreted(program: Program, times: Sequence[Mapping[int, float]]) -> Measured:
    """The times of an interpreter: seconds of each instruction by id, for each repetition."""
    rows = tuple(_interpreted_rows(program, times))
    spans: list[Span] = []
    now = 0.0
    for k, row in enumerate(rows):
        spans.append(Span(HOST, f"{row.name} {row.kernel}", now, row.seconds[-1], k))
        now += row.seconds[-1]
    return Measured(rows, tuple(spans))


def _interpreted_rows(program: Program, times: Sequence[Mapping[int, float]]) -> Iterable[Timing]:
    from workbench.compiler.text.printing import names  # noqa: PLC0415

    named = names(program)
    for i in program.main:
        if times and i.id in times[0]:
            work = work_of(i)
            yield Timing(
                i.id, named[i.id], kernel_text(i), i.name, HOST, tuple(t[i.id] for t in times),
                work.flops, work.bytes, kernel_sources(i), fused_ids(i),
            )  # fmt: skip


def _described(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"  # pyright: ignore[reportUnknownArgumentType]
    return "none" if value is None else f"{value.dtype}{list(value.shape)}"
