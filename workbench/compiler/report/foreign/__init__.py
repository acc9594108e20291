"""Profiles of other runtimes, laid over a program by the names of the model's nodes."""
