"""The reductions of a loss over a batch."""

from __future__ import annotations

from enum import Enum


class ReductionType(Enum):
    """The way in which the losses of samples become one number."""

    Sum = 0
    Mean = 1
    NoReduction = 2
