"""``python -m workbench.compat.onnxruntime script.py``: run a script on this package."""

from __future__ import annotations

import sys

from workbench.compat.onnxruntime.installing import install
from workbench.compat.scripts import run_script


def main(arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments."""
    return run_script("onnxruntime", install, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
