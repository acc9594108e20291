"""Branches of Switch and Merge: one that a constant predicate takes, or both of a predicate that is fed."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.graph import Graph, data_inputs, source_of
from workbench.compiler.tf.reader import Message


class Branches:
    """The outputs of Switch nodes that get no value, and the nodes that therefore do not run."""

    def __init__(self, graph: Graph) -> None:
        """Start with every node running."""
        self._graph = graph
        self._closed: set[tuple[str, int]] = set()
        self._idle: set[str] = set()
        self._predicates: dict[str, Instruction] = {}
        """Predicates that are known at run time, by the name of their Switch."""

    def close(self, name: str, output: int) -> None:
        """Record that an output of a Switch gets no value."""
        self._closed.add((name, output))

    def keep_both(self, name: str, predicate: Instruction) -> None:
        """Record that both outputs of a Switch get the value, and a predicate chooses at run time."""
        self._predicates[name] = predicate

    def deciding(self, node: Message) -> tuple[Instruction, bool] | None:
        """The predicate by which a Merge chooses from two inputs, and whether it is true for the first.

        None if no predicate has one of them on one branch only, and the other on the other.
        """
        names = data_inputs(node)
        first, second = (self._sides(names[i]) for i in self.taken(node))
        for predicate, sides in first.items():
            if len(sides) == 1 and second.get(predicate) == {1 - k for k in sides}:
                return predicate, sides == {1}
        return None

    def _sides(self, name: str) -> dict[Instruction, set[int]]:
        """The branches that a value depends on, by predicate: 1 is the one where it is true."""
        found: dict[Instruction, set[int]] = {}
        stack, seen = [name], set[str]()
        while stack:
            maker, output = source_of(stack.pop())
            node = self._graph.nodes.get(maker)
            if maker in self._predicates:
                found.setdefault(self._predicates[maker], set()).add(output)
            if node is not None and f"{maker}:{output}" not in seen:
                seen.add(f"{maker}:{output}")
                stack += [*data_inputs(node), *self._graph.gates(node)]
        return found

    def is_idle(self, name: str) -> bool:
        """Whether a node is on a branch that is not taken."""
        return name in self._idle

    def taken(self, node: Message) -> list[int]:
        """The numbers of the inputs that get a value."""
        return [i for i, name in enumerate(data_inputs(node)) if self._gets_value(name)]

    def runs(self, node: Message) -> bool:
        """Whether a node runs: all its inputs get a value, or one input of a Merge does."""
        taken = self.taken(node)
        found = bool(taken) if node.op == "Merge" else len(taken) == len(data_inputs(node))
        found = found and all(map(self._gets_value, self._graph.gates(node)))
        if not found:
            self._idle.add(node.name)
        return found

    def _gets_value(self, name: str) -> bool:
        source = source_of(name)
        return source not in self._closed and source[0] not in self._idle
