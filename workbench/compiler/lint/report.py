"""The report of lint: a row for each finding, as a table, a text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any, overload

from workbench.compiler.lint.finding import Finding

if TYPE_CHECKING:
    from pandas import DataFrame


class LintReport(Sequence[Finding]):
    """Findings, the most expensive first: by measured time if there is a profile, else by bytes moved."""

    def __init__(self, findings: Sequence[Finding], title: str = "") -> None:
        """Sort the findings.

        Args:
            findings: The findings, in any order.
            title: The name of what was inspected.
        """
        self.findings = sorted(findings, key=_weight)
        self.title = title

    def __len__(self) -> int:
        """The number of findings."""
        return len(self.findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...

    @overload
    def __getitem__(self, index: slice) -> list[Finding]: ...

    def __getitem__(self, index: int | slice) -> Finding | list[Finding]:
        """A finding, or several."""
        return self.findings[index]

    def __iter__(self) -> Iterator[Finding]:
        """The findings, the most expensive first."""
        return iter(self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each kind."""
        return dict(sorted(Counter(f.kind for f in self.findings).items()))

    @property
    def summary(self) -> str:
        """The number of findings of each kind in one line."""
        of = f" in {self.title}" if self.title else ""
        if not self.findings:
            return f"nothing found{of}"
        kinds = ", ".join(f"{count} × {kind}" for kind, count in self.counts.items())
        return f"{len(self)} finding{'' if len(self) == 1 else 's'}{of}: {kinds}"

    def table(self) -> DataFrame:
        """A row per finding: kind, instruction, source nodes, cost, remedy and reason, by instruction id.

        ``ms`` is there if a profile was given.
        """
        import pandas as pd  # noqa: PLC0415

        columns: dict[str, list[Any]] = {
            "kind": [f.kind for f in self],
            "instruction": [f.instruction for f in self],
            "source nodes": [", ".join(f.sources) for f in self],
            "MB": [f.cost.bytes / 1e6 for f in self],
            "MFLOP": [f.cost.flops / 1e6 for f in self],
            "kernels": [f.cost.kernels for f in self],
        }
        if any(f.cost.ms is not None for f in self):
            columns["ms"] = [float("nan") if f.cost.ms is None else f.cost.ms for f in self]
        columns |= {"remedy": [f.remedy for f in self], "reason": [f.reason for f in self]}
        return pd.DataFrame(columns, index=pd.Index([f.id for f in self], name="id"))

    def styled(self) -> Any:
        """The table with bars for the cost, for notebooks."""
        table = self.table()
        bars = [c for c in ("ms", "MB") if c in table.columns][:1]
        style: Any = table.style.format(precision=3, escape="html")
        wide = {"text-align": "left", "white-space": "normal", "max-width": "28em"}
        style = style.set_properties(["remedy", "reason", "source nodes"], **wide)
        return style.bar(subset=bars, color="#56B4E9", vmin=0) if len(table) else style

    def to_json(self) -> dict[str, Any]:
        """The findings as values of JSON."""
        return {"summary": self.summary, "findings": [asdict(f) for f in self]}

    def __repr__(self) -> str:
        """The summary."""
        return f"<LintReport: {self.summary}>"

    def __str__(self) -> str:
        """The summary, and four lines per finding."""
        return "\n\n".join([self.summary, *map(_text, self)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        html = f"<p>{escape(self.summary)}</p>"
        if self.findings:
            html += self.styled().to_html()
        return {"text/plain": str(self), "text/html": html}


def _weight(finding: Finding) -> tuple[float, int, int, str]:
    cost = finding.cost
    return -(cost.ms or 0.0), -cost.bytes, finding.id, finding.kind


def _text(finding: Finding) -> str:
    nodes = f"  from {', '.join(finding.sources)}" if finding.sources else ""
    return "\n".join(
        [
            f"{finding.kind}: {finding.instruction}{nodes}",
            f"  costs {cost_text(finding)}",
            f"  do: {finding.remedy}",
            f"  why: {finding.reason}",
        ]
    )


def cost_text(finding: Finding) -> str:
    """The cost of a finding in words: ``0.21 ms, 12.8 MB, 2 kernels``."""
    cost = finding.cost
    said = [
        f"{cost.ms:.3g} ms" if cost.ms is not None else "",
        f"{cost.bytes / 1e6:.3g} MB" if cost.bytes else "",
        f"{cost.flops / 1e6:.3g} MFLOP" if cost.flops else "",
        f"{cost.kernels} kernel{'' if cost.kernels == 1 else 's'}" if cost.kernels else "",
    ]
    return ", ".join(filter(None, said)) or "no time that is known in advance"
