"""``python -m workbench.compat.popart script.py``: run a script for which ``popart`` is this package."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import workbench.compat.popart as ours
from workbench.compat.scripts import run_script


def main(arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments."""
    return run_script("popart", install, arguments)


def install() -> None:
    """Make ``import popart`` and the modules below it import this package."""
    sys.modules["popart"] = ours
    for found in pkgutil.walk_packages(ours.__path__, f"{ours.__name__}."):
        if not found.name.endswith(".__main__"):
            name = "popart" + found.name.removeprefix(ours.__name__)
            sys.modules[name] = importlib.import_module(found.name)
    sys.modules["popart.ir.ops.utils"] = sys.modules["popart.ir.ops.checks"]  # PopART's name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
