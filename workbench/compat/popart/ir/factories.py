"""Factories of tensors: variables, constants, and inputs and outputs of subgraphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from workbench.compat.popart.ir.context import (
    execution_context,
    get_current_graph,
    get_main_graph,
)
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.tensor_location import (
    ExecutionContext,
    ReplicatedTensorSharding,
    TensorLocation,
    TensorStorage,
)
from workbench.compat.popart.ir.tensors import (
    Constant,
    HostScalarTensor,
    Tensor,
    Variable,
    host_array,
    set_location,
)

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph


def variable(
    data: HostScalarTensor,
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
) -> Variable:
    """A variable of the main graph.

    Args:
        data: Its first value.
        dtype: The element type; by default the data's.
        name: Its name; "t" by default.
        downcast: Whether 64-bit data become 32-bit if there is no ``dtype``.

    Raises:
        ValueError: The current graph is not the main graph.
    """
    graph = get_current_graph()
    if graph.id:
        raise ValueError(
            f"You can only initialise variables within a main graph context. Current graph: {graph.id}."
        )
    made = _held(Variable, graph, data, dtype, name, downcast)
    assert isinstance(made, Variable)
    made.remote, made.sharded = None, False
    return made


def constant(
    data: HostScalarTensor,
    dtype: dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
) -> Constant:
    """A constant of the current graph.

    Args:
        data: Its value.
        dtype: The element type; by default the data's.
        name: Its name; "t" by default.
        downcast: Whether 64-bit data become 32-bit if there is no ``dtype``.
    """
    return cast("Constant", _held(Constant, get_current_graph(), data, dtype, name, downcast))


def _held(
    kind: type[Tensor], graph: Graph, data: HostScalarTensor, type: dtype | None, name: str | None,
    downcast: bool,
) -> Tensor:  # fmt: skip
    array = host_array(data, type, downcast)
    spec = array.shape, dtype.as_dtype(array.dtype)
    return graph.add_tensor(kind, name or "t", spec, data=array, in_sync=True)


def subgraph_input(
    shape: Iterable[int],
    dtype: dtype,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Add an input to the current subgraph.

    Args:
        shape: Its lengths.
        dtype: Its element type.
        name: Its name; "t" by default.
        by_ref: Whether calls pass the caller's memory, so that changes of the input are seen there.
        meta_shape: The shape of the whole tensor, if the input is a shard of one.

    Raises:
        ValueError: The current graph is the main graph.
    """
    graph = _subgraph("inputs")
    made = graph.add_tensor(Tensor, name or "t", (tuple(map(int, shape)), dtype))
    made.meta_shape = tuple(meta_shape or ())
    graph.add_input(made, by_ref)
    return made


def subgraph_output(t: Tensor) -> None:
    """Make a tensor an output of the current subgraph.

    Raises:
        ValueError: The current graph is the main graph, or the tensor is of another one.
    """
    graph = _subgraph("outputs")
    if t not in graph:
        raise ValueError(f"The output tensor `t` is not in the current Graph {graph.name}: {t.id}.")
    graph.add_output(t)


graph_input, graph_output = subgraph_input, subgraph_output


def _subgraph(what: str) -> Graph:
    graph = get_current_graph()
    if not graph.id:
        raise ValueError(f"The main graph has no {what}; enter a subgraph to add some.")
    return graph


def remote_variable(var: Variable, remote_buffer: RemoteBuffer, offset: int) -> Constant:
    """Keep a variable in a row of a remote buffer.

    Returns:
        A constant with the number of the row, for `ops.remote_load` and `ops.remote_store`.

    Raises:
        ValueError: The variable does not fit the buffer.
    """
    remote_buffer.validate_tensor_matches_buffer(var)
    set_location(var, TensorLocation(TensorStorage.OffChip, ReplicatedTensorSharding.Off))
    return _placed(var, remote_buffer, offset)


def _placed(var: Variable, buffer: RemoteBuffer, offset: int) -> Constant:
    var.remote = buffer, offset
    with get_main_graph():
        return constant(offset, name=f"RemoteArg___{var.id}")


def remote_replica_sharded_variable(
    var: Variable, remote_buffer: RemoteBuffer, offset: int
) -> Constant:
    """Keep a variable in a row of a remote buffer, of which each replica has a shard.

    Returns:
        A constant with the number of the row.

    Raises:
        ValueError: There are no replicas, the elements cannot be divided among them, or the buffer is
            for shards of another shape.
    """
    replicas = var.ir().replication_factor
    if replicas <= 1:
        raise ValueError(
            "The IR must be replicated to use a sharded variable; set ir.replication_factor first."
        )
    if var.nelms % replicas:
        raise ValueError(
            f"The {var.nelms} elements of {var.id} cannot be divided among {replicas} replicas."
        )
    if remote_buffer.meta_shape and remote_buffer.meta_shape != var.shape:
        raise ValueError(
            f"Cannot reuse RemoteBuffer[id={remote_buffer.remote_buffer_id}] for replica sharded variables "
            f"with different meta-shapes: {remote_buffer.meta_shape} != {var.shape}"
        )
    remote_buffer.meta_shape = var.shape
    set_location(var, TensorLocation(TensorStorage.OffChip, ReplicatedTensorSharding.On))
    var.sharded = True
    return _placed(var, remote_buffer, offset)


def replica_sharded_variable(
    var: Variable, remote_buffer: RemoteBuffer, offset: int
) -> tuple[Constant, Tensor]:
    """Keep a variable on the chip, of which each replica has a shard that comes from a remote buffer.

    Returns:
        A constant with the number of the row, and the shard.

    Raises:
        ValueError: As for `remote_replica_sharded_variable`.
    """
    from workbench.compat.popart.ir import ops  # noqa: PLC0415 - operations make tensors

    row = remote_replica_sharded_variable(var, remote_buffer, offset)
    with execution_context(ExecutionContext.WeightsFromHostFragment):
        shard = ops.remote_load(remote_buffer, row, f"{var.name}_shard")
    with execution_context(ExecutionContext.WeightsToHostFragment):
        ops.remote_store(remote_buffer, row, shard)
    return row, shard
