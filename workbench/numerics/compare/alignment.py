"""Alignment of builds and quantized programs with their source; other programs align as views do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.record import alignment
from workbench.compiler.record.alignment import Match
from workbench.compiler.record.recording import Recording
from workbench.numerics.precision.quantize import Quantized


def from_source(build: Build) -> dict[int, tuple[int, ...]]:
    """The ids of the source's instructions whose value each instruction of a build computes, by id."""
    return alignment.from_start(build.recording, build.program)


@dataclass(frozen=True)
class Joined:
    """Values that make up another one, side by side along an axis."""

    axis: int
    keys: tuple[Any, ...]
    """Their ids, or other keys, in order."""


def joined_from_source(build: Build, aligned: Mapping[int, object]) -> dict[int, Joined]:
    """The source's values that a value of a build is made of, by the build's ids.

    Rewrites merge products of one operand into one product, and take its parts by slices, which are said to
    equal the source's products. So the merged value is known, although the source has no such value.

    Args:
        build: The build.
        aligned: The ids of the instructions that equal one of the source.
    """
    single = {i.id: i for i in build.program.main if i.id not in aligned and _has_lens(i)}
    slices: dict[int, dict[int, Slice]] = {}
    edits = (e for step in build.recording for e in step.edits)
    for row in (row for e in edits for row in e.rows.values()):
        if row is not None and isinstance(row.op, Slice) and row.inputs[0] in single:
            slices.setdefault(row.inputs[0], {})[row.id] = row.op
    found = ((id, _joined(build, single[id], parts)) for id, parts in slices.items())
    return {id: parts for id, parts in found if parts is not None}


def _has_lens(instruction: Instruction) -> bool:
    return instruction.shape.is_tensor and not instruction.shape.is_dynamic


def _joined(build: Build, whole: Instruction, slices: Mapping[int, Slice]) -> Joined | None:
    """The parts of a value that slices of it are, if they follow each other from its start to its end."""
    axes = {op.axes for op in slices.values()}
    if len(axes) != 1 or len(axis := axes.pop()) != 1:
        return None
    at, found = 0, list[int]()
    for id, op in sorted(slices.items(), key=lambda pair: pair[1].starts):
        if op.starts != (at,) or len(op.ends) != 1:
            return None
        lens = list(whole.shape.lens)
        lens[axis[0]] = op.ends[0] - at
        if (part := _computed(build, id, lens)) is None:
            return None
        at = op.ends[0]
        found.append(part)
    return Joined(axis[0], tuple(found)) if at == whole.shape.lens[axis[0]] else None


def _computed(build: Build, id: int, lens: list[int]) -> int | None:
    """The source's instruction, of these lens, that one of any step is said to equal."""
    main = build.source.main
    equal = map(build.source.instruction, build.recording.relations.originals(id))
    told = (i for i in equal if i.module is main and not isinstance(i.op, Param | Literal))
    return next((i.id for i in told if _has_lens(i) and list(i.shape.lens) == lens), None)


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
