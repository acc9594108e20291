"""Types of values in onnxruntime's words: ``tensor(float)``, ``seq(tensor(int64))``; arguments of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

T = onnx.TensorProto
_WORDS: dict[Any, str] = {
    T.FLOAT: "float", T.FLOAT16: "float16", T.BFLOAT16: "bfloat16", T.DOUBLE: "double",
    T.FLOAT8E4M3FN: "float8e4m3fn", T.FLOAT8E4M3FNUZ: "float8e4m3fnuz", T.FLOAT8E5M2: "float8e5m2",
    T.FLOAT8E5M2FNUZ: "float8e5m2fnuz",
}  # fmt: skip
"""The words of types that are not the lower case of ONNX's names."""


def element_word(code: int) -> str:
    """The word of an element type by ONNX's code: 1 is ``float``."""
    return _WORDS.get(code) or T.DataType.Name(code).lower()


def code_of(dtype: Any) -> int:
    """ONNX's code of NumPy's type.

    Raises:
        RuntimeError: ONNX has no such type.
    """
    found = np.dtype(dtype)
    if found.kind in "OUSV" and found.names is None and not found.subdtype:
        return (
            T.STRING
            if not _is_extended(found)
            else int(onnx.helper.np_dtype_to_tensor_dtype(found))
        )
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(found))
    except (KeyError, ValueError) as error:
        raise RuntimeError(f"{found}: ONNX has no tensors of this type") from error


def _is_extended(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of ml_dtypes, which NumPy calls void."""
    return dtype.type.__module__.startswith("ml_dtypes")


def numpy_of(code: int) -> np.dtype[Any]:
    """NumPy's type for ONNX's code.

    Raises:
        RuntimeError: There is no such code.
    """
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError) as error:
        raise RuntimeError(f"{code}: ONNX has no element type of this number") from error


def type_word(type: onnx.TypeProto) -> str:
    """The words of a type."""
    kind = type.WhichOneof("value")
    if kind == "tensor_type":
        return f"tensor({element_word(type.tensor_type.elem_type)})"
    if kind == "sparse_tensor_type":
        return f"sparse_tensor({element_word(type.sparse_tensor_type.elem_type)})"
    if kind == "sequence_type":
        return f"seq({type_word(type.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({type_word(type.optional_type.elem_type)})"
    if kind == "map_type":
        return f"map({element_word(type.map_type.key_type)},{type_word(type.map_type.value_type)})"
    return ""


def shape_of(type: onnx.TypeProto) -> list[int | str | None]:
    """The lengths of a tensor: numbers, names of open ones, or None."""
    if type.WhichOneof("value") != "tensor_type" or not type.tensor_type.HasField("shape"):
        return []
    return [_length(d) for d in type.tensor_type.shape.dim]


def _length(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


@dataclass(frozen=True)
class NodeArg:
    """An input, output or initializer of a model: name, lengths, type."""

    name: str
    type: str
    shape: list[int | str | None]

    def __str__(self) -> str:
        """onnxruntime's text."""
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"

    @classmethod
    def of(cls, value: onnx.ValueInfoProto) -> NodeArg:
        """That of a declared value."""
        return cls(value.name, type_word(value.type), shape_of(value.type))


@dataclass(frozen=True)
class ModelMetadata:
    """The facts that a model states about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    @classmethod
    def of(cls, model: onnx.ModelProto) -> ModelMetadata:
        """That of a model."""
        return cls(
            model.producer_name, model.graph.name, model.domain, model.doc_string, model.graph.doc_string,
            model.model_version, {p.key: p.value for p in model.metadata_props},
        )  # fmt: skip
