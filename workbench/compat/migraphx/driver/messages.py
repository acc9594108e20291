"""The driver's messages beside its results: progress and warnings, on stderr and in files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from workbench.compiler.errors import WorkbenchError

LEVELS = ("none", "error", "warn", "info", "debug", "trace")


class UsageError(WorkbenchError):
    """A command line that means nothing; the message says what was expected."""


class Messages:
    """Says how far the work is. Results go to stdout and are nothing that this decides about.

    Args:
        level: ``none`` to ``trace``, or its number: from ``warn`` on warnings are said, from ``info`` on
            progress, from ``debug`` on details.
        files: Files that what is said is added to.
    """

    def __init__(self, level: str = "info", files: Iterable[str] = ()) -> None:
        words = {str(number): word for number, word in enumerate(LEVELS)}
        word = words.get(level, level)
        if word not in LEVELS:
            known = ", ".join(f"{word}/{number}" for number, word in enumerate(LEVELS))
            raise UsageError(f"--log-level {level}: expected one of {known}")
        self.level = LEVELS.index(word)
        self.files = [Path(f) for f in files]
        for file in self.files:
            with file.open("a", encoding="utf-8"):
                """The file can be written, or this raises before any work is done."""

    def info(self, line: str) -> None:
        """Say how far the work is."""
        self._say(LEVELS.index("info"), line)

    def debug(self, line: str) -> None:
        """Say a detail."""
        self._say(LEVELS.index("debug"), line)

    def warn(self, line: str) -> None:
        """Say what is not as it was asked for."""
        self._say(LEVELS.index("warn"), f"[WARNING]: {line}")

    def error(self, line: str) -> None:
        """Say why there is no result; on stderr whatever the level is."""
        sys.stderr.write(line + "\n")
        self._write(line)

    def _say(self, needed: int, line: str) -> None:
        if self.level >= needed:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
            self._write(line)

    def _write(self, line: str) -> None:
        for file in self.files:
            with file.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
