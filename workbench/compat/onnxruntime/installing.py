"""Making ``import onnxruntime`` mean this package."""

from __future__ import annotations

import importlib
import pkgutil
import sys


def install() -> None:
    """Make ``import onnxruntime`` and the modules below it import this package."""
    ours = importlib.import_module("workbench.compat.onnxruntime")
    sys.modules["onnxruntime"] = ours
    for found in pkgutil.walk_packages(ours.__path__, f"{ours.__name__}."):
        if not found.name.endswith(".__main__"):
            name = "onnxruntime" + found.name.removeprefix(ours.__name__)
            sys.modules[name] = importlib.import_module(found.name)
