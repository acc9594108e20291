"""Metrics: the distances between a value and its reference, what rounding accounts for, and tolerances."""
