"""Numerics: metrics between two values, runs captured value by value, and comparisons of two builds."""
