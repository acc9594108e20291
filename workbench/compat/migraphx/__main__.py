"""``python -m workbench.compat.migraphx script.py``: run a script for which ``migraphx`` is this package."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import workbench.compat.migraphx as ours


def main(arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(
            "usage: python -m workbench.compat.migraphx script.py [arguments]\n"
            "       python -m workbench.compat.migraphx -m module [arguments]\n"
            "Runs a script with `import migraphx` meaning workbench.compat.migraphx.\n"
        )
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
