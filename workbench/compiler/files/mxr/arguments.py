"""Arguments in MIGraphX's files: a shape and its bytes, or the arguments of a tuple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from workbench.compiler.errors import ModelError
from workbench.compiler.files.mxr.msgpack_form import MAX_DEPTH, read_msgpack, write_msgpack
from workbench.compiler.files.mxr.values import (
    expect,
    field,
    literal_of,
    literal_value,
    shape_of,
    shape_value,
)
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.shape import Shape

Arguments: TypeAlias = "Argument | tuple[Arguments, ...]"
"""One argument, or the arguments of a tuple."""


def shape_of_arguments(argument: Arguments) -> Shape:
    """The shape of an argument or of a tuple of them."""
    if isinstance(argument, Argument):
        return argument.shape
    return Shape.tuple_of([shape_of_arguments(a) for a in argument])


def to_argument_value(argument: Argument | Sequence[Any]) -> dict[str, Any]:
    """The file form of an argument, or of a sequence of them as a tuple."""
    if isinstance(argument, Argument):
        return literal_value(argument)
    parts = tuple(cast("Sequence[Arguments]", argument))
    shape = shape_value(shape_of_arguments(parts))
    return {"shape": shape, "sub": [to_argument_value(a) for a in parts]}


def from_argument_value(value: Any, depth: int = 0) -> Arguments:
    """The argument, or the tuple of arguments, for a value from a file.

    Raises:
        ModelError: The value is not an argument, or the size of its data does not fit its shape.
    """
    expect(value, dict, "argument")
    if depth > MAX_DEPTH:
        raise ModelError(f"argument: tuples nested too deeply; expected at most {MAX_DEPTH} levels")
    if "sub" not in value:
        return literal_of(value, "argument")
    parts = field(value, "sub", list, "argument")
    found = tuple(from_argument_value(v, depth + 1) for v in parts)
    said = shape_of(field(value, "shape", dict, "argument"))
    if said != (shape := shape_of_arguments(found)):
        raise ModelError(f"argument: the file says {said}, but its parts are {shape}")
    return found


def write_argument(argument: Argument | Sequence[Any]) -> bytes:
    """The bytes of a file for an argument, or for a sequence of them as a tuple."""
    return write_msgpack(to_argument_value(argument))


def read_argument(data: bytes | bytearray | memoryview) -> Arguments:
    """The argument, or the tuple of arguments, in the bytes of a file.

    Raises:
        ModelError: The data is damaged, hostile or something else.
    """
    return from_argument_value(read_msgpack(data))
