"""Training steps: programs whose weights are parameters that a run replaces."""
