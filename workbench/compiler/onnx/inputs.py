"""The shapes of a model's inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import onnx

from workbench.compiler.errors import ModelError, RuntimeValueError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.options import OPEN, ParseOptions
from workbench.compiler.onnx.tensors import checked_lens, element_type


def input_shape(value: onnx.ValueInfoProto, options: ParseOptions, *, is_main: bool) -> Shape:
    """The shape of a graph's input, its open dimensions filled in from the options.

    Raises:
        ModelError: The input is of an unsupported kind, or its element type or dimensions are invalid.
    """
    given = _given(value.name, options) if is_main else None
    return _shape(value.type, given, options, f"input {value.name!r}")


def input_value(value: onnx.ValueInfoProto, options: ParseOptions) -> Argument:
    """The value that a caller gave for an input.

    Raises:
        ModelError: The value is not an array, or not of the declared element type and lens.
    """
    where = f"constant_inputs: {value.name!r}"
    try:
        found = Argument.of(options.constant_inputs[value.name])
    except (TypeError, ValueError) as error:
        raise ModelError(f"{where}: {error}") from error
    tensor = value.type.tensor_type
    type, dims = element_type(tensor.elem_type, where), tensor.shape.dim
    lens = found.shape.lens
    known = not tensor.HasField("shape") or (
        len(lens) == len(dims)
        and all(d.dim_value in {n, 0} for d, n in zip(dims, lens, strict=True))
    )
    if found.shape.type is not type or not known:
        wanted = ", ".join(d.dim_param or str(d.dim_value) for d in dims)
        raise ModelError(f"{where}: found {found.shape}; expected {type.type_name} of [{wanted}]")
    return found


def expect_inputs(graph: onnx.GraphProto, options: ParseOptions) -> None:
    """Refuse options for inputs that a model does not have.

    Raises:
        ModelError: There is such an option.
    """
    names = {value.name for value in graph.input}
    for option in ("map_input_dims", "map_dyn_input_dims", "constant_inputs"):
        for name in getattr(options, option):
            if name not in names:
                listed = ", ".join(map(repr, sorted(names))) or "none"
                raise ModelError(f"{option}: no input {name!r}; inputs are {listed}")


def _shape(
    kind: onnx.TypeProto, given: Sequence[Dim | int] | None, options: ParseOptions, where: str
) -> Shape:
    match kind.WhichOneof("value"):
        case "tensor_type":
            return _tensor(kind.tensor_type, given, options, where)
        case "sequence_type":
            element = _element(kind.sequence_type.elem_type, given, options, where)
            return Shape.sequence_of(element)
        case "optional_type":
            element = _element(kind.optional_type.elem_type, given, options, where)
            return Shape.sequence_of(element, "optional")
        case other:
            found = "no type" if other is None else other.removesuffix("_type")
            raise ModelError(
                f"{where}: {found}; expected a tensor, a sequence or an optional value"
            )


def _element(
    kind: onnx.TypeProto, given: Sequence[Dim | int] | None, options: ParseOptions, where: str
) -> Shape | None:
    """The shape of the elements of a sequence or optional, if the model or the caller gives it.

    Exporters declare elements without dimensions if these are unknown.
    """
    is_tensor = kind.WhichOneof("value") == "tensor_type"
    if is_tensor and given is None and not kind.tensor_type.shape.dim:
        element_type(kind.tensor_type.elem_type, where)
        return None
    return _shape(kind, given, options, where)


def _tensor(
    tensor: onnx.TypeProto.Tensor,
    given: Sequence[Dim | int] | None,
    options: ParseOptions,
    where: str,
) -> Shape:
    type = element_type(tensor.elem_type, where)
    dims = given
    if dims is None:
        dims = [_dim(d, options, where) for d in tensor.shape.dim]
    checked_lens([_expected(d) for d in dims], type.size, where)
    if any(isinstance(d, Dim) and not d.is_fixed for d in dims):
        return Shape.dynamic(type, dims)
    lens = [d if isinstance(d, int) else d.max for d in dims]
    return Shape(type, lens)


def _expected(dim: Dim | int) -> int:
    """The length by which a size is judged: that of an open dimension is not the caller's intent."""
    if isinstance(dim, int):
        return dim
    return dim.min if dim is OPEN else dim.max


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
    if dim.dim_value > 0 or (
        dim.HasField("dim_value") and dim.dim_value == 0 and not options.fills
    ):
        return Dim(dim.dim_value, dim.dim_value)
    return options.default_dim


_SHOWN = 6
"""The most open dimensions that an error names."""


def open_note(graph: onnx.GraphProto, options: ParseOptions, error: ModelError) -> str:
    """The end of an error about an unknown length: the model's open dimensions, and how to give them.

    Empty if none is open, or if the error does not concern the ranges of lengths.
    """
    is_range = re.search(r"\[\d+\.\.", str(error)) is not None
    if not is_range and not isinstance(error, RuntimeValueError):
        return ""
    found = list(_assumed(graph, options))
    if not found:
        return ""
    names = dict.fromkeys(name for name, _, _ in found if name)
    keywords = ["default_dim_value=1"]
    if names:
        keywords.insert(0, f"dim_params={dict.fromkeys(list(names)[:_SHOWN], 1)}")
    where = ", ".join(f"{n or 'a length'} (axis {a} of {i!r})" for n, i, a in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (
        f"; the model leaves open {where}{more}, taken as any length from {OPEN.min} to {OPEN.max}; "
        f"give the lengths of your inputs, for example by {' or '.join(keywords)}"
    )


def _assumed(graph: onnx.GraphProto, options: ParseOptions) -> Iterator[tuple[str, str, int]]:
    """The dimensions that neither the model nor the caller gives: name, input and axis."""
    known = {t.name for t in graph.initializer} | set(options.constant_inputs)
    for value in graph.input:
        if value.name in known or _given(value.name, options) is not None:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if _dim(dim, options, value.name) is OPEN:
                yield dim.dim_param, value.name, axis


def named(shape: Shape, value: onnx.ValueInfoProto, index: int, *, is_main: bool) -> Shape:
    """The shape with names for its dynamic lengths: the model's names, or generated ones.

    Lengths with the same name in the model (``batch``) are equal. Those of a subgraph's inputs may change
    from one iteration to the next, so they get generated names.
    """
    if shape.dims is None:
        return shape
    declared = [d.dim_param for d in value.type.tensor_type.shape.dim]
    dims: list[Dim] = []
    for axis, dim in enumerate(shape.dims):
        given = declared[axis] if len(declared) == len(shape.dims) else ""
        is_name = is_main and given.isidentifier() and given != "None"
        name = given if is_name else f"#{index}.{axis}"
        dims.append(replace(dim, name=name))
    return Shape.dynamic(shape.type, dims)
