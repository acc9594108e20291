"""Handlers of StableHLO operations, one file per family."""
