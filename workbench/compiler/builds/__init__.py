"""Builds: a program compiled for a target."""
