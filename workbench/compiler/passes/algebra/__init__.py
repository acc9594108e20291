"""Algebraic simplification."""
