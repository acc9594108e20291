"""Undo and redo of a recording's edits, in the program itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.rows import fill

if TYPE_CHECKING:
    from workbench.compiler.record.recording import Recording


def undo(recording: Recording, count: int = 1) -> None:
    """Undo the last edits of a recording, in the program itself; a step without edits is removed too.

    Instructions are rebuilt with their original ids.

    Raises:
        GraphError: There are fewer edits, or the program has changed since.
    """
    _expect_ended(recording)
    edits = [(step, e) for step in recording for e in step.edits]
    if not 0 <= count <= len(edits):
        raise GraphError(f"cannot undo {count} edits; the recording has {len(edits)}")
    _expect_current(recording)
    for step, edit in reversed(edits[len(edits) - count :]):
        step.made.remove(edit)
        recording.undone.append((step, edit))
    _restore(recording)


def redo(recording: Recording, count: int = 1) -> None:
    """Redo the edits that were undone last.

    Raises:
        GraphError: Fewer edits were undone, or the program has changed since.
    """
    _expect_ended(recording)
    if not 0 <= count <= len(recording.undone):
        found = len(recording.undone)
        raise GraphError(f"cannot redo {count} edits; {found} were undone")
    _expect_current(recording)
    for _ in range(count):
        step, edit = recording.undone.pop()
        step.made.append(edit)
    _restore(recording)


def _expect_ended(recording: Recording) -> None:
    if recording in recording.program.listeners:
        raise GraphError("the recording is still running; leave its `with` block first")


def _expect_current(recording: Recording) -> None:
    if str(recording.program) != str(recording.last):
        raise GraphError("the program has changed since it was recorded; record those edits too")


def _restore(recording: Recording) -> None:
    """Bring the recording's program to the state after its steps."""
    recording.steps = [
        s for s in recording.steps if s.lowered is None
    ]  # it lowered another program
    rows = recording.rows_now()
    recording.program.clear()
    recording.rebase(rows, fill(recording.program, rows))
