"""Graphs built in Python, by PopART's names: ``import popart.ir as pir``."""

from workbench.compat.popart.ir import dtypes, ops, transforms
from workbench.compat.popart.ir.context import (
    Context,
    Sequence,
    debug_context_frame_offset,
    gcg,
    get_current_context,
    get_current_graph,
    get_main_graph,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
    op_debug_context,
    pipeline_stage,
    virtual_graph,
)
from workbench.compat.popart.ir.dtypes import (
    bool,
    complex64,
    complex128,
    double,
    dtype,
    float,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from workbench.compat.popart.ir.errors import UndefinedValue
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.ir import Ir
from workbench.compat.popart.ir.module import Module
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.random_seed import (
    create_seeds,
    two_uint32_to_uint64,
    uint64_to_two_uint32,
)
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer, remote_buffer
from workbench.compat.popart.ir.session import Session
from workbench.compat.popart.ir.streams import (
    DeviceToHostStream,
    HostToDeviceStream,
    d2h_stream,
    h2d_stream,
)
from workbench.compat.popart.ir.tensor import (
    Constant,
    HostScalarTensor,
    HostTensor,
    ScalarType,
    Tensor,
    TensorByRef,
    TensorLike,
    TensorSpec,
    Variable,
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
from workbench.compat.popart.ir.tensor_location import (
    ExecutionContext,
    ReplicatedTensorSharding,
    TensorLocation,
    TensorStorage,
    TileSet,
)

__all__ = [
    "Constant", "Context", "DeviceToHostStream", "ExecutionContext", "Graph", "HostScalarTensor",
    "HostTensor", "HostToDeviceStream", "Ir", "Module", "Op", "RemoteBuffer", "ReplicatedTensorSharding",
    "ScalarType", "Sequence", "Session", "Tensor", "TensorByRef", "TensorLike", "TensorLocation",
    "TensorSpec", "TensorStorage", "TileSet", "UndefinedValue", "Variable", "bool", "complex64", "complex128",
    "constant", "create_seeds", "d2h_stream", "debug_context_frame_offset", "double", "dtype", "dtypes",
    "float", "float16", "float32", "float64", "gcg", "get_current_context", "get_current_graph",
    "get_main_graph", "gmg", "graph_input", "graph_output", "h2d_stream", "half", "in_sequence", "int8",
    "int16", "int32", "int64", "io_tiles", "ipu", "name_scope", "op_debug_context", "ops", "pipeline_stage",
    "remote_buffer", "remote_replica_sharded_variable", "remote_variable", "replica_sharded_variable",
    "subgraph_input", "subgraph_output", "transforms", "two_uint32_to_uint64", "uint8", "uint16", "uint32",
    "uint64", "uint64_to_two_uint32", "variable", "virtual_graph",
]  # fmt: skip
