"""Alignment: which instruction of one source program computes what one of another computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal as OneOf
from typing import TypeAlias

from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.record.recording import Recording

How: TypeAlias = OneOf["lineage", "node", "tensor", "structure"]
"""How two values were found to be the same: by the recording, by the name of the node or those of its
tensors, or by the order of equal operations."""

_MANY = 2000
"""The number of instructions from which frequent ones are no longer tried as the start of a match."""


@dataclass(frozen=True)
class Match:
    """The counterpart of an instruction in another program."""

    id: int
    how: How


def from_start(recording: Recording, program: Program) -> dict[int, tuple[int, ...]]:
    """The ids of the first program's instructions whose value each one of a later program computes, by id.

    There are several if rewrites found them equal.
    """
    found: dict[int, tuple[int, ...]] = {}
    for instruction in program.main:
        equal = recording.relations.originals(instruction.id)
        if equal and not isinstance(instruction.op, Return | Literal):
            found[instruction.id] = equal
    return found


def matched(a: Program, b: Program) -> dict[int, Match]:
    """The counterparts in ``b`` of instructions of the main module of ``a``, by id.

    Inputs match by name, or by order if the names differ. Instructions match if they come from nodes of one
    name, then from nodes whose outputs have the same names. What is left matches in order: equal operations
    on equal shapes.
    """
    found = _inputs(a, b)
    groups_b = _groups(b)
    by_outputs = {b.source_nodes[name].outputs: name for name in groups_b if name in b.source_nodes}
    for name, group in _groups(a).items():
        node = a.source_nodes.get(name)
        if name in groups_b:
            found |= _pairs(group, groups_b[name], "node")
        elif node is not None and node.outputs in by_outputs:
            found |= _pairs(group, groups_b[by_outputs[node.outputs]], "tensor")
    return found | _in_order(a, b, found)


def _inputs(a: Program, b: Program) -> dict[int, Match]:
    mine, other = a.main.parameters, b.main.parameters
    if set(mine) == set(other) or len(mine) != len(other):
        return {i.id: Match(other[name].id, "tensor") for name, i in mine.items() if name in other}
    pairs = zip(mine.values(), other.values(), strict=True)
    return {x.id: Match(y.id, "structure") for x, y in pairs}


def _groups(program: Program) -> dict[str, list[Instruction]]:
    """The instructions of the main module by the node of the model that they come from."""
    found: dict[str, list[Instruction]] = {}
    for instruction in program.main:
        if instruction.sources and not isinstance(instruction.op, Param | Return):
            found.setdefault(instruction.sources[-1], []).append(instruction)
    return found


def _pairs(a: Sequence[Instruction], b: Sequence[Instruction], how: How) -> dict[int, Match]:
    """All of two groups if they have the same operations, else the values that leave them."""
    if [i.name for i in a] != [i.name for i in b]:
        a, b = _leaving(a), _leaving(b)
        if len(a) != len(b):
            a, b = a[-1:], b[-1:]
    pairs = zip(a, b, strict=False)  # one may be empty
    return {x.id: Match(y.id, how) for x, y in pairs if _may_match(x, y)}


def _may_match(a: Instruction, b: Instruction) -> bool:
    """Whether two values that leave their groups may be the same: a view is no computed value."""
    return a.name == b.name or (a.op.alias is None and b.op.alias is None)


def _leaving(group: Sequence[Instruction]) -> list[Instruction]:
    """The instructions of a group that others use, or the program returns; the constants are left out."""
    own = set(group)
    used = [i for i in group if not i.users or any(u not in own for u in i.users)]
    return [i for i in used if not isinstance(i.op, Literal)]


def _in_order(a: Program, b: Program, known: Mapping[int, Match]) -> dict[int, Match]:
    taken = {m.id for m in known.values()}
    mine = [i for i in _computed(a) if i.id not in known]
    other = [i for i in _computed(b) if i.id not in taken]
    blocks = SequenceMatcher(
        None,
        [_signature(i) for i in mine],
        [_signature(i) for i in other],
        autojunk=len(mine) > _MANY,
    ).get_matching_blocks()
    return {
        mine[k.a + j].id: Match(other[k.b + j].id, "structure")
        for k in blocks
        for j in range(k.size)
    }


def _computed(program: Program) -> Iterable[Instruction]:
    """Instructions that compute a value of their own; views follow those that they show."""
    return (
        i
        for i in program.main
        if i.op.alias is None and not isinstance(i.op, Param | Return | Literal)
    )


def _signature(instruction: Instruction) -> tuple[str, str]:
    shape = instruction.shape
    is_static = shape.is_tensor and not shape.is_dynamic
    return str(instruction.op), str(shape.as_standard() if is_static else shape)
