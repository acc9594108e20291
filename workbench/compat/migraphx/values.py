"""Values of keyword arguments by MIGraphX's rules: 32-bit integers, floats, lists, dicts."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from workbench.compat.migraphx.errors import Error
from workbench.compat.migraphx.shapes import dynamic_dimension, shape
from workbench.compat.migraphx.sym import expr
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.files.mxr.values import (
    dim_of,
    dim_value,
    operation_value,
    shape_of,
    shape_value,
)
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation, attribute_names, find, make
from workbench.compiler.ir.shape import Dim, Shape


def read_attributes(cls: type[Operation], given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an operation from Python values.

    Raises:
        Error: The operation has no such attribute, or the value is not valid for it.
    """
    known = attribute_names(cls)
    for key in given:
        if key not in known:
            listed = ", ".join(known) or "none"
            raise Error(f"No key {key!r} in {cls.name}; its attributes are: {listed}")
    hints = _hints(cls)
    return {k: _attribute(v, hints[k], f"{cls.name}: attribute {k!r}") for k, v in given.items()}


def shown_attributes(op: Operation) -> dict[str, Any]:
    """All attributes of an operation as Python values: enumerations as numbers, floats rounded to 32 bits."""
    return _rounded(operation_value(op))


@cache
def _hints(cls: type[Operation]) -> dict[str, Any]:
    return get_type_hints(cls)


def _attribute(value: Any, hint: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = next(a for a in args if a is not NoneType)
        return None if value is None else _attribute(value, inner, where)
    if origin is tuple:
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        return tuple(_attribute(v, args[0], f"{where}[{i}]") for i, v in enumerate(items))
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        value = cast("list[Any]", value)[0]
    try:
        return _simple(value, hint)
    except (TypeError, ValueError, KeyError, WorkbenchError) as error:
        raise Error(f"{where}: cannot make {_name(hint)} of {value!r}: {error}") from None


def _name(hint: Any) -> str:
    return f"{'an' if hint is int else 'a'} {getattr(hint, '__name__', hint)}"


def _simple(value: Any, hint: Any) -> Any:
    if not isinstance(hint, type) or isinstance(value, list):
        raise TypeError(f"expected {_name(hint)}, found {type(cast('object', value)).__name__}")
    if issubclass(hint, Shape):
        return value.core if isinstance(value, shape) else shape_of(_written(value))
    if issubclass(hint, Dim):
        return _dim(value)
    if issubclass(hint, DType):
        return DType.of(value)
    if issubclass(hint, Enum):
        return _member(hint, value)
    if issubclass(hint, Operation):
        return _operation(value)
    if hint is str:
        return _expect(value, str)
    if isinstance(value, str):
        return hint(float(value)) if hint is not bool else bool(int(value))
    return hint(value)


def _written(value: Any) -> Any:
    """A value in which shapes and dimensions are what a file has in their place."""
    match value:
        case dict():
            return {k: _written(v) for k, v in cast("dict[str, Any]", value).items()}
        case list():
            return [_written(v) for v in cast("list[Any]", value)]
        case shape():
            return shape_value(value.core)
        case dynamic_dimension():
            return dim_value(value.core)
        case _:
            return value


def _dim(value: Any) -> Dim:
    if isinstance(value, dynamic_dimension):
        return value.core
    return Dim(value, value) if isinstance(value, int) else dim_of(value, "dimension")


def _expect(value: Any, cls: type) -> Any:
    if not isinstance(value, cls):
        raise TypeError(f"expected {cls.__name__}, found {type(value).__name__}")
    return value


def _member(hint: type[Enum], value: Any) -> Enum:
    if isinstance(value, str):
        found = [m for m in hint if value in (m.value, m.name.lower())]
        if found:
            return found[0]
        raise ValueError(f"expected one of {', '.join(m.name.lower() for m in hint)}")
    members = list(hint)
    if not isinstance(value, int) or not 0 <= value < len(members):
        raise ValueError(f"expected 0 to {len(members) - 1}")
    return members[value]


def _operation(value: Any) -> Operation:
    if isinstance(value, str):
        return make(value)
    fields: dict[str, Any] = dict(_expect(value, dict))
    name = fields.pop("name", None)
    inner = fields.pop("operator", fields)
    if not isinstance(name, str):
        raise TypeError("expected an operation's name, or a dict with its 'name'")
    return make(name, **read_attributes(find(name), inner))


def _rounded(value: Any) -> Any:
    """A value with its floats rounded to 32 bits, as MIGraphX keeps them."""
    match value:
        case dict():
            return {k: _rounded(v) for k, v in cast("dict[str, Any]", value).items()}
        case list():
            return [_rounded(v) for v in cast("list[Any]", value)]
        case float():
            return float(np.float32(value))
        case _:
            return value


def read(value: Any) -> Any:
    """A Python value converted by MIGraphX's rules.

    Raises:
        Error: Its type is not supported, or an integer exceeds 32 bits.
    """
    match value:
        case dict():
            return {str(k): read(v) for k, v in cast("dict[Any, Any]", value).items()}
        case list():
            return [read(v) for v in cast("list[Any]", value)]
        case bool() | str() | dynamic_dimension() | shape():
            return value
        case _ if hasattr(value, "__index__"):
            return _integer(value)
        case float():
            with np.errstate(over="ignore"):
                return float(np.float32(value))
        case _:
            raise Error(
                f"unsupported data type {type(value).__name__} of {value!r}{_instead(value)}"
            )


def _instead(value: Any) -> str:
    """A suggestion to replace a value that cannot be an attribute."""
    if isinstance(value, expr):
        return f"; make a dimension of it: shape.dynamic_dimension({value})"
    if isinstance(value, type | np.dtype):
        return "; give the name of a type, such as 'float'"
    return "; give a list" if hasattr(value, "__len__") else ""


def _integer(value: Any) -> int:
    hint = "; give a list" if hasattr(value, "tolist") and getattr(value, "ndim", 0) else ""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"unable to cast {type(value).__name__} {value!r} to an int{hint}") from None
    if not -(1 << 31) <= number < 1 << 31:
        raise Error(f"unable to cast {number} to an int: integers of attributes have 32 bits")
    return number
