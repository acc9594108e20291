"""Shapes, symbolic lengths, literals and operations as values in MIGraphX's files, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.lib.stride_tricks import as_strided

from workbench.compiler.errors import ModelError, OperationError, ShapeError
from workbench.compiler.files.mxr.json_form import float_of
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Param, Unknown
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Operation, attribute_names, find, make
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym import Expr
from workbench.compiler.ir.sym.values import from_value, to_value

MAX_INTEGER = 1 << 63
MAX_REPEATED_BYTES = 1 << 34
"""The size limit of literals with repeated elements; other literals are limited by their data."""

Value = Any


def expect(value: Value, kind: type | tuple[type, ...], what: str) -> Any:
    """The value, if it has one of these types.

    Raises:
        ModelError: It has another type.
    """
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        shown = repr(value)
        names = kind.__name__ if isinstance(kind, type) else "number"
        raise ModelError(f"{what}: expected {_KINDS.get(names, names)}, found {shown[:60]}")
    return value


_KINDS = {"dict": "an object", "list": "a list", "str": "a text", "int": "an integer"}


def field(value: Value, key: str, kind: type, what: str) -> Any:
    """An entry of an object.

    Raises:
        ModelError: The entry is missing or has another type.
    """
    if kind is list and isinstance(value, Mapping) and not value.get(key, 0):
        return []  # an empty list may be written as null, or as an object
    if key not in expect(value, dict, what):
        raise ModelError(f"{what}: {key!r} is missing")
    found = cast("dict[str, Any]", value)[key]
    if kind is dict and not found and found != 0:
        return {}  # msgpack omits empty maps
    return expect(found, kind, f"{what}: {key}")


def integer(value: Value, what: str) -> int:
    """An integer, such as a length or an index."""
    found = expect(value, int, what)
    if not -MAX_INTEGER <= found < 2 * MAX_INTEGER:
        raise ModelError(f"{what}: {found} needs more than 64 bits")
    return int(found)


# Shapes

_TYPES = {t.type_name: t for t in DType}


def shape_value(shape: Shape) -> Value:
    """The file form of a shape."""
    dims = shape.dims or ()
    value = {
        "type": shape.type.type_name,
        "sub_shapes": [shape_value(s) for s in shape.subs or ()],
        "lens": list(shape.lens),
        "strides": list(shape.strides),
        "dynamic_dimensions": [dim_value(d) for d in dims],
        "dyn_strides": [to_value(s) for s in shape.dyn_strides],
    }
    return value | {"kind": shape.kind} if shape.kind else value


def shape_of(value: Value, what: str = "shape") -> Shape:
    """The shape for a value from a file.

    Raises:
        ModelError: The value is not a shape.
    """
    named = field(value, "type", str, what)
    if (type := _TYPES.get(named)) is None:
        raise ModelError(
            f"{what}: unknown element type {named[:40]!r}; expected one of {', '.join(_TYPES)}"
        )
    subs = [shape_of(s, f"{what}: sub_shapes") for s in field(value, "sub_shapes", list, what)]
    if kind := expect(value.get("kind", ""), str, f"{what}: kind"):
        if kind not in ("sequence", "optional") or len(subs) > 1:
            raise ModelError(f"{what}: kind {kind!r}; expected sequence or optional of one shape")
        return Shape.sequence_of(*subs, kind=kind)
    if type is DType.TUPLE:
        return Shape.tuple_of(subs)
    dims = field(value, "dynamic_dimensions", list, what)
    if dims:
        strides = field(value, "dyn_strides", list, what)
        made = [_expression(s, f"{what}: dyn_strides") for s in strides]
        return Shape.dynamic(type, [dim_of(d, what) for d in dims], made or None)
    lens = [integer(n, f"{what}: lens") for n in field(value, "lens", list, what)]
    return Shape(type, lens, [integer(n, what) for n in field(value, "strides", list, what)])


def dim_value(dim: Dim) -> Value:
    """The file form of a dimension."""
    if dim.sym is not None:
        return {"range": None, "optimals": None, "sym": to_value(dim.sym)}
    bounds = {"min": dim.min, "max": dim.max}
    value = {"range": bounds, "optimals": list(dim.optimals), "sym": None}
    return value | {"name": dim.name} if dim.name else value


def dim_of(value: Value, what: str) -> Dim:
    """The dimension for a value from a file; files before version 8 have no ``range`` around its bounds."""
    what = f"{what}: dynamic_dimensions"
    expect(value, dict, what)
    if value.get("sym") is not None:
        return Dim.of(_expression(value["sym"], what))
    bounds = field(value, "range", dict, what) if "range" in value else value
    low, high = (integer(field(bounds, k, int, what), what) for k in ("min", "max"))
    best = tuple(integer(n, what) for n in field(value, "optimals", list, what))
    return Dim(low, high, best, expect(value.get("name", ""), str, what))


def _expression(value: Value, what: str) -> Expr:
    try:
        return from_value(value)
    except ShapeError as error:
        raise ModelError(f"{what}: {error}") from error


# Literals


def literal_value(argument: Argument) -> Value:
    """The file form of an argument: the shape, and the bytes that it spans in memory."""
    return {"shape": shape_value(argument.shape), "data": memory_of(argument)}


def memory_of(argument: Argument) -> memoryview:
    """The bytes of an argument as laid out in memory by the strides of its shape."""
    shape, array = argument.shape, argument.numpy()
    if not shape.standard:
        whole: Array = np.zeros(shape.element_space, shape.type.numpy)
        _strided(whole, shape)[...] = array
        array = whole
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def literal_of(value: Value, what: str) -> Argument:
    """The argument for a value from a file; its data is shared if its alignment allows.

    Raises:
        ModelError: The size of the data does not fit the shape.
    """
    shape = shape_of(field(value, "shape", dict, what), f"{what}: shape")
    if not shape.is_tensor or shape.is_dynamic:
        raise ModelError(f"{what}: shape {shape}; expected a static tensor")
    found = value.get("data")
    if found and not isinstance(found, bytes | bytearray | memoryview):
        raise ModelError(f"{what}: data: expected bytes, found {type(found).__name__}")
    data = memoryview(cast("bytes", found or b"")).cast("B")
    if not len(data) and shape.has_rank_0:
        shape = Shape.absent(shape.type)
    size = shape.type.size
    if len(data) != shape.element_space * size:
        raise ModelError(
            f"{what}: {len(data):,} bytes of data; expected {shape.element_space * size:,} for {shape}"
        )
    if shape.broadcasted and shape.elements * size > MAX_REPEATED_BYTES:
        raise ModelError(f"{what}: {shape} repeats its data to over {MAX_REPEATED_BYTES:,} bytes")
    array: Array = np.frombuffer(data, shape.type.numpy)
    array = array if array.flags.aligned else array.copy()
    return Argument(shape, _strided(array, shape, writeable=False))


def _strided(array: Array, shape: Shape, *, writeable: bool = True) -> Array:
    if shape.standard or not shape.elements:
        return array.reshape(shape.array_lens)
    strides = [s * shape.type.size for s in shape.strides]
    bits = array.view(f"u{array.itemsize}")  # NumPy cannot restride the small floats
    return as_strided(bits, shape.lens, strides, writeable=writeable).view(array.dtype)


# Operations


def operation_name(op: Operation) -> str:
    """The name of an operation in a file."""
    return f"unknown:{op.op}" if isinstance(op, Unknown) else op.name


def operation_value(op: Operation) -> Value:
    """The file form of an operation's attributes."""
    if isinstance(op, Param):
        return {"parameter": op.parameter}
    if isinstance(op, Unknown):
        return {"op": op.op}
    hints = _hints(type(op))
    return {k: attribute_value(_coded(v, hints.get(k))) for k, v in op.attributes().items()}


def _coded(value: object, hint: object) -> object:
    """The enum member for its name; other values unchanged."""
    coded = isinstance(hint, type) and issubclass(hint, Enum) and not isinstance(value, Enum)
    return cast("Callable[[object], object]", hint)(value) if coded else value


def attribute_value(value: object) -> Value:
    """The file form of an attribute: an enum is its number, an operation its name and attributes."""
    match value:
        case tuple() | list():
            return [attribute_value(v) for v in cast("Sequence[object]", value)]
        case dict():
            items = cast("Mapping[str, object]", value).items()
            return {k: attribute_value(v) for k, v in items}
        case IntEnum():
            return int(value)
        case Enum():
            return list(type(value)).index(value)
        case Shape():
            return shape_value(value)
        case Dim():
            return dim_value(value)
        case Expr():
            return to_value(value)
        case Operation():
            return {"name": operation_name(value), "operator": operation_value(value)}
        case _:
            return value


def operation_of(name: str, attributes: Value) -> Operation:
    """The operation for a name and attributes from a file; missing attributes get their defaults.

    Raises:
        ModelError: An attribute is unknown, or its value has another type.
        OperationError: There is no operation with this name.
    """
    if name.startswith("unknown:"):
        return Unknown(op=name.removeprefix("unknown:"))
    try:
        cls = find(name)
    except OperationError as error:
        if "::" not in name:
            raise
        raise ModelError(
            f"{error}; it is a kernel of one device, which cannot run elsewhere (save such a program before "
            "it is compiled), or an operation that a user has to register first"
        ) from error
    given = expect(attributes or {}, dict, "operator")
    hints, known = _hints(cls), attribute_names(cls)
    for key in given:
        if key not in known:
            raise ModelError(f"no attribute {key!r}; it has {', '.join(known) or 'none'}")
    return make(name, **{k: attribute_of(v, hints.get(k, Any), k) for k, v in given.items()})


@cache
def _hints(cls: type[Operation]) -> dict[str, Any]:
    return get_type_hints(cls)


def attribute_of(value: Value, hint: Any, what: str) -> Any:
    """The attribute of type ``hint`` for a value from a file.

    Raises:
        ModelError: The value does not have that type.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else attribute_of(value, _one(args), what)
    if origin is tuple:
        listed: list[Any] = [] if value is None or value == {} else expect(value, list, what)
        return tuple(attribute_of(v, args[0], what) for v in listed)
    if hint is Shape:
        return shape_of(value, what)
    if hint is Dim:
        return dim_of(value, what)
    if hint is Expr:
        return _expression(value, what)
    if isinstance(hint, type):
        return _simple(value, hint, what)
    return _frozen(value)


def _one(args: Sequence[Any]) -> Any:
    return next(a for a in args if a is not NoneType)


def _frozen(value: Value) -> Any:
    return tuple(map(_frozen, cast("list[Any]", value))) if isinstance(value, list) else value


def _simple(value: Value, hint: type, what: str) -> Any:
    if issubclass(hint, Operation):
        name = field(value, "name", str, what)
        return operation_of(name, value.get("operator"))
    if issubclass(hint, Enum):
        number = integer(value, what)
        members = {int(m) if isinstance(m, IntEnum) else i: m for i, m in enumerate(hint)}
        if number not in members:
            raise ModelError(f"{what}: {number}; expected one of {sorted(members)}")
        return members[number]
    if hint is bool:
        return bool(expect(value, (bool, int), what))
    if hint is float:
        if (found := float_of(value)) is None:
            raise ModelError(f"{what}: expected a number, found {value!r}")
        return found
    return integer(value, what) if hint is int else expect(value, cast("Any", hint), what)
