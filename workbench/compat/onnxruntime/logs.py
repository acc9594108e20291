"""Messages of sessions, as onnxruntime's logger sends them: to standard error, or to a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

VERBOSE, INFO, WARNING, ERROR, FATAL = range(5)
_LETTERS = "VIWEF"

Receiver = Callable[[int, str, str, str, str], Any]


@dataclass
class _Logger:
    severity: int = WARNING
    verbosity: int = 0
    receiver: Receiver | None = None


DEFAULT = _Logger()


def set_default_logger_severity(severity: int) -> None:
    """Drop messages below a severity: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.

    Raises:
        RuntimeError: There is no such severity.
    """
    DEFAULT.severity = _severity(severity)


def set_default_logger_verbosity(verbosity: int) -> None:
    """Keep the level of detail of verbose messages; there is one level here."""
    DEFAULT.verbosity = int(verbosity)


def set_default_logger_callback(callback: Receiver | None, severity: int | None = None) -> None:
    """Send messages to a function instead of standard error.

    Args:
        callback: Called with severity, category, the session's ``logid``, the place in the code and the text;
            None restores standard error. What it raises is ignored.
        severity: The least severity that is sent; by default the present one.

    Raises:
        RuntimeError: It cannot be called, or there is no such severity.
    """
    if callback is not None and not callable(callback):
        raise RuntimeError(
            f"set_default_logger_callback: expected a callable or None, found {callback!r}"
        )
    if severity is not None:
        DEFAULT.severity = _severity(severity)
    DEFAULT.receiver = callback


def log(severity: int, text: str, logid: str = "", least: int = -1, place: str = "session") -> None:
    """Send a message.

    Args:
        severity: Its severity.
        text: The message.
        logid: The name that the session or run has in messages.
        least: The least severity that is sent, if not negative, instead of the default.
        place: The part of the code that says it.
    """
    if severity < (DEFAULT.severity if least < 0 else least):
        return
    if DEFAULT.receiver is not None:
        with suppress(Exception):  # a message must not end a run
            DEFAULT.receiver(severity, "workbench", logid, place, text)
    else:
        sys.stderr.write(f"[{_LETTERS[severity]}:workbench:{logid}, {place}] {text}\n")


def _severity(value: int) -> int:
    if not VERBOSE <= value <= FATAL:
        raise RuntimeError(f"Invalid logging severity: {value}; expected 0 (verbose) to 4 (fatal)")
    return int(value)
