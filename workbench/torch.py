"""The workbench inside of PyTorch: what ``torch.compile(backend="workbench")`` made.

Importing this loads no torch; it is needed when something is asked of it.
"""

from workbench.compat.torch.graphs import Break, TorchBuilds, TorchGraph, builds, clear

__all__ = ["Break", "TorchBuilds", "TorchGraph", "builds", "clear"]
