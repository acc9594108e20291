"""Execution on NumPy: the interpreters, their plans, and traces."""
