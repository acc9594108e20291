"""The shapes of a model's inputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.onnx.options import ParseOptions
from workbench.compiler.onnx.tensors import checked_lens, element_type
from workbench.compiler.shape import Dim, Shape


def input_shape(value: onnx.ValueInfoProto, options: ParseOptions, *, is_main: bool) -> Shape:
    """The shape of a graph's input, its open dimensions filled in from the options.

    Raises:
        ModelError: It is no tensor, or its element type or dimensions are not possible.
    """
    where = f"input {value.name!r}"
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        found = "no type" if kind is None else kind.removesuffix("_type")
        raise ModelError(f"{where}: {found}; expected a tensor")
    tensor = value.type.tensor_type
    type = element_type(tensor.elem_type, where)
    dims = _given(value.name, options) if is_main else None
    if dims is None:
        dims = [_dim(d, options, where) for d in tensor.shape.dim]
    checked_lens([d if isinstance(d, int) else d.max for d in dims], type.size, where)
    if any(isinstance(d, Dim) and not d.is_fixed for d in dims):
        return Shape.dynamic(type, dims)
    lens = [d if isinstance(d, int) else d.max for d in dims]
    return Shape(type, lens) if lens else Shape.scalar(type)


def _given(name: str, options: ParseOptions) -> Sequence[Dim | int] | None:
    if name in options.map_input_dims:
        return list(options.map_input_dims[name])
    if name in options.map_dyn_input_dims:
        return list(options.map_dyn_input_dims[name])
    return None


def _dim(dim: onnx.TensorShapeProto.Dimension, options: ParseOptions, where: str) -> Dim:
    if dim.dim_param in options.dim_params:
        given = options.dim_params[dim.dim_param]
        return given if isinstance(given, Dim) else Dim(given, given)
    if dim.dim_value < -1:
        raise ModelError(f"{where}: a dimension of {dim.dim_value}; expected no negative length")
    if dim.dim_value > 0 or (dim.HasField("dim_value") and dim.dim_value == 0 and not options.fills):
        return Dim(dim.dim_value, dim.dim_value)
    return options.default_dim
