"""Tensors of a model as literals of a module."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.tensors import element_type, stored, to_array

_PAIRED: dict[int, tuple[str, DType]] = {
    onnx.TensorProto.INT4: ("unpack_int4", DType.INT8),
    onnx.TensorProto.UINT4: ("unpack_int4", DType.UINT8),
    onnx.TensorProto.FLOAT4E2M1: ("unpack_fp4", DType.FP4X2),
}
"""The operation that unpacks elements stored in pairs, and the type of a pair."""


def literal(
    module: Module,
    tensor: onnx.TensorProto,
    where: str,
    folder: Path | None = None,
    payload: Array | None = None,
) -> Instruction:
    """Add a tensor to a module; 4-bit elements stay packed, followed by the operation that unpacks them."""
    in_pairs = bool(tensor.dims) and prod(tensor.dims) > 0 and tensor.dims[-1] % 2 == 0
    if in_pairs and tensor.data_type in _PAIRED:
        data = stored(tensor, where, folder, payload)
        op, type = _PAIRED[tensor.data_type]
        shape = Shape(type, (*tensor.dims[:-1], tensor.dims[-1] // 2))
        return module.add(op, module.add_literal(Argument(shape, data.view(type.numpy))))
    made = argument(tensor, where, folder, payload)
    return module.add_literal(bare(made) if module.program.strict else made)


def bare(value: Argument) -> Argument:
    """The argument, without dimensions if it has no elements, as in MIGraphX's models."""
    empty = 0 in value.shape.lens
    return Argument(Shape.absent(value.shape.type), value.numpy().reshape(0)) if empty else value


def argument(
    tensor: onnx.TensorProto, where: str, folder: Path | None, payload: Array | None
) -> Argument:
    """A tensor as an argument; the data is shared where possible."""
    return Argument.of(to_array(tensor, where, folder, payload))


def sparse(tensor: onnx.SparseTensorProto, where: str, folder: Path | None) -> Array:
    """A sparse tensor with all of its elements.

    Raises:
        ModelError: An index is out of range, or the tensor is too large.
    """
    values = to_array(tensor.values, where, folder).reshape(-1)
    indices = to_array(tensor.indices, where, folder)
    lens = tuple(tensor.dims)
    if any(n < 0 for n in lens):
        raise ModelError(f"{where}: dimensions {list(lens)}; expected no negative one")
    check_size(Shape(element_type(tensor.values.data_type, where), lens), where)
    dense = np.zeros(prod(lens), values.dtype)
    flat = indices if indices.ndim == 1 else indices @ np.array(Shape(lens=lens).strides)
    if flat.size != values.size or (flat.size and not 0 <= flat.min() <= flat.max() < dense.size):
        raise ModelError(
            f"{where}: the indices do not fit {values.size} values in {list(lens)}; expected one "
            "for each value, in range"
        )
    dense[flat] = values
    return dense.reshape(lens)
