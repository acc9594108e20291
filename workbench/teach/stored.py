"""The stored form of an exercise: what Python says to likely answers, for pages that have no Python.

What is said is sealed by the answer that it belongs to, and answers are listed by their hashes. So a glance
at the source of a page does not tell the answers; it is no protection against one who breaks them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import WorkbenchError
from workbench.widgets.saved import NOTHING, saved

if TYPE_CHECKING:
    from workbench.teach.exercise import Exercise

ENTRY = "exercise.js"
MOST = 400
"""Most answers that are stored."""
_WORD = (1 << 32) - 1


@dataclass(frozen=True)
class Asked:
    """An exercise as a page without Python asks it."""

    likely: Iterable[Any]
    """Answers whose feedback is stored."""
    otherwise: str
    """The feedback to any other answer."""
    choices: tuple[str, ...] = ()
    digits: int | None = None
    """Digits after the point to which numbers are rounded, in scientific notation; None for other answers."""
    is_click: bool = False
    """Whether the answer is the instruction that is selected in the exercise's view."""


def stored(exercise: Exercise) -> dict[str, Any]:
    """The saved form of an exercise, below the view that it asks for a click in."""
    try:
        asked = exercise.on_page()
        told = [] if asked is None else _told(exercise, asked)
    except WorkbenchError:  # its truth is not known yet
        asked, told = None, []
    form = NOTHING if exercise.view is None else saved([exercise.view])
    own = {"entry": ENTRY, "values": _values(exercise, asked, told), "answers": {}}
    return {**form, "views": [*form["views"], own]}


def _told(exercise: Exercise, asked: Asked) -> list[tuple[str, str]]:
    """Likely answers with the feedback to each, which begins with 1 where it is right and 0 where not."""
    found: list[tuple[str, str]] = []
    for given in islice(asked.likely, MOST):
        feedback = exercise.feedback(given)
        found.append((key_of(given, asked.digits), f"{int(feedback.right)}{feedback.message}"))
    return found


def _values(exercise: Exercise, asked: Asked | None, told: list[tuple[str, str]]) -> dict[str, Any]:
    salt = sha256(f"{exercise.name}\n{exercise.question}".encode()).hexdigest()[:8]
    by = "code" if asked is None else "click" if asked.is_click else "field"
    note = {
        "code": _needs_python(exercise),
        "click": "Click a node of the graph above.",
        "field": "",
    }
    return {
        "question": exercise.question,
        "by": by,
        "note": note[by],
        "choices": None if asked is None or not asked.choices else list(asked.choices),
        "digits": None if asked is None else asked.digits,
        "otherwise": "" if asked is None else asked.otherwise,
        "salt": salt,
        "hints": [seal(hint, salt) for hint in exercise.hints],
        "sealed": {str(digest(salt + key)): seal(words, key + salt) for key, words in told},
    }


def _needs_python(exercise: Exercise) -> str:
    from IPython.core.getipython import get_ipython  # noqa: PLC0415

    names: dict[str, Any] = getattr(get_ipython(), "user_ns", {})
    name = next((n for n, v in names.items() if v is exercise and n[0] != "_"), "exercise")
    return (
        "This exercise needs Python, which runs your answer. Open the lesson as a notebook and run "
        f"`{name}.answer(…)`; it takes {exercise.expects}."
    )


def key_of(given: Any, digits: int | None) -> str:
    """The form in which equal answers are equal: a text without spaces and case, a number rounded."""
    if digits is None:
        return re.sub(r"\s", "", str(given)).lower()
    return re.sub(r"e([+-])0*(?=\d)", r"e\1", f"{float(given):.{digits}e}")


def digest(text: str) -> int:
    """A number of 32 bits that follows from a text."""
    return next(_stream(text))


def seal(text: str, key: str) -> str:
    """A text that can be read with its key."""
    return base64.b64encode(mixed(text.encode(), key)).decode()


def mixed(data: bytes, key: str) -> bytes:
    """Bytes mixed with those that follow from a key; mixed once more, they are as before."""
    return bytes(byte ^ number >> 24 for byte, number in zip(data, _stream(key), strict=False))


def _stream(text: str) -> Iterator[int]:
    """Numbers that follow from a text and look random; exercise.js computes the same."""
    state = 2166136261
    for character in text:
        state = (state ^ ord(character)) * 16777619 & _WORD
    while True:
        state = ((state ^ state >> 15) * 2246822519 + 374761393) & _WORD
        yield state
