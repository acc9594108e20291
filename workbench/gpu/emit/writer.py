"""A writer of C that remembers the values of each scope, so that nothing is computed twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from workbench.gpu.emit.index import Index, Variable

T = TypeVar("T")
_TYPES = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"})
"""The types that every dialect defines."""
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class _Line:
    text: str | Callable[[], str]
    """The statement, or a function that returns it once all lines are written."""
    depth: int
    defines: str | None = None
    """The variable that the line defines; the line is dropped if nothing reads it."""


class Writer:
    """Writes the body of one function.

    Args:
        integer_type: The type of index variables: ``i32``, or ``i64`` if a tensor is too large for it.
    """

    def __init__(self, integer_type: str = "i32") -> None:
        """Start an empty function."""
        self.integer_type = integer_type
        self.definitions: dict[str, None] = {}
        """Definitions of functions and types that the lines use, in order."""
        self._lines: list[_Line] = []
        self._scopes: list[dict[Hashable, object]] = [{}]
        self._counts: dict[str, int] = {}

    # Names and lines

    def name(self, prefix: str = "v") -> str:
        """A new name."""
        count = self._counts[prefix] = self._counts.get(prefix, -1) + 1
        name = f"{prefix}{count}"
        return name if name not in _TYPES else self.name(prefix)

    def line(self, text: str) -> None:
        """Write a statement."""
        self._lines.append(_Line(text, len(self._scopes)))

    def need(self, definition: str) -> None:
        """Add a definition of a function or type before the kernel."""
        self.definitions.setdefault(definition)

    def define(self, type: str, value: str | Callable[[], str], prefix: str = "v") -> str:
        """A new constant of this scope; it is dropped at the end if nothing reads it.

        Args:
            type: Its C type.
            value: Its value, or a function that returns it once all lines are written.
            prefix: The start of its name.
        """
        name = self.name(prefix)

        def text() -> str:
            return f"const {type} {name} = {value if isinstance(value, str) else value()};"

        self._lines.append(_Line(text, len(self._scopes), defines=name))
        return name

    def let(self, type: str, value: str, prefix: str = "v") -> str:
        """A constant that holds a value; an earlier one of this scope is reused.

        The expression must not name a variable that changes.
        """
        return self.once((type, value), lambda: self.define(type, value, prefix))

    def integer(self, text: str) -> str:
        """A constant that holds an integer expression."""
        return self.let(self.integer_type, text, "i")

    def variable(self, type: str, value: str, prefix: str = "a") -> str:
        """A new variable that later lines change."""
        name = self.name(prefix)
        self.line(f"{type} {name} = {value};")
        return name

    def array(self, type: str, count: int, prefix: str = "r", space: str = "") -> str:
        """A new array: private to a work item, or shared by the block if ``space`` is SHARED."""
        name = self.name(prefix)
        self.line(f"{space} {type} {name}[{count}];".strip())
        return name

    # Scopes

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key in this scope or an enclosing one; the result of ``make`` if there is none."""
        for scope in reversed(self._scopes):
            if key in scope:
                return cast("T", scope[key])
        made = self._scopes[-1][key] = make()
        return made

    def recalled(self, key: Hashable) -> Any:
        """The value for a key in this scope or an enclosing one; None if there is none."""
        return next((scope[key] for scope in reversed(self._scopes) if key in scope), None)

    def remember(self, key: Hashable, value: object) -> None:
        """Set the value for a key until the scope ends."""
        self._scopes[-1][key] = value

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """A compound statement: ``head {`` … ``}``."""
        self.line(f"{head} {{")
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()
            self.line("}")

    @contextmanager
    def fresh(self) -> Generator[None]:
        """A scope whose values are not reused by later statements, e.g. where an array changes."""
        with self.block(""):
            yield

    @contextmanager
    def loop(
        self,
        count: int,
        start: str = "0",
        step: str = "1",
        prefix: str = "l",
        unroll: bool = False,
        end: str = "",
    ) -> Generator[Index]:
        """A loop over ``start``, ``start + step``, … below ``count``, or ``end``; yields the index."""
        name = self.name(prefix)
        if unroll:
            self.line("UNROLL")
        type = self.integer_type
        bump = f"++{name}" if step == "1" else f"{name} += {step}"
        with self.block(f"for ({type} {name} = {start}; {name} < {end or count}; {bump})"):
            yield Index.of(Variable(name, 0, max(count - 1, 0)))

    # The result

    def text(self, indent: int = 1) -> str:
        """The lines, without constants that nothing reads."""
        used: set[str] = set()
        kept: list[str] = []
        for line in reversed(self._lines):
            if line.defines is not None and line.defines not in used:
                continue
            text = line.text if isinstance(line.text, str) else line.text()
            used.update(_WORD.findall(text))
            kept.append("  " * (line.depth + indent - 1) + text)
        return "\n".join(reversed(kept))
