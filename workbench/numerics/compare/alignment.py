"""Alignment of builds and quantized programs with their source; other programs align as views do it."""

from __future__ import annotations

from workbench.compiler.builds.build import Build
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.program import Program
from workbench.compiler.record import alignment
from workbench.compiler.record.alignment import Match
from workbench.compiler.record.recording import Recording
from workbench.numerics.precision.quantize import Quantized


def from_source(build: Build) -> dict[int, tuple[int, ...]]:
    """The ids of the source's instructions whose value each instruction of a build computes, by id."""
    return alignment.from_start(build.recording, build.program)


def matched(a: Program, b: Program) -> dict[int, Match]:
    """The counterparts in ``b`` of instructions of the main module of ``a``, by id.

    A quantized program has a recording: its values are those that the recording says are equal.
    """
    if isinstance(a, Quantized) and _is_start(b, a.recording):
        return _by_recording(a)
    return alignment.matched(a, b)


def _is_start(program: Program, recording: Recording) -> bool:
    """Whether a recording began with this program: the same operations on the same inputs, by id."""
    rows = recording.start.instructions
    if len(rows) != program.size:
        return False
    pairs = ((i, rows.get(i.id)) for i in program.instructions)
    return all(
        row is not None and row.op == i.op and row.inputs == tuple(x.id for x in i.inputs)
        for i, row in pairs
    )


def _by_recording(a: Quantized) -> dict[int, Match]:
    relations = a.recording.relations
    found: dict[int, Match] = {}
    for instruction in a.main:
        equal = relations.originals(instruction.id)
        if equal and not isinstance(instruction.op, Return):
            found[instruction.id] = Match(equal[0], "lineage")
    return found
