"""Copies between IPUs and tile sets, which are recorded, and prints."""

from __future__ import annotations

from workbench.compat.popart.ir.context import api, ipu, placed_on
from workbench.compat.popart.ir.op import record
from workbench.compat.popart.ir.ops.checks import check
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value


def _copied(x: Value) -> Value:
    return x.apply("identity")


@api
def ipu_copy(t: Tensor, destination: int, source: int | None = None) -> Tensor:
    """A copy on another IPU.

    Args:
        t: The tensor.
        destination: The IPU to copy to.
        source: The IPU to copy from; by default that of the operation that made the tensor.

    Raises:
        ValueError: There is no ``source``, and no operation made the tensor.
    """
    check(t=t)
    if source is None:
        source = t.producer.ipu if t.producer is not None else None
    if source is None:
        raise ValueError(
            f"Could not infer the ipu of the tensor {t.id}. Please specify `source` when copying it."
        )
    attributes = {"source": source, "destination": destination}
    with ipu(destination):
        return record("IpuCopy", [t], _copied, attributes=attributes).outputs[0]


@api
def io_tile_copy(t: Tensor) -> Tensor:
    """A copy on the other set of tiles: those for input and output, or those that compute."""
    check(t=t)
    source = t.tile_set if t.producer is not None else "compute"
    with placed_on("compute" if source == "io" else "io"):
        return record("IoTileCopy", [t], _copied).outputs[0]


@api
def print_tensor(
    t: Tensor, title: str | None = None, print_self: bool = True, print_gradient: bool = False
) -> Tensor:
    """The tensor; a run prints its value.

    Args:
        t: The tensor.
        title: Printed before the value; by default the tensor's id.
        print_self: Whether to print the value.
        print_gradient: Recorded.
    """
    check(t=t)
    attributes = {
        "title": title or t.id,
        "print_self": print_self,
        "print_gradient": print_gradient,
    }
    return record("PrintTensor", [t], _copied, attributes=attributes).outputs[0]
