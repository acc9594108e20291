"""Passes over lengths that only a run knows."""
