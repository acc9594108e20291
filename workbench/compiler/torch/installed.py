"""PyTorch, which is loaded when it is needed; a missing package is an error that names the extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from workbench.compiler.errors import ModelError


def torch(package: str = "torch") -> Any:
    """The module of a package that the extra ``torch`` installs.

    Raises:
        ModelError: It is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.partition(".")[0]:
            raise
        raise ModelError(
            f"the package {package.partition('.')[0]!r} is not installed; install the extra that has "
            "it: pip install 'graph-workbench[torch]'"
        ) from error
