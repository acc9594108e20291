"""Lint: needless work of a compiled program, with its cost and the remedy; a file in `kinds` per kind."""
