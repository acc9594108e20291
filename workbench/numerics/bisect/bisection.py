"""The answer of a bisection: where a compilation goes wrong, by how much, and the checks that show it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from workbench.compiler.record.edits import Edit, Step
from workbench.compiler.record.recording import Recording
from workbench.numerics.metrics.limits import Distance, Limits

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Check:
    """One program of the recording compared with the source, or a run on the target."""

    step: int
    """The step after which the program stands; -1 is the source."""
    name: str
    """The step's pass; ``source`` and ``run on cpu`` are not passes."""
    edit: int | None
    """The edit of the step after which the program stands; None after all of them."""
    distance: Distance
    """The error of the worst output, and its limit."""
    evaluated: int
    """Number of instructions evaluated for it; all others were known from earlier checks."""
    problem: str = ""
    """Why outputs cannot be compared; empty if they can."""

    @property
    def within(self) -> bool:
        """Whether all outputs are within tolerance."""
        return not self.problem and self.distance.within


@dataclass(frozen=True)
class WrongValue:
    """The instruction that computes a wrong value."""

    id: int
    text: str
    """The operation, the id and the nodes of the model."""
    sources: tuple[str, ...]
    """Names of the model's nodes that it comes from, and those that what it replaced came from."""
    distance: Distance
    """The error of its value, and the limit."""
    before: int | None = None
    """The id of the instruction whose value it should have; None if that is its own value in float64."""
    before_text: str = ""
    shares: bool = False
    """Whether its own computation is within tolerance on the operands as run: the error came with them."""


@dataclass(frozen=True)
class Bisection:
    """The place where a compilation goes wrong, if it does."""

    kind: str
    """``pass``: a pass changed what the program computes, or failed. ``kernel``: all programs agree, but the
    target's run does not. ``none``: nothing is wrong."""
    target: str
    limits: Limits
    recording: Recording
    checks: tuple[Check, ...]
    runs: int
    """Number of programs evaluated in float64."""
    evaluated: int
    """Number of instructions evaluated in these runs together."""
    step: Step | None = None
    """The step of the pass at fault."""
    edit: Edit | None = None
    """The edit of that step after which results differ."""
    culprit: WrongValue | None = None
    problem: str = ""
    """The message, if a pass, a run or the lowering failed."""

    @property
    def found(self) -> bool:
        """Whether something is wrong."""
        return self.kind != "none"

    @property
    def instruction(self) -> int | None:
        """The id of the instruction with the wrong value; None if nothing is wrong, or no one value is."""
        return None if self.culprit is None else self.culprit.id

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the model's nodes concerned."""
        return () if self.culprit is None else self.culprit.sources

    @property
    def error(self) -> float:
        """The error of the instruction's value, else that of the worst output of the last wrong check."""
        if self.culprit is not None:
            return self.culprit.distance.error
        wrong = [c for c in self.checks if not c.within]
        return wrong[-1].distance.error if wrong else 0.0

    @property
    def law(self) -> str:
        """The claim of the rule or the pass at fault."""
        return "" if self.edit is None else self.edit.law

    @property
    def summary(self) -> str:
        """One sentence: pass, edit, instruction, nodes of the model, and number."""
        if self.kind == "none":
            return self._right()
        said = self._pass() if self.kind == "pass" else self._run()
        return said + (f"; law: {self.law}" if self.law else "")

    def _right(self) -> str:
        count = sum(s.changed for s in self.recording)
        made = (
            f"that {count} pass{'' if count == 1 else 'es'} changed"
            if count
            else "that no pass changed"
        )
        limit = f"{self.limits.metric.value} {self.limits.tolerance:.3g}"
        return f"nothing wrong: the program {made} and its run on {self.target} are within {limit}"

    def _pass(self) -> str:
        assert self.step is not None
        where = f"pass {self.step.name} (step {self.step.index})"
        if self.edit is not None:
            count = len(self.step.edits)
            where += f", edit {self.edit.index + 1} of {count} by {self.edit.label}"
        return f"{where}: {self._wrong()}"

    def _run(self) -> str:
        if self.step is not None:
            return f"lowering for {self.target}: {self.problem}"
        return f"run on {self.target}, with every pass right: {self._wrong()}"

    def _wrong(self) -> str:
        if self.problem:
            return self.problem
        error = _told(self.limits, Distance(self.error, self._limit))
        if self.culprit is None:
            return f"an output has {error}, though no instruction that could be compared has"
        instead = f", in place of {self.culprit.before_text}," if self.culprit.before_text else ""
        said = f"{self.culprit.text}{instead} has {error}"
        if self.culprit.shares:
            said += "; on the operands as run it is right, so rounding errors add up before it"
        return said

    @property
    def _limit(self) -> float:
        if self.culprit is not None:
            return self.culprit.distance.limit
        wrong = [c for c in self.checks if not c.within]
        return wrong[-1].distance.limit if wrong else self.limits.tolerance

    def explore(self, **options: Any) -> Any:
        """The pass explorer, at the step at fault; at its first step if none is."""
        at = {} if self.step is None else {"step": self.step.index}
        return self.recording.explore(**{"target": self.target, **at, **options})

    def table(self) -> DataFrame:
        """One row per check: step, pass, edit, error and limit of the worst output, and its work."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "step": c.step, "pass": c.name, "edit": c.edit, "error": c.distance.error,
                "limit": c.distance.limit, "within": c.within, "evaluated": c.evaluated,
                "problem": c.problem,
            }
            for c in self.checks
        ]  # fmt: skip
        columns = ["step", "pass", "edit", "error", "limit", "within", "evaluated", "problem"]
        return pd.DataFrame(rows, columns=columns).astype({"edit": "Int64"})

    def to_json(self) -> dict[str, Any]:
        """The content as plain values; NaN and infinities are None."""
        edit, step = self.edit, self.step
        return {
            "kind": self.kind,
            "summary": self.summary,
            "target": self.target,
            "metric": self.limits.metric.value,
            "tolerance": self.limits.tolerance,
            "step": None if step is None else step.index,
            "pass": None if step is None else step.name,
            "edit": None if edit is None else edit.index,
            "rule": None if edit is None else edit.rule,
            "law": self.law,
            "instruction": self.instruction,
            "sources": list(self.sources),
            "error": self.error if isfinite(self.error) else None,
            "problem": self.problem,
            "runs": self.runs,
            "evaluated": self.evaluated,
        }

    def __repr__(self) -> str:
        """The summary."""
        return f"<Bisection: {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        table = self.table().astype({"edit": object})
        shown = table.fillna({"edit": ""}).to_html(border=0)
        return f"<p>{escape(self.summary)}</p>{shown}"


def _told(limits: Limits, distance: Distance) -> str:
    """An error and its limit in words."""
    if distance.error == float("inf"):
        return "a NaN, an infinity or lens that the reference does not have"
    return f"{limits.metric.value} {distance.error:.3g}, more than {distance.limit:.3g}"
