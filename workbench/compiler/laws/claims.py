"""The equalities that an edit claims: which instruction computes what which one computed before."""

from __future__ import annotations

from typing import NamedTuple

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.record.edits import Edit


class Claim(NamedTuple):
    """Two instructions with equal values: one of the program before an edit, one of that after it."""

    before: Instruction
    after: Instruction


def claims(edit: Edit, before: Program, after: Program) -> list[Claim]:
    """The equal values that an edit touched, in the order of the program after it.

    They are the replacements that the edit states, and the instructions that it changed in place. Values
    inside of called modules are left out: only those of the main module can be read off one run.

    Args:
        edit: The edit.
        before: The program before it.
        after: The program after it.
    """
    olds = {i.id: i for i in before.main}
    became = dict(edit.replaced)
    pairs = [(old, _end(old, became)) for old in became] + [(id, id) for id in edit.changed]
    wanted = {new: olds[old] for old, new in reversed(pairs) if old in olds}
    return [Claim(wanted[i.id], i) for i in after.main if i.id in wanted and _has_value(i)]


def unchanged(before: Program, after: Program) -> list[Claim]:
    """The instructions of both main modules, in the order of the program after the edit."""
    olds = {i.id: i for i in before.main}
    return [Claim(olds[i.id], i) for i in after.main if i.id in olds and _has_value(i)]


def _end(id: int, became: dict[int, int]) -> int:
    """The last replacement of a value that one edit replaced several times."""
    seen = {id}
    while (following := became.get(id, id)) not in seen:
        seen.add(following)
        id = following
    return id


def _has_value(instruction: Instruction) -> bool:
    return not isinstance(instruction.op, Return)
