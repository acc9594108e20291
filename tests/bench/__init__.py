"""Measurements of the workbench beside its peers, in one run: `python -m tests.bench`."""
