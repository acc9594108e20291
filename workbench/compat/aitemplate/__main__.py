"""``python -m workbench.compat.aitemplate script.py``: a script for which ``aitemplate`` is this package."""

from __future__ import annotations

import sys

from workbench.compat.aitemplate.frontend.installing import install
from workbench.compat.scripts import run_script


def main(arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments."""
    return run_script("aitemplate", install, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
