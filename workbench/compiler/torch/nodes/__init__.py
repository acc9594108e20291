"""Handlers of PyTorch's operators, one file per family."""
