"""The search for the fastest kernels: what each variant of a problem took, and which one was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.report.plots import short
from workbench.compiler.report.theme import on_any_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ALL = 1_000
"""More variants than any problem has."""
_BAR = 30
"""Characters of the longest bar."""
_MOST = 24
"""The most problems that are drawn."""
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
_BLUE, _ORANGE = "#0072b2", "#d55e00"


@dataclass(frozen=True)
class Problem:
    """A problem that several kernels solve.

    Attributes:
        name: Its operation, type and lengths.
        seconds: The time of each variant, the mean over these instructions; the one that was estimated to be
            fastest comes first.
        chosen: The variant that is used now.
        instructions: The names in the text form of the instructions that are such problems.
    """

    name: str
    seconds: Mapping[str, float]
    chosen: str
    instructions: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """The time of the variant that was estimated to be fastest, divided by that of the chosen one."""
        return next(iter(self.seconds.values())) / self.seconds[self.chosen]

    def text(self) -> str:
        """The variants as text, the fastest first: microseconds, a bar, the rank in the estimate."""
        ranks = {variant: rank for rank, variant in enumerate(self.seconds, 1)}
        width, slowest = max(map(len, ranks)), max(self.seconds.values())
        used = f"{self.chosen} is used, {self.gain:.2f} times as fast as the estimated one"
        lines = [self.name, f"{len(ranks)} variants measured: {used}", ""]
        for variant in sorted(ranks, key=self.seconds.__getitem__):
            seconds = self.seconds[variant]
            bar = "█" * max(1, round(_BAR * seconds / slowest))
            mark = "◇" if variant == self.chosen else " "
            said = f"{mark} {variant:<{width}}  {seconds * 1e6:9.2f} µs  {bar:<{_BAR}}"
            lines.append(f"{said}  estimated rank {ranks[variant]}")
        return "\n".join(lines) + "\n"


class Tuning:
    """Measurements of a search, problem by problem.

    Args:
        problems: The problems, those that take most of the time first.
        device: The device's name.
    """

    def __init__(self, problems: Sequence[Problem], device: str) -> None:
        """Keep the problems."""
        self.problems = tuple(problems)
        self.device = device

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def table(self) -> DataFrame:
        """A row for each variant: its problem, microseconds, and whether it is used."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "problem": one.name,
                "variant": variant,
                "us": seconds * 1e6,
                "estimated": rank + 1,
                "chosen": variant == one.chosen,
                "instructions": ", ".join(one.instructions),
            }
            for one in self.problems
            for rank, (variant, seconds) in enumerate(one.seconds.items())
        ]
        columns = ["problem", "variant", "us", "estimated", "chosen", "instructions"]
        return pd.DataFrame(rows, columns=columns)

    @on_any_page
    def plot(self, ax: Axes | None = None) -> Axes:
        """Each problem's variants as dots: their times divided by that of the estimated one."""
        import matplotlib.pyplot as plt  # noqa: PLC0415

        shown = self.problems[:_MOST]
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 1 + 0.3 * max(len(shown), 2)), layout="constrained")
        for row, one in enumerate(shown):
            first = next(iter(one.seconds.values()))
            ratios = [s / first for s in one.seconds.values()]
            ax.scatter(ratios, [row] * len(ratios), s=14, color=_BLUE, alpha=0.6, lw=0)
            chosen = one.seconds[one.chosen] / first
            ax.scatter([chosen], [row], s=60, marker="D", facecolor="none", edgecolor=_ORANGE)
        ax.axvline(1, color="grey", lw=0.8)
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.set_xticks(
            ticks := [t for t in _TICKS if low <= t <= high and shown], [f"{t:g}" for t in ticks]
        )
        ax.minorticks_off()
        ax.set_ylim(-0.6, max(len(shown), 1) - 0.4)
        ax.set_yticks(range(len(shown)), [short(one.name) for one in shown], fontsize=8)
        ax.invert_yaxis()
        ax.set_xlabel("time ÷ time of the variant that was estimated to be fastest; ◇ is used")
        left = len(self.problems) - len(shown)
        ax.set_title(
            f"{len(shown)} problems on {self.device}{f'; {left} more' if left else ''}", fontsize=10
        )
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __repr__(self) -> str:
        faster = sum(one.gain > 1 for one in self.problems)
        variants = sum(len(one.seconds) for one in self.problems)
        return (
            f"Tuning({len(self)} problems, {variants} variants on {self.device}; "
            f"{faster} problems use another than the estimated one)"
        )
