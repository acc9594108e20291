"""Bisection: the pass, the edit and the instruction where a compilation goes wrong."""
