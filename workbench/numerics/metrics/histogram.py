"""Histograms of values whose range is not known beforehand: they widen as they are filled."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

BINS = 512
"""Equal bins from the lower bound to the upper one; a multiple of 4."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BLOCKS_SHOWN = 16
_LEAST = 2.0**-126
_MOST = 2.0**1022


class Histogram:
    """Counts of values in bins between -bound and bound; the bound is a power of two.

    A value beyond the bound doubles it and merges adjacent bins in pairs: counts stay exact.
    """

    def __init__(self) -> None:
        """Start without counts."""
        self.counts: Array = np.zeros(BINS, np.int64)
        self.bound = 0.0

    def add(self, values: Array, largest: float) -> None:
        """Count finite values; ``largest`` is their largest magnitude."""
        if not values.size:
            return
        needed = 2.0 ** np.ceil(np.log2(np.clip(largest, _LEAST, _MOST)))
        self.bound = self.bound or needed
        while self.bound < needed:
            self._widen()
        places = np.floor(np.asarray(values, np.float64) * (BINS / 2 / self.bound)) + BINS // 2
        bins = np.clip(places, 0, BINS - 1).astype(np.intp).ravel()
        self.counts += np.bincount(bins, minlength=BINS)

    def __repr__(self) -> str:
        """The bound, and the counts in sixteen groups of bins as blocks of that height."""
        groups = self.counts.reshape(_BLOCKS_SHOWN, -1).sum(axis=1)
        heights = np.ceil(groups * (len(_BLOCKS) - 1) / max(groups.max(), 1)).astype(int)
        return f"±{self.bound:.3g} {''.join(_BLOCKS[h] for h in heights)}"

    def _widen(self) -> None:
        inner = self.counts.reshape(-1, 2).sum(axis=1)
        self.counts = np.zeros(BINS, np.int64)
        self.counts[BINS // 4 : BINS // 4 * 3] = inner
        self.bound *= 2

    @property
    def edges(self) -> Array:
        """The bounds of the bins, one more than there are bins."""
        return np.linspace(-self.bound, self.bound, BINS + 1)
