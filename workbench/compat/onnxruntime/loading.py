"""Reading of a session's model, and the changes that its options ask for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import numpy_helper

from workbench.compat.onnxruntime.enums import ExecutionMode, GraphOptimizationLevel
from workbench.compat.onnxruntime.errors import (
    InvalidArgument,
    InvalidProtobuf,
    ModelLoadCanceled,
    NoSuchFile,
    fail,
)
from workbench.compat.onnxruntime.options import SessionOptions
from workbench.compat.onnxruntime.values import OrtValue
from workbench.knobs import knobs

T = onnx.TensorProto
MAX_BYTES = (1 << 31) - 1
"""The largest protobuf; a model's tensors may be in other files."""


def load(source: Any) -> tuple[onnx.ModelProto, Path | None]:
    """A model and the folder of its file, from a path or bytes; tensors in other files are not read yet.

    Args:
        source: A path, bytes, or a ModelProto.

    Raises:
        NoSuchFile: There is no such file.
        InvalidProtobuf: It is no protobuf of a model.
        InvalidArgument: It is empty.
        TypeError: It is neither a path nor bytes.
    """
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        return model, None
    if isinstance(source, bytes | bytearray | memoryview):
        return _parsed(
            bytes(cast("bytes", source)), "Failed to load model because protobuf parsing failed."
        ), None
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"Unable to load from type '{type(source)}'")
    path = Path(os.fspath(source))  # pyright: ignore[reportUnknownArgumentType]
    if not path.exists():
        fail(
            NoSuchFile,
            f"Load model from {path} failed:Load model {path} failed. File doesn't exist",
        )
    wrong = f"Load model from {path} failed:Protobuf parsing failed."
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        fail(InvalidProtobuf, wrong)
    return _parsed(path.read_bytes(), wrong), path.parent


def _parsed(data: bytes, wrong: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # protobuf's errors have no public class
        fail(InvalidProtobuf, wrong)
    if not model.HasField("graph"):
        fail(InvalidArgument, "No graph was found in the protobuf.")
    return model


def change(model: onnx.ModelProto, options: SessionOptions) -> None:
    """Fix lengths and replace initializers, as the options say.

    Raises:
        InvalidArgument: A given tensor does not have the type or the lengths of the initializer.
        ModelLoadCanceled: The options cancel loading.
    """
    if options.cancelled:
        fail(ModelLoadCanceled, "Loading was cancelled by set_load_cancellation_flag")
    _fix_lengths(model.graph, options)
    for tensor in model.graph.initializer:
        if tensor.name in options.initializers:
            _replace(tensor, options.initializers[tensor.name])
        elif tensor.data_location == T.EXTERNAL:
            _take_external(tensor, options)


def _fix_lengths(graph: onnx.GraphProto, options: SessionOptions) -> None:
    named = dict(options.dims)
    for dim in _dims(graph):
        if dim.denotation in options.denotations and not dim.HasField("dim_value"):
            length = options.denotations[dim.denotation]
            if dim.dim_param:
                named.setdefault(dim.dim_param, length)
            dim.dim_value = length
    for dim in _dims(graph):
        if dim.dim_param and dim.dim_param in named:
            dim.dim_value = named[dim.dim_param]


def _dims(graph: onnx.GraphProto) -> Iterator[Any]:
    for value in [*graph.input, *graph.output, *graph.value_info]:
        yield from value.type.tensor_type.shape.dim


def _replace(tensor: onnx.TensorProto, given: Any) -> None:
    array = OrtValue(given).numpy()
    made = numpy_helper.from_array(np.ascontiguousarray(array), tensor.name)
    if made.data_type != tensor.data_type or list(made.dims) != list(tensor.dims):
        found, wanted = (f"{T.DataType.Name(t.data_type)}{list(t.dims)}" for t in (made, tensor))
        fail(InvalidArgument, f"initializer {tensor.name!r}: expected {wanted}, found {found}")
    tensor.CopyFrom(made)


def _take_external(tensor: onnx.TensorProto, options: SessionOptions) -> None:
    """Read a tensor of another file from what the options give for it."""
    if tensor.name in options.external:
        _replace(tensor, options.external[tensor.name])
        return
    facts = {entry.key: entry.value for entry in tensor.external_data}
    data = options.files.get(facts.get("location", ""))
    if data is None:
        return
    try:
        start = int(facts.get("offset", 0))
        length = int(facts.get("length", len(data) - start))
    except ValueError:
        fail(InvalidArgument, f"initializer {tensor.name!r}: its place in the file is not a number")
    if not 0 <= start <= start + length <= len(data):
        fail(
            InvalidArgument,
            f"initializer {tensor.name!r}: {length} bytes from {start} of {len(data)}",
        )
    tensor.ClearField("external_data")
    tensor.data_location = T.DEFAULT
    tensor.raw_data = data[start : start + length]


def options_in(model: onnx.ModelProto) -> SessionOptions:
    """The options that a model brings (``ort_config`` in its metadata), if the environment asks for them.

    Raises:
        InvalidArgument: They are not JSON, or a value does not fit.
    """
    made = SessionOptions()
    text = {p.key: p.value for p in model.metadata_props}.get("ort_config")
    if knobs.ort_load_config_from_model != "1" or text is None:
        return made
    kinds = {"execution_mode": ExecutionMode, "graph_optimization_level": GraphOptimizationLevel}
    try:
        given = dict(json.loads(text)["session_options"])
        for name, value in given.items():
            is_flag = isinstance(getattr(made, name), bool)
            setattr(made, name, bool(value) if is_flag else kinds.get(name, int)(value))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        fail(
            InvalidArgument,
            f"the model's ort_config cannot be read: {type(error).__name__}: {error}",
        )
    return made
