"""JAX and the MLIR of jaxlib, loaded when needed; a missing package is an error that names the extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from workbench.compiler.errors import ModelError


def installed(module: str) -> Any:
    """A module of a package that the extra ``jax`` installs.

    Raises:
        ModelError: It is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ModelError(
            f"the package {package!r} is not installed; install the extra that has it: "
            "pip install 'graph-workbench[jax]'"
        ) from error


def mlir() -> Any:
    """MLIR's bindings: ``jaxlib.mlir.ir``.

    Raises:
        ModelError: jaxlib is not installed.
    """
    return installed("jaxlib.mlir.ir")


def dialect() -> Any:
    """The dialect's bindings: ``jaxlib.mlir.dialects.stablehlo``.

    Raises:
        ModelError: jaxlib is not installed.
    """
    return installed("jaxlib.mlir.dialects.stablehlo")
