"""Runs on NumPy: the interpreter, its order of work, and traces."""
