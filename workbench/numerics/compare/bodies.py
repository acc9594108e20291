"""Differences between the bodies of two instructions, such as Loop, Scan and If of two models."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module

Nodes = Mapping[tuple[str, ...], list[Instruction]]
"""Instructions by the nodes that they come from."""


def changed_inside(mine: Instruction, other: Instruction) -> Iterator[str]:
    """Names of the nodes in the bodies of an instruction that compute something else in those of another.

    Nodes are matched by name. One of them differs if its operations, their operands or their constants do;
    one that is on one side only differs, too. Nested bodies are compared likewise.
    """
    for a, b in zip(mine.modules, other.modules, strict=False):
        yield from _changed(a, b)


def _changed(mine: Module, other: Module) -> Iterator[str]:
    ours, theirs = _nodes(mine), _nodes(other)
    if ours.keys().isdisjoint(theirs):  # names tell nothing, then
        return
    places = _places(mine, ours), _places(other, theirs)
    for sources, members in ours.items():
        pairs = list(zip(members, theirs.get(sources, ()), strict=False))
        nested = [name for a, b in pairs for name in changed_inside(a, b)]
        same = len(pairs) == len(members) == len(theirs.get(sources, ()))
        if nested:
            yield from nested
        elif not same or any(_key(a, places[0]) != _key(b, places[1]) for a, b in pairs):
            yield from sources
    yield from (name for sources in theirs if sources not in ours for name in sources)


def _nodes(module: Module) -> Nodes:
    """The instructions of a body that compute something, in order."""
    found: dict[tuple[str, ...], list[Instruction]] = {}
    for i in module:
        if i.inputs and i.sources and not isinstance(i.op, Return):
            found.setdefault(i.sources, []).append(i)
    return found


def _places(module: Module, nodes: Nodes) -> dict[int, Hashable]:
    """Parameters by position, and instructions by node and by position among those of the node."""
    found: dict[int, Hashable] = {p.id: k for k, p in enumerate(module.parameters.values())}
    for sources, members in nodes.items():
        found.update({i.id: (sources, k) for k, i in enumerate(members)})
    return found


def _key(instruction: Instruction, places: Mapping[int, Hashable]) -> Hashable:
    """The operation and the operands; literals by value, and what is outside of the body by its node."""
    operands = (_operand(x, places) for x in instruction.inputs)
    return repr(instruction.op), instruction.shape.type, tuple(operands)


def _operand(read: Instruction, places: Mapping[int, Hashable]) -> Hashable:
    if read.literal is not None:
        array = read.literal.numpy()
        return str(array.dtype), array.shape, array.tobytes()
    return places.get(read.id, (read.parameter, read.name, read.sources))
