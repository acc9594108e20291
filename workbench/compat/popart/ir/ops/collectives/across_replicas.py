"""Collectives across replicas."""

from __future__ import annotations

from typing import Any

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import SAME, View, record
from workbench.compat.popart.ir.ops.checks import check
from workbench.compat.popart.ir.ops.collectives.groups import CommGroup, check_operator
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.lowering.collectives import Collective, Kind


@api
def replicated_all_reduce(
    t: Tensor, op: str = "add", group: CommGroup | None = None, link: Any = None
) -> Tensor:
    """The tensors of all replicas combined.

    Args:
        t: The tensor.
        op: The operator.
        group: The replicas that are combined; all by default.
        link: Recorded; the connection that PopART's hardware uses.

    Raises:
        ValueError: There is no such operator.
    """
    return _made("ReplicatedAllReduce", t, Kind.REDUCE, op, group, link, t.shape)


@api
def replicated_all_reduce_(
    t: Tensor, op: str = "add", group: CommGroup | None = None, link: Any = None
) -> Tensor:
    """The tensors of all replicas combined, in place; arguments as for `replicated_all_reduce`."""
    return _made("ReplicatedAllReduceInplace", t, Kind.REDUCE, op, group, link, t.shape, SAME)


@api
def replicated_all_gather(t: Tensor, group: CommGroup | None = None, link: Any = None) -> Tensor:
    """The elements of all replicas' tensors one after another, or with the shape that these are shards of.

    Args:
        t: The tensor, which may have a ``meta_shape``.
        group: The replicas whose elements are gathered; all by default.
        link: Recorded; the connection that PopART's hardware uses.
    """
    check(t=t)
    lens = t.meta_shape or (t.nelms * _size(t, group),)
    return _made("ReplicatedAllGather", t, Kind.GATHER, "local", group, link, lens)


@api
def replicated_reduce_scatter(
    t: Tensor,
    op: str = "add",
    group: CommGroup | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
    link: Any = None,
) -> Tensor:
    """The tensors of all replicas combined, of which each has a part.

    Args:
        t: The tensor.
        op: The operator; with "local" each replica takes its part of its own tensor.
        group: The replicas that are combined; all by default.
        configure_output_for_replicated_tensor_sharding: Whether the result is a shard of the tensor.
        link: Recorded; the connection that PopART's hardware uses.

    Raises:
        ValueError: There is no such operator.
    """
    check(t=t)
    lens = (-(-t.nelms // _size(t, group)),)
    made = _made("ReplicatedReduceScatter", t, Kind.SCATTER, op, group, link, lens)
    if configure_output_for_replicated_tensor_sharding:
        made.meta_shape = t.shape
    return made


def _size(t: Tensor, group: CommGroup | None) -> int:
    return len((group or CommGroup()).groups(t.ir().replication_factor)[0])


def _made(
    op_type: str, t: Tensor, kind: Kind, op: str, group: CommGroup | None, link: Any,
    lens: tuple[int, ...], view: View | None = None,
) -> Tensor:  # fmt: skip
    check(t=t)
    check_operator(op)
    details = Collective(kind, op, group or CommGroup(), bool(t.meta_shape))
    return record(
        op_type, [t], outputs=[(lens, t.dtype)], view=view, modifies=(0,) if view else (), details=details,
        attributes={"op": op, "group": group, "link": link},
    ).outputs[0]  # fmt: skip
