"""Arrays, shapes and attributes as ONNX's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.tensors import CODES

OPSET = 21
"""The operator set that is written; operators that are younger raise it."""

_NEWEST = onnx.defs.onnx_opset_version()


def tensor(name: str, array: Array) -> onnx.TensorProto:
    """A tensor with the elements of an array."""
    made = onnx.TensorProto(name=name, data_type=CODES[DType.of(array.dtype)], dims=array.shape)
    plain = np.ascontiguousarray(array)
    made.raw_data = plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes()
    return made


def value_info(name: str, shape: Shape) -> onnx.ValueInfoProto:
    """The declaration of an input or an output."""
    return helper.make_value_info(name, type_of(shape))


def type_of(shape: Shape) -> onnx.TypeProto:
    """The type of a value: a tensor, a sequence or an optional."""
    if shape.kind:
        wrap = {"sequence": helper.make_sequence_type_proto}
        inner = type_of(shape.subs[0]) if shape.subs else onnx.TypeProto()
        return wrap.get(shape.kind, helper.make_optional_type_proto)(inner)
    if shape.type not in CODES:
        raise ModelError(f"{shape.type.type_name}: ONNX has no such element type")
    dims = shape.array_lens if shape.dims is None else [_length(d) for d in shape.dims]
    return helper.make_tensor_type_proto(CODES[shape.type], list(dims))


def _length(dim: Dim) -> int | str | None:
    """A length, the name of one, or nothing."""
    if dim.is_fixed:
        return dim.min
    return dim.name or (None if dim.sym is None else str(dim.sym))


def attribute(name: str, value: Any) -> onnx.AttributeProto:
    """An attribute; an empty list counts as a list of integers."""
    kind = onnx.AttributeProto.INTS if isinstance(value, list | tuple) and not value else None
    return helper.make_attribute(name, value, attr_type=kind)


@cache
def schema(op_type: str, domain: str = "") -> Any:
    """The schema of an operator in the operator set that is written, or in the first that has it."""
    try:
        return onnx.defs.get_schema(op_type, OPSET, domain)
    except onnx.defs.SchemaError:
        return onnx.defs.get_schema(op_type, _NEWEST, domain)


@cache
def takes(op_type: str, index: int, type: DType) -> bool:
    """Whether an operator takes elements of this type as its input of this index."""
    if type not in CODES:
        return False
    inputs = schema(op_type).inputs
    name = onnx.TensorProto.DataType.Name(CODES[type]).lower()
    return f"tensor({name})" in inputs[min(index, len(inputs) - 1)].types


@cache
def first_version(op_type: str, code: int) -> int:
    """The operator set in which an operator first gives elements of the type of this code."""
    name = f"tensor({onnx.TensorProto.DataType.Name(code).lower()})"
    versions = range(OPSET, _NEWEST)
    fits = (v for v in versions if name in onnx.defs.get_schema(op_type, v).outputs[0].types)
    return next(fits, _NEWEST)


def inner_graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    return (a.g for a in node.attribute if a.HasField("g"))


def reads(nodes: Iterable[onnx.NodeProto]) -> Iterable[str]:
    """The names that nodes and the graphs inside them read."""
    for node in nodes:
        yield from node.input
        for graph in inner_graphs(node):
            yield from reads(graph.node)
            yield from (o.name for o in graph.output)


def needed(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that outputs depend on, in order."""
    used, kept = set(outputs), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if not used.isdisjoint(node.output):
            used.update(reads([node]))
            kept.append(node)
    return kept[::-1]
