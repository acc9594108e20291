"""Traces of passes, for MIGraphX's environment variables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import PurePath
from time import perf_counter

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.listener import Listener, PassLike, RuleLike
from workbench.compiler.ir.operation import float_text
from workbench.compiler.ir.program import Program
from workbench.compiler.text.printing import instruction_text, names
from workbench.knobs import knobs

Say = Callable[[str], object]


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def tracers(program: Program, purpose: str = "compile", say: Say = _print) -> list[Listener]:
    """The listeners that the options ask for: ``trace_passes``, ``time_passes``, ``trace_matches``.

    Quantization has a separate option, ``trace_quantization``.
    """
    found: list[Listener] = []
    if purpose == "quantize":
        return [PassTracer(program, say)] if knobs.trace_quantization else found
    if knobs.trace_passes or knobs.trace_compile:
        found.append(PassTracer(program, say))
    if knobs.time_passes:
        found.append(PassTimer(say))
    level, wanted = knobs.trace_matches, knobs.trace_matches_for
    if level or wanted:
        found.append(MatchTracer(program, max(level, 1), wanted, say))
    return found


class PassTracer(Listener):
    """Writes ``Pass: name`` before each pass, and the program after it."""

    def __init__(self, program: Program, say: Say) -> None:
        """Trace the passes of a program."""
        self.program = program
        self.say = say

    def pass_began(self, pass_: PassLike) -> None:
        """Name the pass."""
        self.say(f"Pass: {pass_.name}")

    def pass_ended(self, pass_: PassLike, error: BaseException | None) -> None:
        """Print the program."""
        self.say(str(self.program))


class PassTimer(Listener):
    """Writes ``name: 0.53ms`` after each pass."""

    def __init__(self, say: Say) -> None:
        """Start without a pass."""
        self.say = say
        self._began = 0.0

    def pass_began(self, pass_: PassLike) -> None:
        """Note the time."""
        self._began = perf_counter()

    def pass_ended(self, pass_: PassLike, error: BaseException | None) -> None:
        """Write the pass's time."""
        self.say(f"{pass_.name}: {float_text((perf_counter() - self._began) * 1e3)}ms")


class MatchTracer(Listener):
    """Writes each match with the instruction before the edit, and from level 2 on near misses too.

    Args:
        program: The program.
        level: 1 for matches, 2 for near misses too.
        wanted: A text that the rule's name or file, or the pass's name, has to contain.
        say: Receives each line.
    """

    def __init__(self, program: Program, level: int, wanted: str, say: Say) -> None:
        self.program = program
        self.level = level
        self.wanted = wanted
        self.say = say
        self._pass = ""

    def pass_began(self, pass_: PassLike) -> None:
        """Remember the pass."""
        self._pass = pass_.name

    def edit_began(self, rule: RuleLike | None, root: Instruction | None) -> None:
        """Write the match."""
        if rule is not None and root is not None and self._is_wanted(rule):
            self.say(f"Matched by {self._pass}.{rule.name}")
            self.say(self._line(root))

    def near_miss(self, rule: RuleLike, instruction: Instruction, reason: str) -> None:
        """Write the near miss, with its reason."""
        if self.level > 1 and self._is_wanted(rule):
            self.say(f"Declined by {self._pass}.{rule.name}: {reason}")
            self.say(self._line(instruction))

    def _is_wanted(self, rule: RuleLike) -> bool:
        places = (rule.name, PurePath(rule.file).name, self._pass)
        return any(self.wanted in place for place in places)

    def _line(self, instruction: Instruction) -> str:
        return instruction_text(instruction, names(self.program))
