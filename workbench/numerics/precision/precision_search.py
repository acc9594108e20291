"""The search for the cheapest types of layers that meet a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.builds.build import Build
from workbench.compiler.errors import OperationError, PrecisionError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import build as build_program
from workbench.compiler.ir.rows import rows_of
from workbench.compiler.ir.selectors import Selector
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.precision.quantize_float import QuantizeFloat
from workbench.numerics.precision.layers import By
from workbench.numerics.precision.quantize import quantize
from workbench.numerics.precision.sensitivity import each_alone, extremes
from workbench.numerics.precision.trials import (
    Executor,
    Inputs,
    Trial,
    Trials,
    built,
    partial_result,
)

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class MixedPrecision:
    """A program of which some layers stay in their type, and the rest is computed in a narrower one.

    ``program`` is the program with the conversions, ``compile`` makes a build of it.
    """

    source: Program
    """The program in its own types."""
    precision: str
    """The narrow type."""
    keep: tuple[Selector, ...]
    """Selectors of the layers that stay, for ``wb.compile`` and ``wb.quantize``."""
    error: float
    """The relative RMS of the worst output; infinity if it is not finite."""
    share: float
    """The share in the narrow type of the floating-point operations of all layers that could be in it."""
    tolerance: float
    _rows: tuple[tuple[str, int, float, float, bool], ...]
    _inputs: tuple[Inputs, ...]

    @property
    def is_within(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance

    @property
    def trials(self) -> DataFrame:
        """A row for each trial in the order of the search: the number of layers kept, share and error."""
        import pandas as pd  # noqa: PLC0415

        columns = ["narrow", "layers kept", "share of flops", "error", "within tolerance"]
        return pd.DataFrame(list(self._rows), columns=pd.Index(columns))

    @property
    def program(self) -> Program:
        """A copy of the source with conversions around the layers that stay."""
        if self.precision in ("int8", "fp8"):
            return quantize(
                self.source, self.precision, self._inputs, keep=self.keep, progress=False
            )
        made = build_program(rows_of(self.source))
        run_pass(QuantizeFloat(type=self.precision, keep=self.keep), made)
        return made

    def compile(self, target: str = "auto", **options: Any) -> Build:
        """Compile the source in these types; ``wb.compare`` then compares the build with it.

        Args:
            target: As in ``wb.compile``.
            options: Further arguments of ``wb.compile``.
        """
        return built(self.source, self.precision, self.keep, self._inputs, target, **options)

    @property
    def summary(self) -> str:
        """One sentence: the share in the narrow type, what is kept, and the error."""
        kept = ", ".join(map(str, self.keep[:4])) + (", …" if len(self.keep) > 4 else "")
        narrow = f"{self.share:.1%} of flops in {self.precision}"
        verdict = "within" if self.is_within else "beyond"
        return (
            f"{narrow}; kept: {kept or 'nothing'}; error {self.error:.3g}, "
            f"{verdict} {self.tolerance:.3g}"
        )

    def __repr__(self) -> str:
        """The summary."""
        return f"<MixedPrecision: {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<p>{escape(self.summary)}</p>{self.trials.to_html(border=0, max_rows=12)}"


def search_precision(
    program: Program,
    inputs: Inputs | Sequence[Inputs] | None,
    tolerance: float,
    precision: str = "fp16",
    *,
    by: By = "node",
    target: str = "ref",
    executor: Executor | None = None,
    progress: bool | None = None,
) -> MixedPrecision:
    """Find the cheapest choice of a type for each layer with which the outputs are within a tolerance.

    If the program is not within the tolerance with all layers narrow, each is tried alone. Layers are then
    kept in the order of the harm that they do per operation, as many as necessary, by bisection. Of those,
    any that the tolerance allows become narrow again, the largest first. Errors of independent roundings
    add in squares, so the harm of a layer is the square of its error beyond that of no narrow layer. For n
    layers of which k are kept, this takes about n + k + 2 log₂ n trials.

    Args:
        program: The program, in its own types.
        inputs: An array for each parameter, or several sets of them; omitted ones are generated.
            ``int8`` and ``fp8`` are calibrated on the same inputs.
        tolerance: The largest relative RMS of an output, against the program itself in float64.
        precision: ``fp16``, ``bf16``, ``int8`` or ``fp8``.
        by: A layer is all that comes from one ``node`` of the model, or from the nodes of one ``scope``.
        target: The target that runs the trials.
        executor: Runs trials in parallel: any executor of ``concurrent.futures``, or a client of Dask. The
            program is sent as bytes.
        progress: Show a progress bar; None shows one after the first second.

    Raises:
        PrecisionError: The program is beyond the tolerance with no layer narrow; ``error.result`` is the best
            that was found.
        OperationError: An argument is none of those listed.
        InputError: The inputs do not fit the parameters.
        KeyboardInterrupt: The user stopped it; ``error.result`` is the best that was found so far, or None.
    """
    if not (isfinite(tolerance) and tolerance > 0):
        raise OperationError(f"tolerance {tolerance!r}; expected a positive number, such as 1e-3")
    trials = Trials(program, inputs, precision, by, Metric.RELATIVE_RMS, target, executor, progress)
    search = _Search(trials, tolerance)
    with partial_result(search.best):
        search.run()
    found = search.best()
    assert found is not None
    if not found.is_within:
        raise _out_of_reach(found, target)
    return found


def _out_of_reach(found: MixedPrecision, target: str) -> PrecisionError:
    error = PrecisionError(
        f"search_precision: no choice of types is within {found.tolerance:.3g}: with no layer in "
        f"{found.precision}, the relative RMS on {target!r} is {found.error:.3g} already; expected a "
        "larger tolerance. error.result is the best that was found"
    )
    error.result = found
    return error


class _Search:
    """One search: which layers to keep."""

    def __init__(self, trials: Trials, tolerance: float) -> None:
        self.trials = trials
        self.tolerance = tolerance

    def run(self) -> None:
        """Measure until the best of all trials is the result."""
        trials = self.trials
        trials.run(extremes(trials), "precision")
        if self.meets(frozenset()) or not self.meets(trials.everything):
            return
        trials.run(each_alone(trials), "precision of each layer")
        order = sorted(trials.everything, key=self.harm_per_operation, reverse=True)
        count = _bisected(0, len(order), lambda n: self.meets(frozenset(order[:n])))
        self.give_back(frozenset(order[:count]))

    def give_back(self, kept: frozenset[int]) -> None:
        """Make kept layers narrow again, the largest first, as many as the tolerance allows."""
        trials = self.trials
        tried = [k for k in sorted(kept) if isfinite(self.alone(k))]
        trials.run(
            [(f"also {trials.layers[k].name}", kept - {k}) for k in tried], "precision given back"
        )
        spare = [k for k in tried if self.meets(kept - {k})]
        spare.sort(key=lambda k: trials.weight([k]), reverse=True)
        if len(spare) > 1:
            _bisected(len(spare) + 1, 1, lambda n: self.meets(kept - set(spare[:n])))

    def meets(self, kept: frozenset[int]) -> bool:
        """Whether the outputs are within tolerance if these layers are kept."""
        return self.trials.error(kept, f"all but {len(kept)} layers") <= self.tolerance

    def alone(self, k: int) -> float:
        """The error with only this layer in the narrow type."""
        return self.trials.error(self.trials.everything - {k}, self.trials.layers[k].name)

    def harm_per_operation(self, k: int) -> float:
        """The square of a layer's error beyond that of no narrow layer, per operation."""
        floor = self.trials.error(self.trials.everything, "none")
        error = self.alone(k)
        harm = max(error**2 - floor**2, 0.0) if isfinite(error) else inf
        return harm / max(self.trials.weight([k]), 1)

    def best(self) -> MixedPrecision | None:
        """The cheapest of all trials within tolerance, or that with the smallest error if none is."""
        known = list(self.trials.known.values())
        within = [t for t in known if t.error <= self.tolerance]
        if within:
            return self._result(min(within, key=lambda t: (-self._share(t), len(t.kept), t.error)))
        return self._result(min(known, key=lambda t: t.error)) if known else None

    def _share(self, trial: Trial) -> float:
        return self.trials.share(self.trials.everything - trial.kept)

    def _result(self, trial: Trial) -> MixedPrecision:
        trials = self.trials
        return MixedPrecision(
            trials.program, trials.setting.precision, trials.keep(trial.kept), trial.error,
            self._share(trial), self.tolerance, tuple(map(self._row, trials.known.values())),
            trials.setting.inputs,
        )  # fmt: skip

    def _row(self, t: Trial) -> tuple[str, int, float, float, bool]:
        return t.what, len(t.kept), self._share(t), t.error, t.error <= self.tolerance


def _bisected(fails: int, holds: int, test: Callable[[int], bool]) -> int:
    """The number next to where a test changes, on the side where it holds.

    Args:
        fails: A number for which it does not hold.
        holds: A number for which it does.
        test: Called for numbers between them.
    """
    while abs(holds - fails) > 1:
        middle = (holds + fails) // 2
        if test(middle):
            holds = middle
        else:
            fails = middle
    return holds
