"""Chains of reshapes, transposes and broadcasts as one descriptor."""
