"""``python -m workbench.compat.popart script.py``: run a script for which ``popart`` is this package."""

from __future__ import annotations

import importlib
import pkgutil
import runpy
import sys
from pathlib import Path

import workbench.compat.popart as ours

USAGE = (
    "usage: python -m workbench.compat.popart script.py [arguments]\n"
    "       python -m workbench.compat.popart -m module [arguments]\n"
    "Runs a script with `import popart` meaning workbench.compat.popart.\n"
)


def main(arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if arguments else 2
    install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.stderr.write("-m: expected the name of a module after it\n")
            return 2
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(arguments[0])
    if not script.is_file():
        sys.stderr.write(f"{script}: no such script\n")
        return 2
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


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
