"""The record of a lowering: what each instruction of a compiled program became, and where its value is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

KERNEL, HOST, BRANCH, LOOP = "kernel", "host", "branch", "loop"
COLLECTIVE = "collective"
VIEW, PART, NOTHING = "view", "part", "nothing"
LITERAL, PARAMETER = "literal", "parameter"
_COUNTED = {
    KERNEL: "instruction(s) as kernels",
    BRANCH: "branch(es)",
    LOOP: "loop(s)",
    COLLECTIVE: "collective(s)",
    HOST: "host step(s)",
    VIEW: "view(s)",
    LITERAL: "literal(s)",
    PARAMETER: "parameter(s)",
}


@dataclass(frozen=True)
class PlaceRow:
    """The place of a value, or of one of several results."""

    root: str
    """The allocation that contains it: its kind, and the instruction that owns it."""
    offset: int
    """Offset in bytes from the start of that allocation."""
    bytes: int
    arena: int | None = None
    """Offset in bytes of the allocation in the arena; None if it is not in the arena."""

    def __str__(self) -> str:
        """The place in the text form."""
        arena = "" if self.arena is None else f", arena+{self.arena}"
        return f"{self.root}+{self.offset} ({self.bytes} B{arena})"


@dataclass(frozen=True)
class LoweredRow:
    """The lowering of one instruction."""

    id: int
    instruction: str
    """Its name in the text form."""
    kind: str
    """One of ``kernel``, ``view``, ``literal``, ``parameter``, ``branch``, ``loop``, ``collective``,
    ``host``, ``part`` and ``nothing``."""
    what: str = ""
    """Kernels and their schedules, the value it is a view or part of, or why it is none of these."""
    places: tuple[PlaceRow, ...] = ()

    @property
    def became(self) -> str:
        """The lowered form, in words."""
        kind = {VIEW: "view of", PART: "part of", HOST: "host:"}.get(self.kind, self.kind)
        if self.kind == NOTHING and self.what:
            kind = "nothing:"
        return f"{kind} {self.what}".strip()

    def __str__(self) -> str:
        """The line of the text form."""
        places = f" place {', '.join(map(str, self.places))}" if self.places else ""
        return f"{self.instruction} -> {self.became}{places}"


@dataclass(frozen=True)
class Lowered:
    """The lowering of all instructions of a compiled program, in their order."""

    rows: tuple[LoweredRow, ...]
    arena: int
    """Size of the arena in bytes."""
    made_for: str
    """The device or architecture."""
    note: str = ""
    """The reason why nothing was lowered; empty if something was."""

    def __iter__(self) -> Iterator[LoweredRow]:
        """The rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def summary(self) -> str:
        """A summary in one line: the number of instructions of each kind."""
        if self.note:
            return self.note
        counts = Counter(row.kind for row in self.rows)
        said = [_count(counts[kind], words) for kind, words in _COUNTED.items() if counts[kind]]
        return f"{', '.join(said) or 'nothing to do'}; arena of {self.arena:,} bytes"

    @property
    def text(self) -> str:
        """The summary, then a line per instruction, except those inside kernels."""
        shown = [str(row) for row in self.rows if row.kind != PART]
        return "\n".join([f"lowered for {self.made_for}: {self.summary}", *shown]) + "\n"

    def table(self) -> DataFrame:
        """A row per instruction: what it became, and where its value is."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "instruction": r.instruction,
                "became": r.kind,
                "what": r.what,
                "place": ", ".join(map(str, r.places)),
                "bytes": sum(p.bytes for p in r.places),
            }
            for r in self.rows
        ]
        return pd.DataFrame(rows, index=pd.Index([r.id for r in self.rows], name="id"))

    def __repr__(self) -> str:
        """The summary."""
        return f"<Lowered for {self.made_for}: {self.summary}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"text/plain": self.text, "text/html": self.table().to_html(border=0)}


def _count(number: int, words: str) -> str:
    """``1 branch``, ``2 branches``, from ``branch(es)``."""
    stem, _, rest = words.partition("(")
    ending, _, after = rest.partition(")")
    return f"{number} {stem}{ending if number != 1 else ''}{after}"
