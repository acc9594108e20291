"""Tensors and their factories, by PopART's module name."""

from workbench.compat.popart.ir.factories import (
    constant,
    graph_input,
    graph_output,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_variable,
    subgraph_input,
    subgraph_output,
    variable,
)
from workbench.compat.popart.ir.tensors import (
    Constant,
    HostScalarTensor,
    HostTensor,
    ScalarType,
    Tensor,
    TensorByRef,
    TensorLike,
    TensorSpec,
    Variable,
    downcast_np_dtypes,
)

__all__ = [
    "Constant", "HostScalarTensor", "HostTensor", "ScalarType", "Tensor", "TensorByRef", "TensorLike",
    "TensorSpec", "Variable", "constant", "downcast_np_dtypes", "graph_input", "graph_output",
    "remote_replica_sharded_variable", "remote_variable", "replica_sharded_variable", "subgraph_input",
    "subgraph_output", "variable",
]  # fmt: skip
