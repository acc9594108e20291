"""Layers of a program: groups of instructions whose type is chosen together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selectable, Selector
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.recurrent import LastState
from workbench.compiler.passes.base import open_modules
from workbench.compiler.passes.precision.capture_arguments import is_captured
from workbench.compiler.passes.precision.quantize_float import computes_in_float
from workbench.numerics.precision.quantize import INT8

By: TypeAlias = Literal["node", "scope"]
PRECISIONS = ("fp16", "bf16", "int8", "fp8")
"""The types that can be chosen for each layer."""


@dataclass(frozen=True)
class Layer:
    """Instructions that come from one node of the model, or from the nodes of one scope."""

    name: str
    operations: tuple[str, ...]
    """Names of its operations, each once."""
    ids: tuple[int, ...]
    """Its instructions that can compute in the narrow type."""
    flops: int
    """Floating-point operations of these instructions in one run."""
    keep: tuple[Selector, ...]
    """Selectors that keep the layer, and no other, in its own type."""


def expect_choice(precision: str, by: str) -> None:
    """Refuse a type that layers cannot have, and anything that they cannot be made by.

    Raises:
        OperationError: ``precision`` or ``by`` is something else.
    """
    if precision not in PRECISIONS:
        raise OperationError(f"precision {precision!r}; expected one of {', '.join(PRECISIONS)}")
    if by not in get_args(By):
        raise OperationError(f"layers by {by!r}; expected 'node' or 'scope'")


def layers_of(
    program: Program, precision: str, by: str, flops: Mapping[int, int]
) -> tuple[Layer, ...]:
    """The layers of a program that can be computed in a narrow type, in program order.

    Args:
        program: The program.
        precision: The narrow type.
        by: ``node`` or ``scope``. A node outside of all scopes is a layer of its own in both cases, as is
            an instruction that comes from no node.
        flops: Floating-point operations by instruction id.
    """
    found: dict[str, list[Instruction]] = {}
    for instruction in _narrowable(program, precision):
        found.setdefault(_name(program, instruction, by), []).append(instruction)
    selectable = Selectable(program)
    chosen = frozenset(i.id for members in found.values() for i in members)
    return tuple(_layer(n, m, selectable, chosen, flops) for n, m in found.items())


def _narrowable(program: Program, precision: str) -> Iterator[Instruction]:
    modules = open_modules(program)
    return (i for m in modules for i in m if _can_be_narrow(i, precision))


def _can_be_narrow(instruction: Instruction, precision: str) -> bool:
    if precision in ("fp16", "bf16"):
        return computes_in_float(instruction)
    op = instruction.op
    if op.name.startswith("@") or isinstance(op, Convert | LastState):
        return False
    return (precision == "fp8" or op.name in INT8) and any(map(is_captured, instruction.inputs))


def _name(program: Program, instruction: Instruction, by: str) -> str:
    if not instruction.sources:
        return f"#{instruction.id} {instruction.name}"
    scope = _scope(program, instruction.sources[0]) if by == "scope" else ""
    return scope or " + ".join(instruction.sources)


def _scope(program: Program, name: str) -> str:
    """The scope of a node, from the model or from the node's own name; empty if it has none."""
    node = program.source_nodes.get(name)
    path = node.scope if node and node.scope else tuple(name.split("/")[:-1])
    return "/".join(p.strip("/") for p in path if p.strip("/"))


def _layer(
    name: str,
    members: list[Instruction],
    selectable: Selectable,
    all_ids: frozenset[int],
    flops: Mapping[int, int],
) -> Layer:
    ids = tuple(i.id for i in members)
    operations = tuple(dict.fromkeys(i.name for i in members))
    work = sum(flops.get(id, 0) for id in ids)
    return Layer(name, operations, ids, work, _selectors(name, members, selectable, all_ids))


def _selectors(
    name: str, members: list[Instruction], selectable: Selectable, all_ids: frozenset[int]
) -> tuple[Selector, ...]:
    """The layer's name, the names of its nodes, or ids: the first of these that chooses just the layer."""
    ids = tuple(i.id for i in members)
    nodes = tuple(dict.fromkeys(n for i in members for n in i.sources))
    for tried in ((name,), nodes):
        is_known = all(n in selectable.names or n in selectable.scopes for n in tried)
        if tried and is_known and selectable.select(tried) & all_ids == frozenset(ids):
            return tried
    return ids
