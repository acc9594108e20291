"""Branches of Switch and Merge whose predicate is constant, as of a dropout that inference leaves out."""

from __future__ import annotations

from workbench.compiler.tf.graph import Graph, data_inputs, source_of
from workbench.compiler.tf.reader import Message


class Branches:
    """The outputs of Switch nodes that get no value, and the nodes that therefore do not run."""

    def __init__(self, graph: Graph) -> None:
        """Start with every node running."""
        self._graph = graph
        self._closed: set[tuple[str, int]] = set()
        self._idle: set[str] = set()

    def close(self, name: str, output: int) -> None:
        """Record that an output of a Switch gets no value."""
        self._closed.add((name, output))

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
