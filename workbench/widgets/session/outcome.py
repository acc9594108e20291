"""An outcome: the facts of a build and of its last runs by which it is compared with the build before."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from workbench.compiler.record.lowered import KERNEL

if TYPE_CHECKING:
    from workbench.widgets.session.session import Session
    from workbench.widgets.session.settings import Settings


@dataclass(frozen=True)
class Outcome:
    """Facts of a build; None for those that were not asked for."""

    settings: Settings
    instructions: int
    kernels: int | None
    """Kernels of a device; None where an interpreter runs the program."""
    ms: float | None
    """Time of all parts together, the median of the repetitions."""
    error: float | None
    """The largest error of any compared value."""

    @classmethod
    def of(cls, session: Session, settings: Settings) -> Outcome | None:
        """The outcome of a session's last build; None if nothing was compiled."""
        build, ms, error = session.build, None, None
        if build is None:
            return None
        lowered = build.recording.lowered if build.is_recorded else None
        kernels = None if lowered is None else sum(row.kind == KERNEL for row in lowered)
        if session.timed and session.result is not None:
            ms = sum(t.spread.median for t in session.result.measured.rows) * 1e3
        if session.report is not None:
            error = max((_size(r.metrics.error) for r in session.report.rows), default=0.0)
        return cls(settings, len(build.program.main), kernels, ms, error)

    def change_from(self, before: Outcome) -> str:
        """The effect of the change of settings: ``without fuse_reduce: 12 → 15 kernels, …``."""
        said = [
            f"{before.instructions:,} → {self.instructions:,} instructions",
            _both(before.kernels, self.kernels, "{:,} → {:,} kernels"),
            _both(before.ms, self.ms, "{:.3g} → {:.3g} ms"),
            _both(before.error, self.error, "error {:.1g} → {:.1g}"),
        ]
        return f"{self._difference(before.settings)}: {', '.join(filter(None, said))}"

    def _difference(self, old: Settings) -> str:
        """The settings that differ, in words."""
        new = self.settings
        off = [name for name in new.off if name not in old.off]
        on = [name for name in old.off if name not in new.off]
        words = [f"without {', '.join(off)}"] * bool(off) + [f"with {', '.join(on)}"] * bool(on)
        others = ("target", "device", "precision", "order")
        words += [f"another {n}" for n in others if getattr(new, n) != getattr(old, n)]
        return ", ".join(words) or "once more"


def _size(error: float) -> float:
    """An error that can be compared: NaN is the worst."""
    return error if isfinite(error) else float("inf")


def _both(before: float | None, after: float | None, form: str) -> str:
    return "" if before is None or after is None else form.format(before, after)
