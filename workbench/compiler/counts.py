"""Counts that a caller gives: how many runs, trials or variants."""

from __future__ import annotations

from operator import index
from typing import Any


def is_count(value: Any) -> bool:
    """Whether something is a whole number of at least 1."""
    try:
        return index(value) >= 1
    except TypeError:
        return False
