"""Passes, one file a family, and the pipelines that name their order."""
