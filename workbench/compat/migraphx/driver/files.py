"""Programs and arguments in files: MIGraphX's binary and JSON forms, and the workbench's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from workbench.compiler.errors import ModelError
from workbench.compiler.files import mxr
from workbench.compiler.files.archive import load
from workbench.compiler.files.mxr.files import read_whole
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.program import Program


def read_binary(file: str) -> tuple[Program, mxr.Compiled]:
    """A program from an ``.mxr`` file or one saved by the workbench, with its compiled part.

    Raises:
        ModelError: The file holds something else, or is damaged.
    """
    if not is_zipfile(file):
        return mxr.read_compiled(file)
    found = load(file)
    if not isinstance(found, Program):
        raise ModelError(f"{file}: holds a recording; expected a program")
    return found, mxr.Compiled()


def read_json(file: str) -> tuple[Program, mxr.Compiled]:
    """A program from MIGraphX's JSON, with its compiled part.

    Raises:
        ModelError: The file holds something else, or is damaged.
    """
    return mxr.read_compiled(file, "json")


def to_json(program: Program, compiled: mxr.Compiled) -> str:
    """A program as MIGraphX's JSON."""
    return mxr.save_buffer(program, "json", compiled).decode("utf-8", "surrogatepass")


def to_binary(program: Program, compiled: mxr.Compiled) -> bytes:
    """A program as the bytes of an ``.mxr`` file."""
    return mxr.save_buffer(program, compiled=compiled)


def read_argument(file: str) -> Any:
    """The value of an argument file: an array, or a tuple of them.

    Raises:
        ModelError: The file holds something else, or is damaged.
    """
    try:
        return _value(mxr.read_argument(read_whole(Path(file))))
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from error


def _value(argument: Any) -> Any:
    if isinstance(argument, Argument):
        return argument.numpy()
    return tuple(map(_value, argument))
