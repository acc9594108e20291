"""Runs on a device: executables, their streams and graphs, and profiles."""
