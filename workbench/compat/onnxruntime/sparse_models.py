"""Models with sparse inputs and outputs, which programs compute as dense ones."""

from __future__ import annotations

import numpy as np
import onnx

from workbench.compat.onnxruntime.devices import OrtDevice
from workbench.compat.onnxruntime.sparse import SparseTensor
from workbench.compiler.ir.dtypes import Array


def densify(model: onnx.ModelProto) -> frozenset[str]:
    """Make sparse values of a model dense, and products of sparse matrices plain ones.

    Args:
        model: The model; it is changed.

    Returns:
        The names of inputs and outputs that were sparse.
    """
    graph, found = model.graph, set[str]()
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.HasField("sparse_tensor_type"):
            given = onnx.TypeProto.SparseTensor()
            given.CopyFrom(value.type.sparse_tensor_type)
            value.type.tensor_type.elem_type = given.elem_type
            value.type.tensor_type.shape.CopyFrom(given.shape)
            found.add(value.name)
    for node in graph.node:
        if (node.domain, node.op_type) == ("com.microsoft", "SparseToDenseMatMul"):
            # Gemm has the same attributes: alpha, transA, transB.
            node.domain, node.op_type = "", "Gemm" if node.attribute else "MatMul"
    return frozenset(found)


def sparse_of(array: Array) -> SparseTensor:
    """The elements of a tensor that are not zero, by linear index."""
    places = np.flatnonzero(array)
    values = array.reshape(-1)[places]
    return SparseTensor.sparse_coo_from_numpy(array.shape, values, places, OrtDevice.make("cpu", 0))
