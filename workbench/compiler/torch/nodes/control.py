"""Branches and loops: the graphs that they run become modules, which read values from around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.dynamic import cut_out
from workbench.compiler.onnx.nodes.control import match_branches
from workbench.compiler.onnx.sizes import Length, Size
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.lengths import OPEN
from workbench.compiler.torch.regions import Region, known_lengths
from workbench.compiler.torch.registry import torch_op

ROOM = 256
"""Iterations of a loop with a condition that a gradient of it has room for."""


@torch_op("cond")
def cond(
    node: Context, chosen: Any, then: Any, other: Any, operands: Sequence[Any] = ()
) -> list[Any]:
    """One of two graphs on the same operands; the one that is taken, if that is known.

    Raises:
        ModelError: One of them returns nothing where the other returns a value.
    """
    if isinstance(chosen, bool | int):
        return Region(node, then if chosen else other, "taken").values(operands)
    made = [
        _branch(node, graph, part, operands) for graph, part in ((then, "then"), (other, "else"))
    ]
    (module, kept), (_, also) = made
    if kept != also:
        raise node.fail("only one of the branches returns a value; expected values of both")
    modules = [m for m, _ in made]
    match_branches(node, modules)
    condition = node.operand(chosen, DType.BOOL)
    found = node.elements(node.add("if", condition, modules=modules), len(module.outputs))
    order = iter(found)
    return known_lengths(node, [next(order) if is_value else None for is_value in kept])


def _branch(
    node: Context, graph: Any, part: str, operands: Sequence[Any]
) -> tuple[Module, list[bool]]:
    """The module of a branch, and which of its results are values."""
    region = Region(node, graph, part, is_apart=True)
    results = region.values(operands)
    kept = [r is not None for r in results]
    region.module.add_return(*region.instructions([r for r in results if r is not None]))
    return region.module, kept


@torch_op("while_loop")
def while_loop(
    node: Context, test: Any, body: Any, carried: Sequence[Any], others: Sequence[Any] = ()
) -> list[Any]:
    """A graph that runs while another one's result holds; both take the values that are carried on."""
    states = [node.standard(_carried(node, s)) for s in carried]
    inside = Region(node, body, "body", is_apart=True)
    step, _ = _counters(inside)
    inside.vary(step)
    values = [inside.state(k, state) for k, state in enumerate(states)]
    results = inside.instructions(inside.values([*values, *others]))
    again = inside.within(test, "test").values([*results, *others])
    inside.module.add_return(inside.truth(again[0]), *results)
    begun = Region(node, test, "test").values([*carried, *others])
    most = node.scalar(DType.INT64, int(np.iinfo(np.int64).max))
    first = node.operand(begun[0], DType.BOOL)
    made = node.add(
        "loop", most, first, *states, modules=[inside.module], max_iterations=ROOM
    )  # fmt: skip
    return known_lengths(node, node.elements(made, len(states)))


def _carried(node: Context, value: Any) -> Instruction:
    """A value that a loop carries on; an integer as an int64 of rank 0.

    Raises:
        ModelError: It is a number with a fraction.
    """
    if isinstance(value, Instruction):
        return value
    if isinstance(value, int | Size):
        return node.number_of(value)
    raise node.fail(f"a loop that carries {type(value).__name__}; expected tensors and integers")


def _counters(region: Region) -> tuple[Instruction, Instruction]:
    """The first parameters of a loop's module: the number of the iteration, and the condition."""
    return (
        region.module.add_parameter("iter", Shape(DType.INT64)),
        region.module.add_parameter("cond", Shape(DType.BOOL)),
    )


@torch_op("scan")
def scan(
    node: Context, body: Any, initial: Sequence[Any], scanned: Sequence[Instruction],
    others: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    """A graph that runs on each row of some values, carries others on, and whose results are stacked."""
    states = [node.standard(_carried(node, s)) for s in initial]
    inside = Region(node, body, "body", is_apart=True)
    step, condition = _counters(inside)
    inside.vary(step)
    values = [inside.state(k, state) for k, state in enumerate(states)]
    rows = [inside.row(x, step) for x in scanned]
    results = inside.instructions(inside.values([*values, *rows, *others]))
    inside.module.add_return(condition, *results)
    length = node.lens(scanned[0])[0]
    made = node.add(
        "loop",
        node.number_of(length),
        node.scalar(DType.BOOL, True),
        *states,
        modules=[inside.module],
        max_iterations=length if isinstance(length, int) else min(length.dim.max, OPEN),
    )
    found = node.elements(made, len(results))
    stacked = [_as_long(node, v, length) for v in found[len(states) :]]
    return known_lengths(node, [*found[: len(states)], *stacked])


def _as_long(node: Context, stacked: Instruction, length: Length) -> Instruction:
    """Stacked results without the rows that no iteration wrote."""
    if isinstance(length, int):
        return stacked
    return cut_out(node.module, stacked, 0, 0, length)


@torch_op("map_impl")
def map_(
    node: Context, body: Any, mapped: Sequence[Instruction], others: Sequence[Any] = ()
) -> list[Any]:
    """A graph that runs on each row of some values; its results are stacked."""
    return scan(node, body, [], mapped, others)


@torch_op(
    "invoke_subgraph",
    "tag_activation_checkpoint",
    "wrap",
    "wrap_with_autocast",
    "wrap_with_set_grad_enabled",
)
def inlined(node: Context, *arguments: Any) -> list[Any]:
    """A graph that runs once, in place: regions of autocast, of gradients, and those compiled once."""
    at = next(k for k, a in enumerate(arguments) if hasattr(a, "graph"))
    operands = [a for a in arguments[at + 1 :] if not isinstance(a, str)]
    return Region(node, arguments[at], "inside").values(operands)
