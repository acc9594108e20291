"""``python -m workbench.compat.aitemplate script.py``: a script for which ``aitemplate`` is this package."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from workbench.compat.aitemplate.frontend.installing import install

USAGE = (
    "usage: python -m workbench.compat.aitemplate script.py [arguments]\n"
    "       python -m workbench.compat.aitemplate -m module [arguments]\n"
    "Runs a script with `import aitemplate` meaning workbench.compat.aitemplate.\n"
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
