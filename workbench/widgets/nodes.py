"""Nodes of a graph view: one per drawn instruction, with chips in place of long edges, in tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

WEIGHTS = frozenset({"", "Initializer", "Constant"})


class Chip(NamedTuple):
    """A small label on a node, in place of an edge from a constant or from a value with many users."""

    label: str
    id: int
    port: bool


class Look(NamedTuple):
    """The words of a node. Equal instructions of many layers share one look."""

    title: str
    fact: str
    family: str
    shape: str
    text: str


class Node(NamedTuple):
    """One drawn instruction. Equal nodes look equal; a changed one is a new version of the same id."""

    id: int
    module: int
    look: Look
    inputs: tuple[int, ...]
    chips: tuple[Chip, ...]
    arguments: tuple[int, ...]
    sources: tuple[str, ...]
    bodies: tuple[int, ...]

    @property
    def title(self) -> str:
        """The operation, or the name of a parameter."""
        return self.look.title

    @property
    def fact(self) -> str:
        """The one fact that distinguishes it."""
        return self.look.fact

    @property
    def family(self) -> str:
        """The family of the operation, which gives the colour."""
        return self.look.family

    @property
    def shape(self) -> str:
        """The shape of the result as text."""
        return self.look.shape

    @property
    def text(self) -> str:
        """The operation with its attributes as text."""
        return self.look.text


@dataclass
class Table:
    """The rows of one program: its nodes in order, and its hoisted constants."""

    name: str = ""
    order: list[int] = field(default_factory=list[int])
    nodes: dict[int, Node] = field(default_factory=dict[int, Node])
    hoisted: dict[int, Node] = field(default_factory=dict[int, Node])
    callers: list[int] = field(default_factory=list[int])
    """The ids of those that take modules, in order."""
    modules: dict[int, str] = field(default_factory=dict[int, str])
    source_nodes: dict[str, Any] = field(default_factory=dict[str, Any])
    gradients: dict[int, int] = field(default_factory=dict[int, int])
    """The gradients of values, as ids of both."""
    fresh: set[int] = field(default_factory=set[int], compare=False)
    """The ids of which the nodes may not be those of the table that this one was made from."""
    mark: object = field(default_factory=object, compare=False)
    """It stands for this table in those that are made from it."""
    since: object = field(default=None, compare=False)
    """The mark of the table that this one was made from."""

    def node(self, id: int) -> Node | None:
        """The node or hoisted constant of that id."""
        return self.nodes.get(id) or self.hoisted.get(id)

    def count(self) -> int:
        """The number of instructions in the main module."""
        both = (*self.nodes.values(), *self.hoisted.values())
        return sum(n.module == 0 for n in both)


def is_weight(source: Any) -> bool:
    """Whether a source node is a constant of the model, whose name labels the literal."""
    return getattr(source, "op_type", "") in WEIGHTS
