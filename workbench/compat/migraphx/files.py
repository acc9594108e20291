"""Programs and arguments in MIGraphX's files: msgpack and JSON."""

from __future__ import annotations

from os import fspath
from pathlib import Path
from typing import Any, cast

from workbench.compat.migraphx.arguments import argument, core_argument, of_parts, of_value
from workbench.compat.migraphx.errors import Error, FileName, bound, written
from workbench.compat.migraphx.programs import program
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.files import mxr
from workbench.compiler.files.mxr.files import read_whole, write_whole
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.ranges import any_dynamic, strict_shape
from workbench.compiler.ir.shape import Shape


@bound
def save(p: program, filename: FileName, format: str = "msgpack") -> None:
    """Write a program to a file.

    Args:
        p: The program, compiled or not.
        filename: The file.
        format: ``msgpack`` or ``json``.

    Raises:
        Error: There is no such format, or the file cannot be written.
    """
    with written(filename):
        mxr.save(p.core, fspath(filename), format, p.compiled())


@bound
def load(filename: FileName, format: str = "msgpack", trusted_kernels: bool = False) -> program:
    """Read a program from a file.

    Args:
        filename: The file.
        format: ``msgpack`` or ``json``.
        trusted_kernels: Whether to run machine code in the file that was compiled for this device. It
            can do anything that a kernel can. By default kernels are compiled from source.

    Raises:
        Error: There is no such format, or the file is missing, damaged or of another version.
    """
    return _loaded(mxr.read_compiled(fspath(filename), format), trusted_kernels)


@bound
def save_buffer(p: program, format: str = "msgpack") -> bytes:
    """A program as the bytes of a file."""
    return mxr.save_buffer(p.core, format, p.compiled())


@bound
def load_buffer(
    b: bytes | bytearray, format: str = "msgpack", trusted_kernels: bool = False
) -> program:
    """The program in the bytes of a file.

    Args:
        b: The bytes.
        format: ``msgpack`` or ``json``.
        trusted_kernels: As for ``load``.

    Raises:
        Error: There is no such format, or the bytes are damaged or of another version.
    """
    return _loaded(mxr.load_compiled(b, format), trusted_kernels)


def _loaded(found: tuple[Program, mxr.Compiled], trusted_kernels: bool) -> program:
    core, compiled = found
    return program.loaded(_strict(core), compiled, trusted_kernels)


def _strict(core: Program) -> Program:
    """A program with MIGraphX's rules for dynamic shapes, which all programs of the drop-in have.

    If its shapes do not follow from them, it was made with the workbench's own rules and keeps those.
    """
    if all(_follows(i) for m in core.modules.values() for i in m if i.name[0] != "@"):
        core.follow_migraphx()
    return core


def _follows(instruction: Instruction) -> bool:
    inputs = [i.shape for i in instruction.inputs]
    if not any_dynamic([instruction.shape, *inputs]):
        return True
    return strict_shape(instruction.op, inputs, instruction.modules) == instruction.shape


def save_argument(arg: argument, filename: FileName) -> None:
    """Write an argument to a file."""
    with written(filename):
        write_whole(Path(fspath(filename)), mxr.write_argument(_core(arg)))


def load_argument(filename: FileName) -> argument:
    """Read an argument from a file."""
    path = Path(fspath(filename))
    data = read_whole(path)
    try:
        return _made(mxr.read_argument(data))
    except WorkbenchError as error:
        raise Error(f"{path}: {error}") from error


def _core(arg: argument) -> Any:
    parts = arg.get_sub_objects()
    return [_core(p) for p in parts] if arg.core.subs is not None else core_argument(arg)


def _made(core: Any) -> argument:
    if isinstance(core, Argument):
        return of_value(core.shape, core.numpy())
    parts = [_made(c) for c in cast("tuple[Any, ...]", core)]
    return of_parts(Shape.tuple_of([p.core for p in parts]), parts)
