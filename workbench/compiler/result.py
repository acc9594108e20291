"""The result of a run: outputs by name or index, and a timing of every instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir import Instruction
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.fused import Fused
from workbench.compiler.program import Program

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Work:
    """What one evaluation of an instruction does."""

    flops: int
    bytes: int


def work_of(instruction: Instruction) -> Work:
    """Floating-point operations and bytes moved; a fused module's operations are added up.

    Bytes are those that enter and leave the kernel: values inside a fused module move nothing.
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
    """The operation, or the parts of a fused one: ``add · relu``; one result of several says which."""
    if isinstance(instruction.op, GetTupleElem) and instruction.inputs[0].modules:
        return f"{kernel_text(instruction.inputs[0])} [{instruction.op.index}]"
    if not instruction.modules:
        return instruction.name
    parts = [i for m in instruction.modules for i in m if not i.name.startswith("@")]
    shown = [kernel_text(p) for p in parts[:6]]
    return " · ".join(shown) + (" · …" if len(parts) > 6 else "")


def kernel_sources(instruction: Instruction) -> tuple[str, ...]:
    """The model's nodes that an instruction came from, those of a fused one's parts before its own."""
    parts = [i for m in instruction.modules for i in m if not i.name.startswith("@")]
    found = [name for part in parts for name in kernel_sources(part)]
    return tuple(dict.fromkeys([*found, *instruction.sources]))


class Result(Mapping[str, Any]):
    """Outputs of a run. ``result["name"]`` and ``result[0]`` are NumPy arrays, or lists of them."""

    def __init__(
        self,
        program: Program,
        outputs: tuple[Any, ...],
        times: Sequence[Mapping[int, float]],
        seconds: float,
        inputs: dict[str, Any],
    ) -> None:
        """Keep the outputs, and the seconds of each instruction by id for each repetition."""
        self.program = program
        self.outputs = outputs
        self.seconds = seconds
        """Wall time of all repetitions, in seconds."""
        self.inputs = inputs
        """What the program was run on, generated inputs included."""
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
            raise InputError(f"no output {key!r}; outputs are {', '.join(self._names)}")
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

    def timings(self) -> DataFrame:
        """A row an instruction or fused kernel, slowest first.

        Columns: name in the text form, kernel, operation, ms (median over the repetitions), spread
        (interquartile range in ms), share of the whole, MB moved, MFLOP, GB/s, GFLOP/s, source nodes.
        """
        import pandas as pd  # noqa: PLC0415

        rows = list(self._timing_rows())
        columns = [
            "name",
            "kernel",
            "op",
            "ms",
            "iqr ms",
            "share",
            "MB",
            "MFLOP",
            "GB/s",
            "GFLOP/s",
            "sources",
        ]
        table = pd.DataFrame(rows, columns=["id", *columns]).set_index("id")
        table["share"] = table["ms"] / (table["ms"].sum() or 1)
        return table.sort_values("ms", ascending=False, kind="stable")

    def _timing_rows(self) -> Iterator[tuple[Any, ...]]:
        from workbench.compiler.text import names  # noqa: PLC0415

        named = names(self.program)
        for instruction in self.program.main:
            id = instruction.id
            if id not in self._times[0]:
                continue
            measured = np.array([t[id] for t in self._times]) * 1e3
            low, ms, high = np.percentile(measured, [25, 50, 75])
            work = work_of(instruction)
            rate = 1e-6 / ms if ms else 0.0
            yield (
                id, named[id], kernel_text(instruction), instruction.name, float(ms), float(high - low),
                0.0, work.bytes / 1e6, work.flops / 1e6, work.bytes * rate, work.flops * rate,
                ", ".join(kernel_sources(instruction)),
            )  # fmt: skip

    def plot_timings(self, ax: Axes | None = None, top: int = 20) -> Axes:
        """Horizontal bars of the slowest instructions, in milliseconds, on matplotlib Axes."""
        from workbench.compiler.plots import plot_timings  # noqa: PLC0415

        return plot_timings(self.timings(), ax, top)

    def __repr__(self) -> str:
        """Names, types and shapes of the outputs."""
        shown = [f"{n}: {_described(o)}" for n, o in zip(self._names, self.outputs, strict=True)]
        return f"<Result {'; '.join(shown)}; {self.seconds * 1e3:.3g} ms>"


def _described(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"  # pyright: ignore[reportUnknownArgumentType]
    return "none" if value is None else f"{value.dtype}{list(value.shape)}"
