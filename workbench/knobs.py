"""Every option and environment variable of the workbench, once, with its type and meaning.

Read one as an attribute (`knobs.validate`); `with knobs.scope(validate=True):` sets it for a block.
The environment gives the value at each read, unless a scope or an assignment has set it.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

_YES = {"1", "true", "yes", "on"}
_NO = {"", "0", "false", "no", "off"}


class OptionError(ValueError):
    """An environment variable that holds what its option cannot be."""


class Knob(Generic[T]):
    """One option: its environment variable, type, default and what it does.

    Args:
        variable: Name of the environment variable.
        default: The value when nothing is set.
        parse: Turns the variable's text into a value; raises `ValueError` where it cannot.
        help: What it does, in one sentence.
    """

    def __init__(self, variable: str, default: T, parse: Callable[[str], T], help: str) -> None:
        self.variable = variable
        self.default = default
        self.parse = parse
        self.help = help
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, knobs: None, owner: type) -> "Knob[T]": ...
    @overload
    def __get__(self, knobs: "Knobs", owner: type) -> T: ...
    def __get__(self, knobs: "Knobs | None", owner: type) -> "Knob[T] | T":
        if knobs is None:
            return self
        if self.name in knobs.overrides:
            return knobs.overrides[self.name]
        return self.from_environment()

    def __set__(self, knobs: "Knobs", value: T) -> None:
        knobs.overrides[self.name] = value

    def from_environment(self) -> T:
        """The variable's value, or the default where it is not set.

        Raises:
            OptionError: The variable holds something that this option cannot be.
        """
        text = os.environ.get(self.variable)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(f"{self.variable}={text!r}: {error}") from error


def flag(text: str) -> bool:
    """Parses the text of a yes-or-no variable."""
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise ValueError("expected 1 or 0 (true, yes, on; false, no, off)")
    return word in _YES


def count(text: str) -> int:
    """Parses the text of a variable that holds how many."""
    number = int(text)
    if number < 0:
        raise ValueError("expected 0 or more")
    return number


class Knobs:
    """The options. There is one instance, `knobs`."""

    validate = Knob(
        "WORKBENCH_VALIDATE",
        default=False,
        parse=flag,
        help="Check the whole program after every pass, and name the pass that broke it.",
    )
    static = Knob(
        "WORKBENCH_STATIC",
        default=False,
        parse=flag,
        help="Show static pictures in notebooks in place of widgets.",
    )
    progress = Knob(
        "WORKBENCH_PROGRESS",
        default=True,
        parse=flag,
        help="Show a progress bar when a run is long.",
    )
    threads = Knob(
        "WORKBENCH_THREADS",
        default=0,
        parse=count,
        help="Threads that share work on a large array in the reference; 0 is one a core.",
    )
    display = Knob(
        "DISPLAY", default="", parse=str, help="The X display that a browser can open on."
    )
    wayland_display = Knob(
        "WAYLAND_DISPLAY",
        default="",
        parse=str,
        help="The Wayland display that a browser can open on.",
    )

    def __init__(self) -> None:
        self.overrides: dict[str, Any] = {}

    @classmethod
    def all(cls) -> list[Knob[Any]]:
        """Every option, in the order of this file."""
        return [knob for knob in vars(cls).values() if isinstance(knob, Knob)]

    @contextmanager
    def scope(self, **values: object) -> Generator[None]:
        """Sets options for the length of a `with` block.

        Args:
            **values: Options by name, e.g. `validate=True`.

        Raises:
            TypeError: There is no option of that name.
        """
        known = {knob.name for knob in self.all()}
        if unknown := sorted(set(values) - known):
            raise TypeError(f"no option {unknown[0]!r}; the options are {', '.join(sorted(known))}")
        before = dict(self.overrides)
        self.overrides.update(values)
        try:
            yield
        finally:
            self.overrides = before

    def table(self) -> str:
        """Every option as a Markdown table: name, variable, default, meaning."""
        rows = ["| option | environment variable | default | what it does |", "|---|---|---|---|"]
        rows += [f"| `{k.name}` | `{k.variable}` | `{k.default}` | {k.help} |" for k in self.all()]
        return "\n".join(rows)


knobs = Knobs()
"""The options, e.g. `knobs.validate`."""
