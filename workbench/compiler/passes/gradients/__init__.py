"""Passes that differentiate programs."""
