"""Small programs on which rules fire or decline: `rules/<rule>.txt`, several cases a file."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.text.printing import parse

FOLDER = Path(__file__).parent / "rules"
_SHORT = re.compile(r"-> (\w+)\{([\d, ]*)\}$")


@dataclass(frozen=True)
class Sample:
    """A program in the text form; what the rule of that name is expected to do with it."""

    rule: str
    number: int
    kind: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}-{self.number}-{self.kind}"

    def program(self, type: str = "") -> Program:
        """The program; `type` replaces every float."""
        text = self.text.replace("float_type", type) if type else self.text
        return parse(text, fill_seed=0)


@cache
def samples() -> tuple[Sample, ...]:
    """All samples of all files."""
    return tuple(s for path in sorted(FOLDER.glob("*.txt")) for s in _read(path))


@cache
def programs() -> tuple[Program, ...]:
    """The program of every sample; work on a `fresh` one."""
    return tuple(sample.program() for sample in samples())


_given: dict[int, tuple[Program, int]] = {}
"""The last copy of each sample's program that was given out, with its version then."""


def fresh(number: int) -> Program:
    """A copy of a sample's program: the last one, unless it was changed, for most passes change few."""
    given = _given.get(number)
    if given is None or given[0].version != given[1]:
        copy = programs()[number].clone()
        given = _given[number] = (copy, copy.version)
    return given[0]


def given() -> dict[int, Program]:
    """The copies that were given out and have the version of then."""
    return {number: copy for number, (copy, version) in _given.items() if copy.version == version}


def _read(path: Path) -> list[Sample]:
    found = []
    cases = path.read_text(encoding="utf-8").split("# ")[1:]
    for number, case in enumerate(cases):
        head, _, body = case.partition("\n")
        kind, _, note = head.partition(": ")
        found.append(Sample(path.stem, number, kind, note, written_out(body)))
    return found


def written_out(body: str) -> str:
    """A program's text without what the short form leaves out: strides, and the name of `main`."""
    text = "\n".join(_line(line) for line in body.splitlines())
    return text if text.startswith("module") else f'module: "main"\n{text}'


def _line(line: str) -> str:
    """`-> float{2, 3}` written out with strides."""
    return _SHORT.sub(lambda m: f"-> {Shape(m[1] + '_type', _ints(m[2]))}", line)


def _ints(text: str) -> list[int]:
    return [int(v) for v in text.split(",") if v.strip()]
