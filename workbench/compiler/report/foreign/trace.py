"""``load_trace``: times of another runtime as a table, laid over a program, and beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from statistics import median
from typing import TYPE_CHECKING, Any

from workbench.compiler import showing
from workbench.compiler.errors import InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.report.foreign.document import document
from workbench.compiler.report.foreign.formats import Item, Profile, items_of_events, profile_of
from workbench.compiler.report.foreign.names import Nodes
from workbench.compiler.report.result import kernel_sources
from workbench.compiler.report.timings import DEVICE, HOST, Measured, Timing

if TYPE_CHECKING:
    from pandas import DataFrame


def load_trace(path: str | PathLike[str], layers: str | PathLike[str] | None = None) -> Trace:
    """Read a profile that another runtime made.

    Args:
        path: A profile of onnxruntime (``enable_profiling``), of TensorRT (``trtexec --exportProfile``), of
            PyTorch (``export_chrome_trace``), or any in Chrome's trace format, as Perfetto exports it: JSON,
            or JSON compressed with gzip.
        layers: TensorRT's layer information (``--exportLayerInfo`` with ``--profilingVerbosity=detailed``),
            which says the nodes of each layer.

    Raises:
        InputError: The file is missing, too large or damaged, or has none of these forms.
    """
    given = document(path)
    try:
        return Trace(profile_of(given, None if layers is None else document(layers)))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Trace:
    """A profile of another runtime."""

    profile: Profile

    @property
    def kind(self) -> str:
        """``onnxruntime``, ``TensorRT`` or ``Chrome`` (PyTorch's profiler, Perfetto)."""
        return self.profile.kind

    def over(self, build: Any) -> LaidOver:
        """The times by the nodes of a model.

        Args:
            build: A build of the model, or its program.
        """
        if isinstance(build, Program):
            return LaidOver(self, Nodes(build), build)
        return LaidOver(self, Nodes(build.source), build.program)

    def table(self) -> DataFrame:
        """A row for each name in the profile, the most time first, in milliseconds."""
        return _table([_row(item) for item in self._items])

    @cached_property
    def _items(self) -> Sequence[Item]:
        if self.profile.events:
            names = {e.name for e in self.profile.events}
            return items_of_events(self.profile.events, names.__contains__)
        return self.profile.items

    def __repr__(self) -> str:
        """The kind and the number of names."""
        return f"<Trace of {self.kind}: {len(self._items)} names>"


@dataclass(frozen=True)
class _Match:
    item: Item
    nodes: tuple[str, ...]
    how: str


class LaidOver:
    """A profile of another runtime by the nodes of a model; `wb.compare_timings` takes it beside a result.

    Args:
        trace: The profile.
        nodes: The nodes of the model.
        program: The program that views show.
    """

    def __init__(self, trace: Trace, nodes: Nodes, program: Program) -> None:
        """Recognise the names."""
        self.trace = trace
        self.program = program
        self._nodes = nodes
        profile = trace.profile
        items = items_of_events(profile.events, nodes.knows) if profile.events else profile.items
        self._matches = [_Match(item, *nodes.found(item.nodes)) for item in items]

    def table(self) -> DataFrame:
        """A row for each recognised name, the most time first.

        Columns: the nodes, the name in the profile, its operation, where it ran (a provider, device or host),
        calls, ms (the median of a call), total ms, and how it was recognised: as a node, by a tensor that the
        node computes, or by the beginning of the name.
        """
        return _table([self._row(m) for m in self._matches if m.nodes])

    @property
    def unmatched(self) -> DataFrame:
        """A row for each name that belongs to no node of the model: copies, layouts, work of the runtime."""
        return _table([_row(m.item) for m in self._matches if not m.nodes])

    @property
    def untimed(self) -> list[str]:
        """The nodes of the model without a time: fused into others under another name, folded, or removed."""
        timed = {node for m in self._matches for node in m.nodes}
        return [name for name in self._nodes.names if name not in timed]

    @cached_property
    def overlay(self) -> dict[str, Any]:
        """The times for the ``overlay=`` of a view: each instruction has those of its nodes, in ms.

        A name of several nodes counts once for an instruction, and in full for each of its nodes, so a closed
        group shows the largest time in it, not a sum.
        """
        by_node: dict[str, list[int]] = {}
        for k, match in enumerate(self._matches):
            for node in match.nodes:
                by_node.setdefault(node, []).append(k)
        values: dict[int, float] = {}
        for instruction in self.program.instructions:
            found = {k for s in kernel_sources(instruction) for k in by_node.get(s, ())}
            if found:
                values[instruction.id] = sum(_ms(self._matches[k].item) for k in sorted(found))
        return {"name": self.trace.kind, "unit": "ms", "scale": "viridis", "values": values}

    def view(self, **options: Any) -> Any:
        """The graph, coloured by these times.

        Args:
            options: Those of the graph view.
        """
        return showing.view("graph")(self.program, **{"overlay": self.overlay, **options})

    @cached_property
    def measured(self) -> Measured:
        """The times as rows of a run, for `wb.compare_timings`."""
        return Measured(tuple(_timing(-1 - k, m) for k, m in enumerate(self._matches)))

    def _row(self, match: _Match) -> dict[str, Any]:
        return {"nodes": ", ".join(match.nodes), **_row(match.item), "matched by": match.how}

    def __repr__(self) -> str:
        """The share that was recognised."""
        matched = [m for m in self._matches if m.nodes]
        share = sum(_ms(m.item) for m in matched) / (sum(_ms(m.item) for m in self._matches) or 1)
        return (
            f"<{self.trace.kind}: {len(matched)} of {len(self._matches)} names are nodes of the model, "
            f"{share:.0%} of the time; {len(self.untimed)} nodes have no time>"
        )


def _ms(item: Item) -> float:
    return median(item.seconds) * 1e3 if item.seconds else 0.0


def _row(item: Item) -> dict[str, Any]:
    return {
        "name": item.name, "operation": item.operation, "where": item.where, "calls": len(item.seconds),
        "ms": _ms(item), "total ms": sum(item.seconds) * 1e3,
    }  # fmt: skip


def _timing(id: int, match: _Match) -> Timing:
    item = match.item
    where = DEVICE if item.where == DEVICE else HOST
    kernel = item.operation or item.name
    return Timing(id, item.name, kernel, kernel, where, item.seconds, sources=match.nodes)


def _table(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    import pandas as pd  # noqa: PLC0415

    columns = ["name", "operation", "where", "calls", "ms", "total ms"]
    made = pd.DataFrame(rows, columns=None if rows else pd.Index(columns))
    return made.sort_values("total ms", ascending=False, kind="stable", ignore_index=True)
