"""Updates in place whose order nothing fixes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.ir import Ir
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.lowering.memory import Memory, owners
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.run.reference import run


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


@dataclass(frozen=True)
class _Access:
    """A use of memory by an operation, through a tensor that may be a part of it."""

    op: Op
    tensor: Tensor
    writes: bool

    def meets(self, other: _Access, memory: Tensor) -> bool:
        """Whether the other use is of the same elements."""
        if memory in (self.tensor.memory, other.tensor.memory):
            return True
        return (
            np.intersect1d(elements(self.tensor, memory), elements(other.tensor, memory)).size > 0
        )


def _check(graph: Graph) -> None:
    if not any(op.modifies for op in graph.ops()):
        return
    before = ancestors(graph)
    uses: dict[Tensor, list[_Access]] = {}
    for op in graph.ops():
        for access in _accesses(op):
            for memory in owners(access.tensor):
                uses.setdefault(memory, []).append(access)
    for memory, found in uses.items():
        _check_order(memory, found, before)


def _check_order(memory: Tensor, uses: list[_Access], before: dict[Op, int]) -> None:
    writers: list[_Access] = []
    for k, late in enumerate(uses):
        come_before = before[late.op]
        for early in uses[:k] if late.writes else writers:
            is_ordered = early.op is late.op or come_before >> early.op.id & 1
            if not is_ordered and late.meets(early, memory):
                raise popart_exception(_message(late.op, early.op, memory))
        if late.writes:
            writers.append(late)


def _accesses(op: Op) -> Iterator[_Access]:
    """The memory that an operation uses. A view uses none."""
    for k, tensor in enumerate(op.inputs):
        if k in op.modifies or k not in op.aliases or op.parts:
            yield _Access(op, tensor, k in op.modifies)


def elements(tensor: Tensor, memory: Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The indices of the elements of a memory that a tensor uses.

    The tensor is computed from the memory's indices, in order; other memory has negative ones.
    """
    builder = ModuleBuilder(Program().main)
    given: dict[str, Any] = {}
    values: dict[Tensor, Value] = {}
    for k, owner in enumerate(owners(tensor)):
        values[owner] = builder.input(f"x{k}", owner.shape, "int64")
        numbers = np.arange(owner.nelms).reshape(owner.shape)
        given[f"x{k}"] = numbers if owner == memory else np.full(owner.shape, -1)
    shared = Memory(values, values.__getitem__, lambda _: nullcontext())
    builder.module.add_return(shared.read(tensor).instruction)
    found = np.asarray(run(builder.module.program, given)[0])
    return found[found >= 0]


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
