"""Provenance of instructions: the path of names that JAX gave an operation, and the user's line of Python."""

from __future__ import annotations

import re
from typing import Any

from workbench.compiler.ir.module import SourceNode

_SHOWN = 200
_NAMED = re.compile(r'loc\((?:fused\[)?"((?:\\.|[^"\\])*)"(?!:)')
_FILE = re.compile(r'"((?:\\.|[^"\\])*)":(\d+):\d+')
_CALL = re.compile(r"^(?:jit|pjit|xla_call|core_call)\((.*)\)$")
_SEPARATOR = re.compile(r"[/\\]")
_OUTER = re.compile(r"/(?![^(\[]*[)\]])")
_PLAIN = {"closed_call", "core_closed_call", "remat", "checkpoint", ""}


class Place:
    """The place that an operation comes from, as its ``loc`` says.

    Attributes:
        path: The names that JAX gave: of functions and modules, outermost first, then of the primitive.
        line: The user's line, such as ``model.py:12``; empty if it is not known.
    """

    def __init__(self, location: Any, line: str = "") -> None:
        """The place of a location of MLIR, and the line of it if that does not say one."""
        text = str(location)
        named = _NAMED.match(text)
        self.path = tuple(_part(p) for p in _OUTER.split(named[1].rstrip(":"))) if named else ()
        file = _FILE.search(text)
        own = _SEPARATOR.split(file[1])[-1] if file else ""
        self.line = (f"line {file[2]}" if own == "-" else f"{own}:{file[2]}") if file else line

    @property
    def scope(self) -> tuple[str, ...]:
        """The names around the primitive."""
        return tuple(p for p in self.path[:-1] if p not in _PLAIN)

    @property
    def name(self) -> str:
        """The primitive's name; empty if it is not known."""
        return self.path[-1] if self.path else ""


def _part(name: str) -> str:
    called = _CALL.match(name)
    return called[1] if called else name


def argument_name(location: Any) -> str:
    """The name of an argument of a function: ``params['w']``; empty if it is not known."""
    named = _NAMED.match(str(location))
    return re.sub(r"\\(.)", r"\1", named[1]) if named else ""


def described(op: Any, place: Place | None = None) -> str:
    """An operation in messages: its name, the path of names and the user's line."""
    place = place or Place(op.location)
    path = "/".join(place.path)
    where = [f"({path})"] if path else []
    return " ".join([op.name, *where, *([f"at {place.line}"] if place.line else [])])[:_SHOWN]


def source_node(op: Any, place: Place, name: str, scope: tuple[str, ...]) -> SourceNode:
    """An operation as a source of instructions."""
    attributes = (f"{a.name}={str(a.attr)[:60]}" for a in _attributes(op) if a.name != "value")
    text = ", ".join([*([place.line] if place.line else []), *attributes])
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return SourceNode(name, op.name, scope, (), (name,), text)


class _Named:
    def __init__(self, name: str, attr: Any) -> None:
        self.name, self.attr = name, attr


def _attributes(op: Any) -> list[_Named]:
    names = list(op.attributes)
    found: list[_Named] = []
    for name in names:
        own = name if isinstance(name, str) else name.name
        if own != "value":
            found.append(_Named(own, op.attributes[own]))
    return found
