"""The driver's messages: progress and warnings, on stderr and in files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from workbench.compiler.errors import WorkbenchError

LEVELS = ("none", "error", "warn", "info", "debug", "trace")


class UsageError(WorkbenchError):
    """An invalid command line; the message says what was expected."""


class Messages:
    """Writes progress and warnings. Results go to stdout, not through this class.

    Args:
        level: ``none`` to ``trace``, or its number: ``warn`` adds warnings, ``info`` progress,
            ``debug`` details.
        files: Files that the messages are appended to.
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
                """Check that the file can be written, before any work is done."""

    def info(self, line: str) -> None:
        """Report progress."""
        self._say(LEVELS.index("info"), line)

    def debug(self, line: str) -> None:
        """Report a detail."""
        self._say(LEVELS.index("debug"), line)

    def warn(self, line: str) -> None:
        """Warn of a deviation from the options."""
        self._say(LEVELS.index("warn"), f"[WARNING]: {line}")

    def error(self, line: str) -> None:
        """Report why there is no result; on stderr, whatever the level."""
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
