"""Passes over reshapes, transposes, broadcasts, slices and layouts."""
