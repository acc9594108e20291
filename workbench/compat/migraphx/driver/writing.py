"""Output of a program in the requested form, to stdout or a file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from workbench.compat.migraphx.driver.messages import UsageError
from workbench.compiler.files.mxr.files import write_whole
from workbench.compiler.files.mxr.kernels import Compiled
from workbench.compiler.ir.program import Program


def form_of(options: argparse.Namespace, command: str) -> str:
    """The form that the options name; by default text, or binary for a file.

    ``--json`` is the program's form if the program is the result, and otherwise the report's.
    """
    if options.output_type:
        return options.output_type
    if options.json and (command in {"read", "compile"} or options.output):
        return "json"
    return "binary" if options.output else "text"


def rendered(
    program: Program, form: str, brief: bool = False, compiled: Callable[[], Compiled] = Compiled
) -> str | bytes:
    """The program in a form; bytes if it is binary. Only files keep the ``compiled`` part."""
    if form == "py":
        from workbench.compat.migraphx.printers.python import to_python  # noqa: PLC0415

        return to_python(program)
    if form == "cpp":
        from workbench.compat.migraphx.printers.cpp import to_cpp  # noqa: PLC0415

        return to_cpp(program)
    if form == "graphviz":
        from workbench.compat.migraphx.printers.graphviz import to_dot  # noqa: PLC0415

        return to_dot(program, brief)
    if form == "netron":
        from workbench.compat.migraphx.printers.netron import netron_json  # noqa: PLC0415

        return netron_json(program) + "\n"
    if form == "text":
        return str(program) + "\n"
    from workbench.compat.migraphx.driver import files  # noqa: PLC0415

    if form == "json":
        return files.to_json(program, compiled()) + "\n"
    return files.to_binary(program, compiled())


def write(
    program: Program,
    options: argparse.Namespace,
    command: str,
    compiled: Callable[[], Compiled] = Compiled,
) -> None:
    """Write the program to the options' destination; a file also gets the compiled part.

    Raises:
        UsageError: Bytes would go to a terminal.
        OSError: The file cannot be written.
    """
    form = form_of(options, command)
    if form == "binary" and not options.output and sys.stdout.isatty():
        raise UsageError("--binary: this is a terminal; name a file with --output")
    result = rendered(program, form, options.brief, compiled)
    if options.output:
        _to_file(Path(options.output), result)
    elif isinstance(result, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(result)
    else:
        sys.stdout.write(result)


def _to_file(path: Path, result: str | bytes) -> None:
    data = result if isinstance(result, bytes) else result.encode("utf-8", "surrogatepass")
    if path.exists() and not path.is_file():  # a device, such as the null device
        path.write_bytes(data)
    else:
        write_whole(path, data)
