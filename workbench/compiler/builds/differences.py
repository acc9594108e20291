"""Differences of programs, builds and models' files: what is in one and not in the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from workbench.compiler.builds.build import Build
from workbench.compiler.builds.models import read_model
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.record.alignment import from_start, matched
from workbench.compiler.record.differences import Differences

Subject: TypeAlias = Program | Build | str | Path


def differences(*subjects: Subject, names: Sequence[str] = ()) -> Differences:
    """Programs beside each other: which instructions each adds to, removes from or changes in the one before.

    Two builds of one program align by lineage: instructions that compute the same value of the source. Other
    programs align by the names of the model's nodes and tensors, and what is left by the order of equal
    operations.

    Args:
        *subjects: Two or more programs, builds or models' files; steps of a recording as ``step.after``.
        names: A name for each; by default those of the programs, or of the targets.

    Raises:
        OperationError: There are fewer than two, something is none of these, or there is not a name for each.
        ModelError: A file cannot be read.
    """
    if len(subjects) < 2:
        raise OperationError(f"differences: expected two programs or more; found {len(subjects)}")
    made = [read_model(s) if isinstance(s, str | Path) else s for s in subjects]
    for one in made:
        if not isinstance(one, Program | Build):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperationError(
                f"differences: expected programs, builds or models' files; found {type(one).__name__}"
            )
    if names and len(names) != len(made):
        raise OperationError(f"differences: {len(names)} names for {len(made)} programs")
    pairs = [_pairs(a, b) for a, b in pairwise(made)]
    return Differences([_program(m) for m in made], names or _names(subjects, made), pairs)


def _program(subject: Program | Build) -> Program:
    return subject.program if isinstance(subject, Build) else subject


def _pairs(a: Program | Build, b: Program | Build) -> dict[int, int]:
    """The counterparts in ``a`` of the instructions of ``b``."""
    source = _source(a)
    if source is None or source is not _source(b):
        return {match.id: id for id, match in matched(_program(a), _program(b)).items()}
    originals = _originals(a)
    at: dict[int, int] = {}
    for id, equal in originals.items():
        for original in equal:
            at.setdefault(original, id)
    found: dict[int, int] = {}
    taken: set[int] = set()
    for id, equal in _originals(b).items():
        counterpart = next((at[o] for o in equal if o in at), None)
        if counterpart is not None and counterpart not in taken:
            taken.add(counterpart)
            found[id] = counterpart
    return found


def _source(subject: Program | Build) -> Program | None:
    if isinstance(subject, Program):
        return subject
    return subject.source if subject.is_recorded else None


def _originals(subject: Program | Build) -> dict[int, tuple[int, ...]]:
    """The source's instructions that each instruction of a subject computes."""
    if isinstance(subject, Program):
        return {i.id: (i.id,) for i in subject.main}
    return from_start(subject.recording, subject.program)


def _names(given: Sequence[Subject], made: Sequence[Program | Build]) -> list[str]:
    """A name for each, told apart by numbers where they are equal."""
    found = [_name(g, m) for g, m in zip(given, made, strict=True)]
    return [
        f"{n} {found[: k + 1].count(n)}" if found.count(n) > 1 else n for k, n in enumerate(found)
    ]


def _name(given: Subject, made: Program | Build) -> str:
    if isinstance(given, str | Path):
        return Path(given).name
    if isinstance(made, Build):
        return f"{made.source.name or 'program'} for {made.target.name}"
    return made.name or "program"
