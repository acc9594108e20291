"""Selectors: texts, patterns and ids that choose instructions of a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from typing import TypeAlias

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program

Selector: TypeAlias = str | int | re.Pattern[str]
"""The choice of some instructions, in one of these forms:

* a node's name, exactly: ``"/layer.2/ln2/Mul"``;
* a scope: leading components of a node's name or of its scope, joined by ``/`` or ``.``: ``"layer.2"``.
  With a ``/`` at the end it is never read as a node's name;
* ``"op:softmax"``: an operation's name; ``"op:Softmax"``: the type of a node of the model;
* ``"is:residual"``: the sums of residual connections: of two computed values, or of what goes into such
  a sum, that several values read;
* a compiled regular expression, or ``"re:ln[12]"``: searched in names of nodes;
* an instruction's id.

An instruction is in the scopes of each node that it comes from. An operation that calls modules is
selected together with all that they contain.
"""
Selectors: TypeAlias = Selector | Iterable[Selector]

_RESIDUAL = "is:residual"

_FORMS = (
    "expected a node's name, a scope, 'op:NAME', 'is:residual', 're:PATTERN', a compiled pattern, or an "
    "instruction's id"
)


def selectors_of(given: Selectors) -> tuple[Selector, ...]:
    """One selector, or any collection of them, as a tuple; texts in a set are put in order.

    Raises:
        OperationError: One of them is something else, or not a regular expression.
    """
    if isinstance(given, str | int | re.Pattern):
        return _checked((given,))
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperationError(f"selector {given!r}; {_FORMS}")
    is_set = isinstance(given, set | frozenset)
    return _checked(tuple(sorted(given, key=str) if is_set else given))


def _checked(selectors: tuple[Selector, ...]) -> tuple[Selector, ...]:
    for one in selectors:
        if not isinstance(one, str | int | re.Pattern) or isinstance(one, bool) or one == "":  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperationError(f"selector {one!r}; {_FORMS}")
        if isinstance(one, re.Pattern) and not isinstance(one.pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperationError(f"selector {one!r} matches bytes; expected a pattern of text")
        if isinstance(one, str) and one.startswith("re:"):
            _pattern(one)
    return selectors


def _pattern(selector: str) -> re.Pattern[str]:
    try:
        return re.compile(selector[3:])
    except re.error as error:
        raise OperationError(f"selector {selector!r}: not a regular expression: {error}") from error


def select(program: Program, selectors: Selectors) -> frozenset[int]:
    """The ids of the instructions that at least one selector chooses.

    Parameters, constants and the bodies of fused operations are never chosen.

    Raises:
        OperationError: A selector is malformed, or chooses nothing; the message has near names.
    """
    chosen = selectors_of(selectors)
    return Selectable(program).select(chosen) if chosen else frozenset()


class Selectable:
    """The instructions of a program that can be selected, and the names by which they are."""

    def __init__(self, program: Program) -> None:
        """Index the program as it is now."""
        self.program = program
        modules = [m for m in program.reachable_modules() if not m.bypass]
        self.instructions = [i for m in modules for i in m if not i.name.startswith("@")]
        self.by_id = {i.id: i for i in self.instructions}
        self.names: dict[str, list[Instruction]] = {}
        for instruction in self.instructions:
            for name in instruction.sources:
                self.names.setdefault(name, []).append(instruction)
        self._spelled: dict[str, frozenset[str]] = {}

    def select(self, selectors: Iterable[Selector]) -> frozenset[int]:
        """The ids of the instructions that at least one selector chooses.

        Raises:
            OperationError: A selector chooses nothing.
        """
        return frozenset(id for s in selectors for i in self._find(s) for id in _within(i))

    @cached_property
    def scopes(self) -> frozenset[str]:
        """All scopes, in all spellings."""
        return frozenset(s for name in self.names for s in self._scopes(name))

    def _find(self, selector: Selector) -> list[Instruction]:
        if isinstance(selector, int):
            found = [self.by_id[selector]] if selector in self.by_id else []
        elif isinstance(selector, str) and selector in self.names:
            return self.names[selector]
        else:
            found = list(filter(self._test(selector), self.instructions))
        if not found:
            raise OperationError(self._complaint(selector))
        return found

    def _test(self, selector: str | re.Pattern[str]) -> Callable[[Instruction], bool]:
        if isinstance(selector, re.Pattern):
            return lambda i: any(selector.search(n) for n in i.sources)
        if selector.startswith("re:"):
            return self._test(_pattern(selector))
        if selector.startswith("op:"):
            return lambda i: selector[3:] in self._operations(i)
        if selector == _RESIDUAL:
            return _is_residual
        wanted = selector.strip("/")
        return lambda i: any(wanted in self._scopes(n) for n in i.sources)

    def _operations(self, instruction: Instruction) -> Iterator[str]:
        """The operation's name, and the types of the nodes that it comes from."""
        nodes = self.program.source_nodes
        yield instruction.name
        yield from (nodes[n].op_type for n in instruction.sources if n in nodes)

    def _scopes(self, name: str) -> frozenset[str]:
        """The scopes of a node, each in all spellings."""
        if name not in self._spelled:
            node = self.program.source_nodes.get(name)
            paths = [tuple(name.split("/" if "/" in name else ".")), node.scope if node else ()]
            self._spelled[name] = frozenset(s for path in paths for s in _spellings(path))
        return self._spelled[name]

    def _complaint(self, selector: Selector) -> str:
        said = f"selector {selector!r} chooses no instruction that computes"
        if selector == _RESIDUAL:
            return f"{said}: no sum of two computed values is read by several others"
        others = [i for i in self.program.instructions if i.id not in self.by_id]
        if given := next((i for i in others if _is_named(i, selector)), None):
            return f"{said}: it names a parameter, a constant or a part of a kernel, {given!r}"
        if isinstance(selector, int):
            return f"{said}; such an id is one of {', '.join(map(str, list(self.by_id)[:6]))}, …"
        near = self._near(selector.pattern if isinstance(selector, re.Pattern) else selector)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        return f"{said}; {hint}{_FORMS}"

    def _near(self, text: str) -> list[str]:
        known = self._known("op:" if text.startswith("op:") else "")
        text = text.removeprefix("re:")
        inside = [k for k in known if text.lower() in k.lower()]
        return list(dict.fromkeys([*get_close_matches(text, known, 3), *inside]))[:3]

    def _known(self, prefix: str) -> list[str]:
        if prefix:
            return list(
                dict.fromkeys(prefix + n for i in self.instructions for n in self._operations(i))
            )
        return list(dict.fromkeys([*self.names, *sorted(self.scopes)]))


def _is_residual(instruction: Instruction) -> bool:
    """Whether it is a sum that several values read, of two computed values or on the way to such a sum."""
    shared = instruction.name == "add" and len(instruction.users) > 1
    return shared and any(map(_adds_computed, (instruction, *instruction.users)))


def _adds_computed(instruction: Instruction) -> bool:
    return instruction.name == "add" and not any(i.is_constant for i in instruction.inputs)


def _is_named(instruction: Instruction, selector: Selector) -> bool:
    return selector in (instruction.id, instruction.parameter, *instruction.sources)


def _spellings(path: tuple[str, ...]) -> Iterator[str]:
    """The leading parts of a path, joined by slashes and by dots."""
    parts = [p.strip("/") for p in path if p.strip("/")]
    for depth in range(1, len(parts) + 1):
        yield "/".join(parts[:depth])
        yield ".".join(parts[:depth])


def _within(instruction: Instruction) -> Iterator[int]:
    """The id of an instruction, and those of all in the modules that it calls."""
    yield instruction.id
    for module in instruction.modules:
        for inner in () if module.bypass else module:
            yield from _within(inner)
