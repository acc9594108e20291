"""Inputs of a run, checked against the program's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array, held
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape


def by_name(inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The inputs as a dict of its own.

    Raises:
        InputError: They are not a mapping by name.
    """
    if inputs is not None and not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"inputs: expected arrays by name, such as {{'x': array}}; found {type(inputs).__name__}"
        )
    return dict(inputs or {})


def check_inputs(program: Program, inputs: Mapping[str, Any]) -> dict[str, Value]:
    """The inputs as arrays (sequences as tuples of arrays), checked against the program's parameters.

    Raises:
        InputError: A parameter has no input, an input no parameter, or a type or lens differs.
    """
    wanted = program.parameters
    if unknown := [name for name in inputs if name not in wanted]:
        raise InputError(f"no parameter is called {unknown[0]!r}; parameters are {_listed(wanted)}")
    if missing := [name for name in wanted if name not in inputs]:
        raise InputError(f"no input for parameter {missing[0]!r} of shape {wanted[missing[0]]}")
    found = {name: _checked(name, inputs[name], shape) for name, shape in wanted.items()}
    _check_names(wanted, found)
    return found


def _check_names(wanted: Mapping[str, Shape], found: Mapping[str, Value]) -> None:
    """Raise an InputError if lengths differ that the program declares equal by name."""
    seen: dict[str, tuple[str, int]] = {}
    for name, shape in wanted.items():
        value = found[name]
        if shape.dims is None or isinstance(value, tuple):
            continue
        for axis, (dim, length) in enumerate(zip(shape.dims, value.shape, strict=True)):
            first, known = seen.setdefault(dim.name, (name, length)) if dim.name else (name, length)
            if known != length:
                raise InputError(
                    f"input {name!r}: axis {axis} has length {length}; expected {known}, the length "
                    f"that {dim.name!r} has in input {first!r}"
                )


def _checked(name: str, value: Any, shape: Shape) -> Value:
    if shape.is_tuple:
        return _checked_tuple(name, value, shape.subs or ())
    if not shape.kind:
        return _checked_array(name, value, shape)
    if shape.kind == "optional":
        value = [] if value is None else [value]
    elif not isinstance(value, list | tuple):
        raise InputError(f"input {name!r}: expected a list of arrays, found {type(value).__name__}")
    if value and not shape.subs:
        raise InputError(
            f"input {name!r}: expected an empty list, as nothing is known of its elements; to pass "
            f"some, import the model with map_input_dims={{{name!r}: lens}}"
        )
    parts = enumerate(cast("Sequence[Any]", value))
    element = shape.subs[0] if shape.subs else Shape()
    return tuple(_checked(f"{name}[{i}]", one, element) for i, one in parts)


def _checked_tuple(name: str, value: Any, shapes: Sequence[Shape]) -> Value:
    parts = cast("Sequence[Any] | None", value if isinstance(value, list | tuple) else None)
    if parts is None or len(parts) != len(shapes):
        found = type(cast("object", value)).__name__ if parts is None else str(len(parts))
        raise InputError(f"input {name!r}: expected a tuple of {len(shapes)} values, found {found}")
    pairs = zip(parts, shapes, strict=True)
    return tuple(_checked(f"{name}[{i}]", one, shape) for i, (one, shape) in enumerate(pairs))


def _checked_array(name: str, value: Any, shape: Shape) -> Array:
    kind = type(cast("object", value)).__name__
    try:
        if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value.detach() if hasattr(value, "detach") else value)
        array: Array = held(np.asarray(cast("Any", value)))
    except Exception as error:  # a foreign tensor or a ragged list may raise anything
        raise InputError(
            f"input {name!r}: expected an array of {shape.type.numpy}, found {kind}, "
            f"which NumPy cannot read: {error}"
        ) from error
    if array.dtype != shape.type.numpy:
        raise InputError(
            f"input {name!r}: expected {shape.type.numpy}, found {array.dtype}; "
            f"convert it with array.astype({str(shape.type.numpy)!r})"
        )
    if shape.dims is not None:
        fits = array.ndim == len(shape.dims) and all(
            d.min <= n <= d.max for d, n in zip(shape.dims, array.shape, strict=True)
        )
    else:
        fits = array.shape == shape.lens or (array.ndim == 0 and shape.elements == 1)
    if not fits:
        raise InputError(f"input {name!r}: expected shape {shape}, found {list(array.shape)}")
    if shape.dims is not None:
        return array
    array = array.reshape(shape.lens)
    _expect_repeated(name, array, shape)
    return array


def _expect_repeated(name: str, array: Array, shape: Shape) -> None:
    """Refuse elements that differ along an axis of stride 0: in memory, they are one."""
    if shape.broadcasted and array.size:
        for axis, (length, stride) in enumerate(zip(shape.lens, shape.strides, strict=True)):
            if stride or length == 1 or not array.strides[axis]:
                continue
            bits = array.view(f"u{array.itemsize}")  # NaN is the same as itself
            if bool((bits != bits.take([0], axis)).any()):
                raise InputError(
                    f"input {name!r}: its elements differ along axis {axis}, which has stride 0 in "
                    f"{shape}: there, one element stands for all; give equal ones, such as "
                    f"np.broadcast_to(part, {list(shape.lens)}), or give the parameter another stride"
                )


def repeated(array: Array, shape: Shape) -> Array:
    """An array with the first element along each axis of stride 0 in place of all others."""
    if shape.dims is not None or not shape.broadcasted:
        return array
    ends = [None if stride else 1 for stride in shape.strides]
    return np.broadcast_to(array[tuple(slice(end) for end in ends)], shape.lens)


def _listed(wanted: Mapping[str, Shape]) -> str:
    return "; ".join(f"{name!r} ({shape})" for name, shape in wanted.items()) or "none"
