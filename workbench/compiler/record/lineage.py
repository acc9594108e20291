"""Lineage: which instructions compute equal values and which derive from which, read from the edits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.compiler.record.edits import Edit


@dataclass(frozen=True)
class Lineage:
    """The origins and successors of one instruction."""

    id: int
    sources: tuple[str, ...]
    """Names of the model's nodes that it was made from."""
    ancestors: tuple[int, ...]
    """Instructions of the first program that it came from; itself, if it is one of them."""
    descendants: tuple[int, ...]
    """Instructions of the last program that it became or is part of; itself, if it is one of them."""
    equals: tuple[int, ...]
    """Instructions of any step that compute the same value, including itself."""


class Relations:
    """The relations *equals* and *comes from* over all instructions of all steps."""

    def __init__(
        self, first: set[int], last: set[int], edits: Iterable[Edit], bodies: Iterable[int] = ()
    ) -> None:
        """Read the relations from the edits between a first and a last program.

        Args:
            first: Ids of the first program.
            last: Ids of the last program.
            edits: The edits between them.
            bodies: Keys of the modules of the first program that are bodies of fused operations.
        """
        self.first = first
        self.last = last
        self._value: dict[int, int] = {}
        self._parents: dict[int, dict[int, None]] = {}
        self._children: dict[int, dict[int, None]] = {}
        self._bodies = set(bodies)
        for edit in edits:
            self._read(edit)
        self._classes: dict[int, list[int]] = {}
        for id in self._value:
            self._classes.setdefault(self.value_of(id), []).append(id)

    def _read(self, edit: Edit) -> None:
        for old, new in edit.replaced:
            self._unite(old, new)
            self._descend(old, new)
        for parent in edit.removed:
            for child in edit.added:
                self._descend(parent, child)
        self._enter_bodies(edit)

    def _enter_bodies(self, edit: Edit) -> None:
        """Relate instructions that an edit moved into a body, or removed, to the fused operation."""
        rows = [row for row in edit.rows.values() if row is not None]
        for key, held in edit.modules.items():
            if held is not None and held.bypass:
                self._bodies.add(key)
        for kernel in rows:
            for key in self._bodies.intersection(kernel.modules):
                for parent in edit.removed:
                    self._descend(parent, kernel.id)
                for part in rows:
                    if part.module == key and not part.op.name.startswith("@"):
                        self._descend(part.id, kernel.id)

    def _descend(self, parent: int, child: int) -> None:
        self._parents.setdefault(child, {})[parent] = None
        self._children.setdefault(parent, {})[child] = None

    def _unite(self, old: int, new: int) -> None:
        a, b = self.value_of(old), self.value_of(new)
        self._value[max(a, b)] = min(a, b)
        self._value.setdefault(min(a, b), min(a, b))

    def value_of(self, id: int) -> int:
        """The smallest id of the instructions that compute the same value, which identifies the value."""
        root = id
        while (up := self._value.get(root, root)) != root:
            root = up
        while (up := self._value.get(id, id)) != root:
            self._value[id] = root
            id = up
        return root

    def equals(self, id: int) -> tuple[int, ...]:
        """The ids of all steps that compute the same value as ``id``."""
        return tuple(sorted({id, *self._classes.get(self.value_of(id), ())}))

    def originals(self, id: int) -> tuple[int, ...]:
        """The ids of the first program's instructions that compute the same value as ``id``."""
        return tuple(equal for equal in self.equals(id) if equal in self.first)

    def related(self, id: int) -> set[int]:
        """The ids of all steps that an instruction came from, became, or computes the same value as."""
        return {
            *_closure(id, self._parents),
            *_closure(id, self._children),
            *self.equals(id),
        }

    def lineage(self, id: int, sources: tuple[str, ...]) -> Lineage:
        """The lineage of an instruction."""
        past = _closure(id, self._parents)
        future = _closure(id, self._children)
        return Lineage(
            id,
            sources,
            tuple(sorted(past & self.first)),
            tuple(sorted(future & self.last)),
            self.equals(id),
        )


def _closure(start: int, edges: dict[int, dict[int, None]]) -> set[int]:
    found = {start}
    stack = [start]
    while stack:
        for following in edges.get(stack.pop(), ()):
            if following not in found:
                found.add(following)
                stack.append(following)
    return found
