"""Graphs that ``torch.compile`` handed over: a build of each, and the breaks between them."""

from __future__ import annotations

import html
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, overload

from workbench.compiler.builds.build import Build

if TYPE_CHECKING:
    from pandas import DataFrame

KEPT = 256
"""Graphs that are remembered; older ones are dropped."""


@dataclass(frozen=True)
class Break:
    """A place where TorchDynamo ended a graph, and the reason."""

    file: str
    line: int
    code: str
    """The user's line."""
    reason: str


@dataclass(frozen=True)
class TorchGraph:
    """One graph of ``torch.compile``."""

    build: Build
    kind: str
    """``inference``, ``forward`` or ``backward``."""
    number: int
    """The graph's position among those that TorchDynamo handed over; forward and backward share one."""
    where: str
    """The user's line that the graph begins with."""
    ended: Break | None = None
    """The graph break that ended it; None if it ends with the function."""
    ranges: dict[str, str] = field(default_factory=dict[str, str])
    """The symbolic lengths, by name, with their ranges."""


class TorchBuilds(Sequence[TorchGraph]):
    """The graphs of ``torch.compile``, in order; each has its ``build``.

    Attributes:
        breaks: The graph breaks, in order.
    """

    def __init__(self, graphs: Sequence[TorchGraph], breaks: Sequence[Break]) -> None:
        """A list of graphs as it is now."""
        self._graphs = list(graphs)
        self.breaks = list(breaks)

    @overload
    def __getitem__(self, index: int) -> TorchGraph: ...

    @overload
    def __getitem__(self, index: slice) -> list[TorchGraph]: ...

    def __getitem__(self, index: int | slice) -> TorchGraph | list[TorchGraph]:
        """A graph, or several."""
        return self._graphs[index]

    def __len__(self) -> int:
        """The number of graphs."""
        return len(self._graphs)

    def __iter__(self) -> Iterator[TorchGraph]:
        """The graphs in order."""
        return iter(self._graphs)

    def table(self) -> DataFrame:
        """A row for each graph: its kind, instructions before and after the passes, and why it ended."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "graph": g.number,
                "kind": g.kind,
                "begins at": g.where,
                "instructions": len(g.build.source.main),
                "compiled": len(g.build.program.main),
                "lengths": ", ".join(f"{n} {r}" for n, r in g.ranges.items()),
                "ended by": "" if g.ended is None else g.ended.reason,
            }
            for g in self._graphs
        ]
        return pd.DataFrame(rows, columns=list(rows[0]) if rows else ["graph", "kind"])

    def breaks_table(self) -> DataFrame:
        """A row for each graph break: the file, the line, its code and the reason."""
        import pandas as pd  # noqa: PLC0415

        rows = [(b.file, b.line, b.code, b.reason) for b in self.breaks]
        return pd.DataFrame(rows, columns=["file", "line", "code", "reason"])

    def _repr_html_(self) -> str:
        """Both tables, names escaped."""
        broken = self.breaks_table().to_html(escape=True, index=False) if self.breaks else ""
        head = f"<p>{html.escape(repr(self))}</p>"
        return f"{head}{self.table().to_html(escape=True, index=False)}{broken}"

    def __repr__(self) -> str:
        """The numbers of graphs and of breaks."""
        return f"<TorchBuilds: {len(self)} graphs, {len(self.breaks)} graph breaks>"


_GRAPHS: deque[TorchGraph] = deque(maxlen=KEPT)
_BREAKS: deque[Break] = deque(maxlen=KEPT)


def builds() -> TorchBuilds:
    """The graphs that ``torch.compile(backend="workbench")`` compiled in this process, and their breaks."""
    return TorchBuilds(list(_GRAPHS), list(_BREAKS))


def clear() -> None:
    """Forget all graphs and breaks; modules that are compiled keep running."""
    _GRAPHS.clear()
    _BREAKS.clear()


def remember(graph: TorchGraph) -> None:
    """Add a graph to the list."""
    _GRAPHS.append(graph)


def break_of(reason: Any) -> Break | None:
    """The graph break that TorchDynamo notes as the reason that a graph ended; None if it was none."""
    if reason is None or not getattr(reason, "graph_break", False):
        return None
    stack = list(reason.user_stack or ())
    frame = stack[-1] if stack else None
    file, line, code = ("", 0, "") if frame is None else (frame.filename, frame.lineno, frame.line)
    text = str(reason.reason).strip().partition("\n")[0]
    made = Break(PurePath(file).name, int(line or 0), (code or "").strip(), text)
    if made not in _BREAKS:
        _BREAKS.append(made)
    return made
