"""Reductions across the IPUs of one replica."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import record
from workbench.compat.popart.ir.ops.checks import check_in_graph, check_same_type
from workbench.compat.popart.ir.ops.collectives.groups import check_operator
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.lowering.collectives import combined
from workbench.compiler.expressions.value import Value


@api
def all_reduce(
    ts: Iterable[Tensor], ipus: list[int] | None = None, op: str = "add"
) -> list[Tensor]:
    """The tensors of several IPUs combined, on each of them.

    Args:
        ts: A tensor for each IPU.
        ipus: The IPUs; by default those of the operations that made the tensors.
        op: The operator.

    Raises:
        ValueError: There is no such operator, or the numbers of tensors and IPUs differ.
    """
    return _reduced(list(ts), ipus, op, "all_reduce")


@api
def all_reduce_identical_inputs(
    ts: Iterable[Tensor], ipus: list[int] | None = None, op: str = "add"
) -> list[Tensor]:
    """Equal tensors of several IPUs, unchanged; their gradients are combined.

    Args:
        ts: A tensor for each IPU.
        ipus: The IPUs; by default those of the operations that made the tensors.
        op: The operator for the gradients.

    Raises:
        ValueError: There is no such operator, or the numbers of tensors and IPUs differ.
    """
    return _reduced(list(ts), ipus, op, "all_reduce_identical_inputs")


@api
def all_reduce_identical_grad_inputs(
    ts: Iterable[Tensor], ipus: list[int] | None = None, op: str = "add"
) -> list[Tensor]:
    """The tensors of several IPUs combined; their gradients are equal, and pass unchanged.

    Args:
        ts: A tensor for each IPU.
        ipus: The IPUs; by default those of the operations that made the tensors.
        op: The operator.

    Raises:
        ValueError: There is no such operator, or the numbers of tensors and IPUs differ.
    """
    return _reduced(list(ts), ipus, op, "all_reduce_identical_grad_inputs")


def _reduced(ts: list[Tensor], ipus: list[int] | None, op: str, kind: str) -> list[Tensor]:
    check_in_graph(**{f"ts[{k}]": t for k, t in enumerate(ts)})
    check_operator(op)
    check_same_type("AllReduce", *ts)
    places = [t.ipu for t in ts] if ipus is None else list(ipus)
    if len(places) != len(ts):
        raise ValueError(
            f"Number of tensors {len(ts)} does not match the number of IPUs {len(places)}."
        )

    def meaning(*values: Value) -> tuple[Value, ...]:
        if kind == "all_reduce_identical_inputs":
            return tuple(v.apply("identity") for v in values)
        total = combined(list(values), op)
        return (total,) * len(values)

    attributes = {
        "op": op, "ipus": tuple(places), "identical_inputs": kind == "all_reduce_identical_inputs",
        "identical_grad_inputs": kind == "all_reduce_identical_grad_inputs",
    }  # fmt: skip
    return list(record("AllReduce", ts, meaning, attributes=attributes).outputs)
