"""Discovery: imports every module of a package, so that each one registers its declarations."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def import_modules(package: str) -> None:
    """Import all modules of a package and of its subpackages, once.

    Args:
        package: The package's full name.
    """
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)
