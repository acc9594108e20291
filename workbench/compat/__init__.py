"""Interfaces of other projects, over the same core."""
