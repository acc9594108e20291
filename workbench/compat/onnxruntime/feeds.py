"""Inputs of a run, checked in onnxruntime's words and made arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from workbench.compat.onnxruntime.dlpack import array_of
from workbench.compat.onnxruntime.errors import Fail, InvalidArgument, fail
from workbench.compat.onnxruntime.sparse import SparseTensor
from workbench.compat.onnxruntime.text_models import text_of
from workbench.compat.onnxruntime.types import NodeArg, code_of, element_word
from workbench.compat.onnxruntime.values import OrtValue
from workbench.compiler.ir.dtypes import Array
from workbench.gpu.run.device_array import DeviceArray


def checked(feed: Mapping[str, Any], known: Mapping[str, NodeArg]) -> dict[str, Any]:
    """The inputs as arrays, or lists of them.

    Args:
        feed: The values by name.
        known: The model's inputs and initializers that may be replaced.

    Raises:
        InvalidArgument: A name is unknown, or a type, rank or length does not fit.
        RuntimeError: A value is no tensor.
    """
    for name in feed:
        if name not in known:
            fail(InvalidArgument, f"Invalid input name: {name}")
    return {name: _value(value, known[name]) for name, value in feed.items()}


def _value(value: Any, wanted: NodeArg) -> Any:
    value = value.value if isinstance(value, OrtValue) else value
    if wanted.type.startswith("optional("):
        return None if value is None else _inside(value, wanted)
    if value is None:
        fail(Fail, f"Missing Input: {wanted.name}")
    return _inside(value, wanted)


def _inside(value: Any, wanted: NodeArg) -> Any:
    type = wanted.type.removeprefix("optional(")
    if type.startswith("seq("):
        if not isinstance(value, list | tuple):
            raise RuntimeError(f"Input must be a list of numpy arrays for input {wanted.name!r}.")
        return [_array(one, wanted.name, type) for one in cast("Sequence[Any]", value)]
    if isinstance(value, DeviceArray) or hasattr(value, "__cuda_array_interface__"):
        return value
    array = _array(value, wanted.name, type)
    if "(" not in type.removeprefix("tensor(").rstrip(")"):
        _expect_lengths(array, wanted)
    return array


def _array(value: Any, name: str, type: str) -> Array:
    wanted = type.rpartition("(")[2].rstrip(")")
    array = _read(value, name, wanted)
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    found = element_word(code_of(array.dtype))
    if found == wanted == "string":
        return text_of(array)
    if found != wanted:
        fail(InvalidArgument, "Unexpected input data type. Actual: "
             f"(tensor({found})) , expected: (tensor({wanted}))")  # fmt: skip
    return array


def _read(value: Any, name: str, wanted: str) -> Array:
    if isinstance(value, SparseTensor):
        return value.dense()
    if isinstance(value, list):
        return _from_list(cast("list[Any]", value), name, wanted)
    if isinstance(value, str | bytes):
        raise RuntimeError(
            f"Input must be a list of dictionaries or a single numpy array for input {name!r}."
        )
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        return array_of(value.detach() if hasattr(value, "detach") else value)
    if not hasattr(cast("object", value), "__array__"):
        raise RuntimeError(f"Unable to handle object of type {value.__class__}")
    return np.asarray(cast("Any", value))


def _from_list(value: list[Any], name: str, wanted: str) -> Array:
    kinds: dict[str, Any] = {"float": np.float32, "double": np.float64, "string": object}
    try:
        return np.array(value, dtype=kinds.get(wanted, wanted))
    except (ValueError, TypeError) as error:
        raise RuntimeError(
            f"Input {name!r}: the list is not a tensor of {wanted}: {error}"
        ) from error


def _expect_lengths(array: Array, wanted: NodeArg) -> None:
    lens = wanted.shape
    if not lens:
        return  # nothing declared, or a scalar, which runs check
    advice = "Please fix either the inputs/outputs or the model."
    if array.ndim != len(lens):
        fail(InvalidArgument, f"Invalid rank for input: {wanted.name} Got: {array.ndim} "
             f"Expected: {len(lens)} {advice}")  # fmt: skip
    pairs = enumerate(zip(array.shape, lens, strict=True))
    wrong = [
        f" index: {k} Got: {n} Expected: {m}\n"
        for k, (n, m) in pairs
        if isinstance(m, int) and n != m
    ]
    if wrong:
        fail(InvalidArgument, f"Got invalid dimensions for input: {wanted.name} for the following "
             f"indices\n{''.join(wrong)} {advice}")  # fmt: skip
