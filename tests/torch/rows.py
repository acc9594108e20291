"""Rows of measured architectures: in a file of JSON, and as a table."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

TOLERANCE = 1e-4
"""The largest difference, relative to the largest element of a result."""
UNKNOWN = float("nan")


@dataclass
class Row:
    """One row of the table."""

    name: str
    device: str = "cpu"
    instructions: int = 0
    """Of the program, before passes."""
    largest: float = 0.0
    """The largest element of eager's results."""
    exported: float = UNKNOWN
    """The difference of ``from_torch`` from eager, relative to the largest element."""
    compiled: float = UNKNOWN
    """The same of ``torch.compile``."""
    eager: float = UNKNOWN
    """The same of eager from eager in float64 on the host, where it is measured."""
    graphs: int = 0
    broken: list[str] = field(default_factory=list[str])
    """The graph breaks: place, line of code and reason."""
    seconds: float = 0.0
    error: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both doors gave eager's results."""
        return not self.error and self.exported < TOLERANCE and self.compiled < TOLERANCE

    def line(self) -> str:
        """The row as a line of text."""
        state = "agrees" if self.agrees else "FAILED"
        numbers = f"{self.exported:.0e} {self.compiled:.0e} eager {self.eager:.0e}"
        graphs = (
            f"{self.graphs} graphs, {len(self.broken)} breaks, {self.instructions} instructions"
        )
        return f"{state} {self.name} {numbers}, {graphs}, {self.seconds:.0f} s {self.error[-800:]}"


def save(path: Path, rows: Sequence[Row], about: str) -> None:
    """Write rows, and a line about where they were measured."""
    path.write_text(json.dumps({"about": about, "rows": [asdict(r) for r in rows]}, indent=1))


def load(path: Path) -> tuple[list[Row], str]:
    """The rows of a file, and the line about where they were measured."""
    given = json.loads(path.read_text())
    return [Row(**r) for r in given["rows"]], given["about"]


def table(rows: Sequence[Row], about: str = "") -> str:
    """A row for each architecture, their count, and the graph breaks."""
    wide = any(r.eager == r.eager for r in rows)
    heads = ["architecture", "instructions", "`from_torch`", "`torch.compile`"]
    heads += [*(["eager in float32"] if wide else []), "graphs", "breaks"]
    lines = [_cells(heads), "|---" * len(heads) + "|", *(_cells(_shown(r, wide)) for r in rows)]
    broken = [f"- {r.name}: {text}" for r in rows for text in r.broken]
    count = f"{sum(r.agrees for r in rows)} of {len(rows)} agree{about and f': {about}'}."
    return "\n\n".join([count, "\n".join(lines), *(["\n".join(broken)] if broken else [])])


def _shown(row: Row, wide: bool) -> list[str]:
    first = [row.name, str(row.instructions)]
    if row.error:
        short = row.error.partition("\n")[0][:160].replace("|", "\\|")
        return [*first, short, *[""] * (4 if wide else 3)]
    middle = [row.exported, row.compiled, *([row.eager] if wide else [])]
    return [*first, *(f"{v:.0e}" for v in middle), str(row.graphs), str(len(row.broken))]


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
