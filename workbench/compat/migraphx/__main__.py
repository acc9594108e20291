"""``python -m workbench.compat.migraphx script.py``: run a script for which ``migraphx`` is this package."""

from __future__ import annotations

import sys

import workbench.compat.migraphx as ours
from workbench.compat.scripts import run_script


def main(arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments."""
    return run_script("migraphx", install, arguments)


def install() -> None:
    """Make ``import migraphx`` import this package, and ``import onnx_migraphx`` the backend beside it."""
    sys.modules["migraphx"] = ours
    sys.modules["migraphx.sym"] = ours.sym
    try:
        from workbench.compat import onnx_migraphx  # noqa: PLC0415
        from workbench.compat.onnx_migraphx import backend, backend_rep  # noqa: PLC0415
    except ImportError:
        return
    sys.modules["onnx_migraphx"] = onnx_migraphx
    sys.modules["onnx_migraphx.backend"] = backend
    sys.modules["onnx_migraphx.backend_rep"] = backend_rep


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
