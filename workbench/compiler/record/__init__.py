"""Recordings of passes: steps, edits, near misses and lineage."""
