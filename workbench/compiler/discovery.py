"""Discovery: imports every module of a package, so that each registers what it declares."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def import_modules(package: str) -> None:
    """Import all modules of a package and of the packages in it, once.

    Args:
        package: The package's full name.
    """
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)
