"""Passes that remove, share and evaluate."""
