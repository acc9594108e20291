"""Sensitivity of a program's outputs to the type of each layer: the error of one alone, and of all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector
from workbench.compiler.report.theme import on_any_page
from workbench.numerics.precision.layers import By
from workbench.numerics.precision.trials import Executor, Inputs, Trials, partial_result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_SHOWN = 20
"""Most layers in a plot."""


@dataclass(frozen=True)
class Sensitivity:
    """One layer and the errors of the outputs; infinity if they are not finite, NaN if not measured."""

    layer: str
    operations: tuple[str, ...]
    share: float
    """Its share in the floating-point operations of all layers."""
    alone: float
    """The error with this layer alone in the narrow type."""
    without: float
    """The error with all layers but this one in the narrow type."""
    keep: tuple[Selector, ...]
    """Selectors that keep this layer in its type, for ``wb.compile`` and ``wb.quantize``."""


class Sensitivities:
    """The errors of a program's outputs with each layer alone in a narrow type, and with all but that layer.

    Attributes:
        precision: The narrow type.
        metric: The metric between the outputs and those of the program in float64.
        layers: The layers in program order.
        narrow: The error with all layers in the narrow type.
        wide: The error with no layer in it: that of the target in the program's own types.
    """

    def __init__(self, trials: Trials) -> None:
        """Read the errors that have been measured."""
        self.precision = trials.setting.precision
        self.metric = trials.setting.metric
        self.layers = [_row(trials, k) for k in range(len(trials.layers))]
        self.narrow = known_error(trials, frozenset())
        self.wide = known_error(trials, trials.everything)

    def worst(self) -> list[Sensitivity]:
        """The layers, those with the largest error alone first, and those not measured last."""
        return sorted(self.layers, key=lambda row: (isnan(row.alone), -row.alone))

    def table(self) -> DataFrame:
        """One row per layer, the worst first: operations, share of operations, and the two errors."""
        import pandas as pd  # noqa: PLC0415

        columns = ["layer", "operations", "share of flops", "error alone", "error of all but it"]
        rows = [
            (r.layer, ", ".join(r.operations), r.share, r.alone, r.without) for r in self.worst()
        ]
        return pd.DataFrame(rows, columns=pd.Index(columns))

    @on_any_page
    def plot(self, ax: Axes | None = None) -> Axes:
        """The worst layers as bars on a log scale; a bar to the edge means outputs that are not finite."""
        import matplotlib.pyplot as plt  # noqa: PLC0415

        rows = [r for r in self.worst() if r.alone > 0][:_SHOWN]
        if ax is None:
            size = (8, 1.4 + 0.24 * max(len(rows), 4))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        if rows:
            self._draw(ax, rows)
        ax.set_xlabel(f"{self.metric.value} error of the outputs")
        title = f"{self.precision}: error {_text(self.narrow)} with all layers"
        ax.set_title(title if self.layers else self.summary, fontsize=10, pad=22)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _draw(self, ax: Axes, rows: Sequence[Sensitivity]) -> None:
        places = np.arange(len(rows))
        low, high = self._bounds(rows)
        inside = [r.alone if isfinite(r.alone) else high for r in rows]
        ax.barh(places, inside, color="#0072B2", label="this layer alone")
        ax.plot(
            [r.without if isfinite(r.without) else high for r in rows], places, "o",
            color="#E69F00", ms=4, clip_on=False, label="all but it",
        )  # fmt: skip
        if isfinite(self.narrow) and self.narrow > 0:
            ax.axvline(self.narrow, color="black", ls="--", lw=0.8, label="all layers")
        for place, row in enumerate(rows):
            if not isfinite(row.alone):
                ax.text(low * 1.2, place, "not finite", va="center", color="white", fontsize=7)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.set_yticks(places, [_shortened(r.layer) for r in rows], fontsize=8)
        ax.invert_yaxis()
        ax.legend(fontsize=8, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    def _bounds(self, rows: Sequence[Sensitivity]) -> tuple[float, float]:
        """The ends of the axis: the powers of ten around all finite errors."""
        errors = [e for r in rows for e in (r.alone, r.without)] + [self.narrow]
        shown = [e for e in errors if isfinite(e) and e > 0] or [1.0]
        low, high = float(np.floor(np.log10(min(shown)))), float(np.ceil(np.log10(max(shown))))
        return 10**low, 10 ** max(high, low + 1)

    @property
    def summary(self) -> str:
        """One sentence: the type, the error of all layers in it, and the worst layer."""
        if not self.layers:
            return f"{self.precision}: no layer computes in a type that could be narrower"
        worst = self.worst()[0]
        everything = f"{self.precision}: error {_text(self.narrow)} with all layers"
        return f"{everything}; the worst alone is {_shortened(worst.layer)}, {_text(worst.alone)}"

    def __repr__(self) -> str:
        """The summary."""
        return f"<Sensitivities of {len(self.layers)} layers, {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<p>{escape(self.summary)}</p>{self.table().head(10).to_html(border=0)}"


def sensitivity(
    program: Program,
    inputs: Inputs | Sequence[Inputs] | None = None,
    precision: str = "fp16",
    *,
    by: By = "node",
    metric: Metric | str = Metric.RELATIVE_RMS,
    target: str = "ref",
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Sensitivities:
    """Measure how much each layer's type matters: the error with it alone narrow, and with all but it.

    Each layer takes two compilations and runs. The reference is the program itself in float64. The error is
    that of the worst output on the worst set of inputs.

    Args:
        program: The program, in its own types.
        inputs: An array for each parameter, or several sets of them; omitted ones are generated.
            ``int8`` and ``fp8`` are calibrated on the same inputs.
        precision: ``fp16``, ``bf16``, ``int8`` or ``fp8``.
        by: A layer is all that comes from one ``node`` of the model, or from the nodes of one ``scope``.
        metric: The error; the relative RMS by default. For the cosine, it is 1 − cosine.
        target: The target that runs the trials.
        executor: Runs the trials in parallel: any executor of ``concurrent.futures``, or a client of Dask.
            The program is sent as bytes.
        progress: Show a progress bar; None shows one after the first second.

    Raises:
        OperationError: An argument is none of those listed.
        InputError: The inputs do not fit the parameters.
        KeyboardInterrupt: The user stopped it; ``error.result`` has what was measured so far.
    """
    trials = Trials(program, inputs, precision, by, metric, target, executor, progress)
    with partial_result(lambda: Sensitivities(trials)):
        wanted = [*extremes(trials), *each_alone(trials)]
        wanted += [(f"all but {x.name}", frozenset({k})) for k, x in enumerate(trials.layers)]
        trials.run(wanted, "sensitivity")
    return Sensitivities(trials)


def extremes(trials: Trials) -> list[tuple[str, frozenset[int]]]:
    """The trials with all layers and with no layer in the narrow type."""
    return [("all", frozenset()), ("none", trials.everything)]


def each_alone(trials: Trials) -> list[tuple[str, frozenset[int]]]:
    """The trials with one layer in the narrow type."""
    named = enumerate(trials.layers)
    return [(f"{layer.name} alone", trials.everything - {k}) for k, layer in named]


def known_error(trials: Trials, kept: frozenset[int]) -> float:
    """The error of a trial; NaN if it was not run."""
    found = trials.known.get(kept)
    return nan if found is None else found.error


def _row(trials: Trials, k: int) -> Sensitivity:
    layer = trials.layers[k]
    alone = known_error(trials, trials.everything - {k})
    without = known_error(trials, frozenset({k}))
    return Sensitivity(layer.name, layer.operations, trials.share([k]), alone, without, layer.keep)


def _shortened(name: str, most: int = 48) -> str:
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _text(error: float) -> str:
    if isnan(error):
        return "unknown"
    return f"{error:.3g}" if isfinite(error) else "not finite"
