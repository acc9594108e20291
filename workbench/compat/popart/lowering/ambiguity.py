"""Updates in place whose order nothing fixes."""

from __future__ import annotations

import warnings

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.ir import Ir
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.lowering.memory import owners


def check_ambiguity(ir: Ir) -> None:
    """Check that the order of every update of memory and every other use of it is fixed.

    Raises:
        popart_exception: Neither of two operations has to come before the other, one overwrites memory,
            and the other one reads or overwrites it too.
    """
    for graph in ir.graphs:
        _check(graph)
        _warn(graph)


def _warn(graph: Graph) -> None:
    """Warn of stores to remote buffers that nothing orders against other uses of the same buffer."""
    parts = [(op, part) for op in graph.ops() for part in op.parts or (op,)]
    uses = [(op, part) for op, part in parts if isinstance(part.details, RemoteBuffer)]
    if not any(part.op_type == "RemoteStore" for _, part in uses):
        return
    before = ancestors(graph)
    for k, (op, part) in enumerate(uses):
        for other, first in uses[:k]:
            stores = "RemoteStore" in (part.op_type, first.op_type)
            if stores and part.details is first.details and not before[op] >> other.id & 1:
                warnings.warn(_unordered(first, part), stacklevel=4)
                return


def _unordered(first: Op, other: Op) -> str:
    return (
        f"{first.op_type} {first.name} and {other.op_type} {other.name} use {other.details!r} and nothing "
        "fixes their order; here they run in the order in which they were made. Put them into "
        "`with pir.in_sequence():`."
    )


def _check(graph: Graph) -> None:
    if not any(op.modifies for op in graph.ops()):
        return
    before = ancestors(graph)
    accesses = {op: _accesses(op) for op in graph.ops()}
    written = {m for found in accesses.values() for m, writes in found.items() if writes}
    uses: dict[Tensor, list[tuple[Op, bool]]] = {}
    for op, found in accesses.items():
        for memory, writes in found.items():
            if memory not in written:
                continue
            for other, wrote in uses.get(memory, []):
                if (writes or wrote) and not before[op] >> other.id & 1:
                    raise popart_exception(_message(op, other, memory))
            uses.setdefault(memory, []).append((op, writes))


def _accesses(op: Op) -> dict[Tensor, bool]:
    """The memory that an operation uses, and whether it overwrites it. A view uses none."""
    found: dict[Tensor, bool] = {}
    for k, tensor in enumerate(op.inputs):
        if k in op.modifies or k not in op.aliases or op.parts:
            for memory in owners(tensor):
                found[memory] = found.get(memory, False) or k in op.modifies
    return found


def ancestors(graph: Graph) -> dict[Op, int]:
    """For each operation those that come before it, as a set of bits by id."""
    found: dict[Op, int] = {}
    for op in graph.ops():
        bits = 0
        for earlier in op.needs:
            bits |= found[earlier] | 1 << earlier.id
        found[op] = bits
    return found


def _message(op: Op, other: Op, memory: Tensor) -> str:
    lines = [
        f"{o.op_type} {o.name} (line {o.location.line})" if o.location is not None else repr(o)
        for o in (other, op)
    ]
    return (
        f"Inplacing ambiguity detected. {lines[0]} and {lines[1]} use the memory of {memory.id}, at least "
        "one overwrites it, and nothing fixes their order; put them into `with pir.in_sequence():`, or make "
        "one use the other's result."
    )
