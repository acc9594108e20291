"""Calibration: the range and the rounding of every captured argument, as a table and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.passes.precision.quantize_8bits import step_of
from workbench.numerics.metrics.histogram import Array, Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

LEVELS = {"int8": (-128.0, 127.0), "int4": (0.0, 15.0)}
"""The least and the largest code of the integers that values are rounded to."""
_UNSEEN = 64.0
"""The multiplier of an argument that had no value, as in MIGraphX."""


@dataclass
class Captured:
    """One captured argument: its position, statistics of its values, and its rounding.

    Attributes:
        index: Its number among the captured arguments.
        id: The id of the instruction that reads it.
        op: The name of that instruction's operation.
        operand: The index among the instruction's inputs.
        shape: Its shape.
        type: Its element type.
        constant: Whether it is a constant.
        sources: The source nodes of the instruction.
        precision: The type that it is rounded to: ``int8``, ``fp8e4m3fn`` or ``int4``.
        packed: Scale and zero point, if they depend only on the value.
        asymmetric: Whether the codes cover the range from the least to the largest value, not one that is
            symmetric about 0. The range always has 0, whose code is exact: padding and ReLU make many.
    """

    index: int
    id: int
    op: str
    operand: int
    shape: str
    type: DType
    constant: bool
    sources: tuple[str, ...]
    precision: str
    packed: tuple[float, int] | None = None
    asymmetric: bool = False
    seen: int = 0
    """The number of values seen."""
    least: float = np.inf
    largest: float = -np.inf
    nan: int = 0
    inf: int = 0
    histogram: Histogram = field(default_factory=Histogram)
    _squares: float = 0.0
    _count: int = 0

    def see(self, value: Array) -> None:
        """Add a value to the statistics; NaN and infinities are counted separately."""
        values = np.asarray(value, np.float32).ravel()
        finite = values[np.isfinite(values)]
        self.seen += 1
        self.nan += int(np.isnan(values).sum())
        self.inf += int(np.isinf(values).sum())
        if finite.size:
            self.least = min(self.least, float(finite.min()))
            self.largest = max(self.largest, float(finite.max()))
            self.histogram.add(finite, max(abs(float(finite.min())), abs(float(finite.max()))))
            self._squares += float(np.square(finite, dtype=np.float64).sum())
            self._count += finite.size

    @property
    def max_abs(self) -> float:
        """The largest magnitude; infinite if an infinity was seen."""
        if self.inf:
            return np.inf
        return max(abs(self.least), abs(self.largest)) if self._count else 0.0

    @property
    def rms(self) -> float:
        """The root of the mean square of the finite elements."""
        return (self._squares / self._count) ** 0.5 if self._count else 0.0

    @property
    def multiplier(self) -> float:
        """The factor that values are multiplied by before rounding."""
        if self.packed:
            return 1 / self.packed[0] if self.packed[0] else 1.0
        if not self.seen:
            return _UNSEEN
        if self.max_abs == 0:
            return 1.0
        low, high = self._levels
        codes, covered = (high - low, self._span) if self._is_shifted else (high, self.max_abs)
        with np.errstate(all="ignore"):
            return float(np.float32(codes) / np.float32(covered))

    @property
    def _is_shifted(self) -> bool:
        return self.asymmetric and bool(self._count) and not self.inf and self._span > 0

    @property
    def _span(self) -> float:
        """The length of the range of the values and 0."""
        return max(self.largest, 0.0) - min(self.least, 0.0)

    @property
    def scale(self) -> float:
        """The step between two codes."""
        return self.packed[0] if self.packed else step_of(self.multiplier, self.type)

    @property
    def zero_point(self) -> int:
        """The code of 0."""
        if self.packed or not self._is_shifted:
            return self.packed[1] if self.packed else 0
        low, high = self._levels
        return round(max(low, min(high, low - min(self.least, 0.0) / self.scale)))

    @property
    def _levels(self) -> tuple[float, float]:
        if self.precision in LEVELS:
            return LEVELS[self.precision]
        return DType.of(self.precision).format.limits

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value after rounding; values beyond them are clipped."""
        low, high = self._levels
        return (low - self.zero_point) * self.scale, (high - self.zero_point) * self.scale

    @property
    def noise(self) -> float:
        """The noise of rounding to integers, relative to the RMS of the values: a step over √12, uniform."""
        if self.precision not in LEVELS or not self.rms:
            return np.nan
        return self.scale / 12**0.5 / self.rms

    @property
    def name(self) -> str:
        """The argument's name in texts."""
        return f"input {self.operand} of {self.op} #{self.id}"


class Calibration:
    """The captured arguments of a quantized program, in the order of their numbers."""

    def __init__(self, precision: str, rows: Sequence[Captured] = ()) -> None:
        """The calibration of a program for ``precision``; without rows if it captures nothing."""
        self.precision = precision
        self.rows = list(rows)

    def __len__(self) -> int:
        """The number of captured arguments."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Captured]:
        """The captured arguments."""
        return iter(self.rows)

    def __getitem__(self, index: int) -> Captured:
        """A captured argument by number.

        Raises:
            InputError: There is no argument of that number.
        """
        if not 0 <= index < len(self.rows):
            raise InputError(f"no captured argument {index}; there are {len(self.rows)}")
        return self.rows[index]

    @property
    def quant_params(self) -> list[tuple[float, float]]:
        """Multiplier and shift of each argument: the option of the pass ``quantize_8bits``."""
        return [(r.multiplier, float(r.zero_point)) for r in self.rows]

    def table(self) -> DataFrame:
        """One row per argument: its position, statistics, scale and zero point.

        ``seen`` is the number of values, ``noise`` the rounding error relative to the RMS.
        """
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "id": r.id, "op": r.op, "operand": r.operand, "shape": r.shape, "constant": r.constant,
                "seen": r.seen, "min": r.least, "max": r.largest, "max abs": r.max_abs, "rms": r.rms,
                "nan": r.nan, "inf": r.inf, "precision": r.precision, "scale": r.scale,
                "zero point": r.zero_point, "noise": r.noise, "sources": ", ".join(r.sources),
            }
            for r in self.rows
        ]  # fmt: skip
        columns = ["id", "op", "operand", "shape", "constant", "seen", "min", "max", "max abs", "rms",
                   "nan", "inf", "precision", "scale", "zero point", "noise", "sources"]  # fmt: skip
        index = pd.Index([r.index for r in self.rows], name="argument")
        return pd.DataFrame(rows, columns=pd.Index(columns), index=index)

    def plot(self, index: int, ax: Axes | None = None) -> Axes:
        """The histogram of an argument, with the range that the codes cover.

        Raises:
            InputError: There is no such argument.
        """
        from workbench.numerics.precision.calibration_plots import plot_histogram  # noqa: PLC0415

        return plot_histogram(self[index], ax)

    def plot_ranges(self, ax: Axes | None = None, top: int = 30) -> Axes:
        """The ranges of the arguments as bars, those that lose most precision first."""
        from workbench.numerics.precision.calibration_plots import plot_ranges  # noqa: PLC0415

        return plot_ranges(self.rows, ax, top)

    @property
    def summary(self) -> str:
        """One sentence: the number of captured arguments, and how many had no value."""
        if not self.rows and self.precision == "int4":
            return "int4: no weight was packed; recording.near_misses() tells why"
        if not self.rows:
            return f"{self.precision}: nothing was captured"
        unseen = sum(not r.seen for r in self.rows)
        missing = f", of which {unseen} had no value: their scale is a guess" if unseen else ""
        return f"{self.precision}: {len(self.rows)} captured{missing}"

    def __repr__(self) -> str:
        """The summary."""
        return f"<Calibration {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<p>{escape(self.summary)}</p>{self.table().to_html(border=0)}"
