"""Scripts of other projects, run with one of our packages in the place of theirs."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path


def run_script(project: str, install: Callable[[], None], arguments: list[str]) -> int:
    """Run a script, or a module with ``-m``, with its arguments.

    Args:
        project: The name of the project, which its package and ours have.
        install: Makes the project's imports ours.
        arguments: Those of the command line.

    Returns:
        The exit code: 2 if the command line is wrong.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(
            f"usage: python -m workbench.compat.{project} script.py [arguments]\n"
            f"       python -m workbench.compat.{project} -m module [arguments]\n"
            f"Runs a script with `import {project}` meaning workbench.compat.{project}.\n"
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
