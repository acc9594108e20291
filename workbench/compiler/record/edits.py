"""The records in a recording: edits, near misses, and the step of each pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from workbench.compiler.ir.listener import PassLike, RuleLike
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import ModuleRow, Row
from workbench.compiler.text.naming import ids_in, resolved

if TYPE_CHECKING:
    from workbench.compiler.record.lowered import Lowered
    from workbench.compiler.record.recording import Recording
    from workbench.compiler.record.sentences import Begun


@dataclass(slots=True)
class Edit:
    """One change of a program, made by one rule or one statement of a pass."""

    index: int
    rule: str
    law: str
    file: str
    line: int
    rows: dict[int, Row | None]
    """The new row of every instruction that changed; None if it was removed."""
    added: tuple[int, ...]
    removed: tuple[int, ...]
    changed: tuple[int, ...]
    moved: tuple[int, ...]
    replaced: tuple[tuple[int, int], ...]
    """Pairs of ids: the second instruction computes what the first one computed."""
    seconds: float
    modules: dict[int, ModuleRow | None] = field(default_factory=dict[int, "ModuleRow | None"])

    @property
    def label(self) -> str:
        """The name and location of the rule or statement."""
        return f"{self.rule} ({self.file}:{self.line})"


class NearMiss(NamedTuple):
    """A place where a rule's pattern matched but the rule did not apply, and why."""

    rule: str
    law: str
    instruction: int
    reason: str
    file: str
    line: int
    at: str = ""
    """The printed name of the instruction at this step."""


class Counts(NamedTuple):
    """The number of instructions in a program: in the main module, and inside kernels."""

    main: int
    inside: int = 0

    @classmethod
    def of(cls, program: Program) -> Counts:
        """The counts of a program."""
        inside = sum(len(m) for m in program.modules.values() if m.bypass)
        return cls(len(program.main), inside)

    def to(self, after: Counts) -> str:
        """Both counts before and after: ``6 → 3 instructions, inside kernels: 7``."""
        sizes = f"{self.main} → {after.main} instructions"
        return f"{sizes}, inside kernels: {after.inside}" if after.inside else sizes


class Step:
    """The step of one pass: its edits and near misses."""

    def __init__(
        self, recording: Recording, pass_: PassLike | None, name: str, before: Counts
    ) -> None:
        """A step that has not begun."""
        self.recording = recording
        self.index = len(recording.steps)
        self.pass_ = pass_
        self.name = name
        self.before_count = before
        self.after_count = before
        self.seconds = 0.0
        self.error = ""
        self.lowered: Lowered | None = None
        """What each instruction became, if this step is the lowering that follows all passes."""
        self.made: list[Edit] = []
        self.missed: list[tuple[RuleLike, int, str]] = []

    @property
    def edits(self) -> list[Edit]:
        """The pass's edits, in order."""
        self.recording.digest()
        return self.made

    @cached_property
    def near_misses(self) -> list[NearMiss]:
        """The places where a rule of the pass matched but declined, each once, in printed names."""
        return [
            m._replace(reason=self.named(m.reason), at=self.named(f"#{m.instruction}"))
            for m in self.recorded_misses
        ]

    @property
    def size_before(self) -> int:
        """The number of instructions in the main module before the pass."""
        return self.before_count.main

    @property
    def size_after(self) -> int:
        """The number of instructions in the main module after the pass."""
        return self.after_count.main

    @cached_property
    def sentences(self) -> Sequence[str]:
        """A sentence for each edit, by index: ``add and relu fused into pointwise``."""
        return self.sentences_from()

    def sentences_from(self, begun: Begun | None = None) -> Sequence[str]:
        """The same, for a caller that has the program before the step.

        Args:
            begun: Makes the rows before the step, and the ids of each module; by default they are replayed.
        """
        from workbench.compiler.record.sentences import Sentences  # noqa: PLC0415

        return Sentences(self, begun)

    def named(self, text: str) -> str:
        """A recorded text with printed names in place of ids: those before the pass, or else after it."""
        if not ids_in(text):
            return text
        return resolved(text, *map(self.recording.names_after, (self.index - 1, self.index)))

    @cached_property
    def recorded_misses(self) -> list[NearMiss]:
        """The near misses as they were recorded: their reasons name instructions by id."""
        return [
            NearMiss(r.name, r.law, id, reason, r.file, r.line)
            for r, id, reason in dict.fromkeys(self.missed)
        ]

    @property
    def changed(self) -> bool:
        """Whether the pass changed anything."""
        return bool(self.edits)

    @property
    def before(self) -> Program:
        """The program before the pass, rebuilt with its original ids."""
        return self.recording.program_after(self.index - 1)

    @property
    def after(self) -> Program:
        """The program after the pass, rebuilt with its original ids."""
        return self.recording.program_after(self.index)

    def after_edit(self, index: int) -> Program:
        """The program after edit ``index`` of this step (-1: before the first)."""
        return self.recording.program_after(self.index - 1, self.edits[: index + 1])

    def __repr__(self) -> str:
        """Name and sizes."""
        if self.lowered is not None:
            return f"<Step {self.index} {self.name}: {self.lowered.summary}>"
        sizes = self.before_count.to(self.after_count)
        return f"<Step {self.index} {self.name}: {sizes}, {len(self.edits)} edits>"

    @property
    def text(self) -> str:
        """Everything that the step did: a line per edit, or for the lowering a line per instruction."""
        if self.lowered is not None:
            return self.lowered.text
        return "".join(f"{e.label}: {e.law}\n" for e in self.edits)

    def __str__(self) -> str:
        """Name and sizes; for the lowering, its text."""
        return repr(self) if self.lowered is None else f"{self!r}\n{self.text}"
