"""Edits of a recording taken back and made again, in the program itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.rows import fill

if TYPE_CHECKING:
    from workbench.compiler.record.recording import Recording


def undo(recording: Recording, count: int = 1) -> None:
    """Take the last edits of a recording back, in the program itself; a step without edits goes too.

    Instructions are made anew, with the ids that they had.

    Raises:
        GraphError: There are fewer edits, or the program was changed since.
    """
    _expect_ended(recording)
    edits = [(step, e) for step in recording for e in step.edits]
    if not 0 <= count <= len(edits):
        raise GraphError(f"{count} edits cannot be taken back: the recording has {len(edits)}")
    _expect_current(recording)
    for step, edit in reversed(edits[len(edits) - count :]):
        step.made.remove(edit)
        recording.undone.append((step, edit))
    _restore(recording)


def redo(recording: Recording, count: int = 1) -> None:
    """Make the edits that were taken back last once more.

    Raises:
        GraphError: Fewer were taken back, or the program was changed since.
    """
    _expect_ended(recording)
    if not 0 <= count <= len(recording.undone):
        found = len(recording.undone)
        raise GraphError(f"{count} edits cannot be made again: {found} were taken back")
    _expect_current(recording)
    for _ in range(count):
        step, edit = recording.undone.pop()
        step.made.append(edit)
    _restore(recording)


def _expect_ended(recording: Recording) -> None:
    if recording in recording.program.listeners:
        raise GraphError("the recording goes on; leave its `with` block first")


def _expect_current(recording: Recording) -> None:
    if str(recording.program) != str(recording.last):
        raise GraphError("the program was changed since it was recorded; record those edits too")


def _restore(recording: Recording) -> None:
    """Make the recording's program what its steps say."""
    recording.steps = [s for s in recording.steps if s.lowered is None]  # that was another program
    rows = recording.rows_now()
    recording.program.clear()
    recording.rebase(rows, fill(recording.program, rows))
