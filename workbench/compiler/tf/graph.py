"""The nodes of a graph: by name, in the order of import, and those that outputs depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from workbench.compiler.errors import ModelError
from workbench.compiler.tf.reader import Message

_ASIDE = ("NoOp", "Assert")
"""Operators that compute nothing; nodes named after one do not, either."""


def described(node: Message) -> str:
    """The name of a node in messages."""
    return f"node {node.name[:200]!r} ({node.op[:80]})"


def source_of(name: str) -> tuple[str, int]:
    """The node and the output number of an input ``name:1``."""
    node, colon, index = name.rpartition(":")
    if colon and index.isdecimal() and len(index) < 10:
        return node, int(index)
    return name, 0


def data_inputs(node: Message) -> list[str]:
    """The inputs of a node that are values; ``^name`` only orders execution."""
    return [name for name in node.input if not name.startswith("^")]


def control_inputs(node: Message) -> list[str]:
    """The names of the nodes that this one only waits for."""
    return [name[1:] for name in node.input if name.startswith("^")]


def is_aside(node: Message) -> bool:
    """Whether the node computes nothing: an assertion, or a node that only orders others."""
    return node.op in _ASIDE or any(word in node.name for word in _ASIDE)


class Graph:
    """The nodes of a graph."""

    def __init__(self, nodes: Iterable[Message], output_names: Sequence[str]) -> None:
        """Index the nodes, and find those that outputs depend on.

        Raises:
            ModelError: Names are missing or duplicated, or an output does not exist.
        """
        self.nodes: dict[str, Message] = {}
        for node in nodes:
            if not node.name or node.name in self.nodes:
                raise ModelError(f"{described(node)}: expected a unique, nonempty name")
            self.nodes[node.name] = node
        self.output_names = tuple(output_names) or tuple(self._sinks())
        for name in self.output_names:
            if source_of(name)[0] not in self.nodes:
                raise ModelError(
                    f"output name {name!r} not found in graph; "
                    f"the last node is {next(reversed(self.nodes))!r}"
                )
        self._needed = self._ancestors()

    def _sinks(self) -> Iterator[str]:
        """Nodes that no other node reads, sorted by name, except constants and assertions."""
        taken = {name.removesuffix(":0") for n in self.nodes.values() for name in n.input}
        for name in self.names():
            node = self.nodes[name]
            if not is_aside(node) and node.op != "Const" and name not in taken:
                yield name

    def names(self) -> list[str]:
        """The names of the nodes, sorted by their bytes."""
        return sorted(self.nodes, key=lambda name: name.encode("utf-8", "surrogatepass"))

    def is_needed(self, name: str) -> bool:
        """Whether an output depends on this node."""
        return name in self._needed

    def _ancestors(self) -> set[str]:
        stack = [source_of(name)[0] for name in self.output_names]
        found = set(stack)
        while stack:
            node = self.nodes[stack.pop()]
            fresh = {source_of(name)[0] for name in [*data_inputs(node), *self.gates(node)]} - found
            fresh &= self.nodes.keys()
            found |= fresh
            stack += fresh
        return found

    def gates(self, node: Message) -> list[str]:
        """The outputs of Switch nodes that a node waits for, by which it belongs to a branch."""
        return [gate for name in control_inputs(node) if (gate := self._gate(name)) is not None]

    def _gate(self, name: str) -> str | None:
        """The output of a Switch that a node passes on: control inputs name an Identity of it."""
        node = self.nodes.get(name)
        if node is None or node.op != "Identity" or not data_inputs(node):
            return None
        maker = self.nodes.get(source_of(data_inputs(node)[0])[0])
        return name if maker is not None and maker.op == "Switch" else None

    def ordered(self) -> Iterator[Message]:
        """The nodes sorted by name, but each after its inputs, depth first.

        Raises:
            ModelError: An input does not exist, or there is a cycle.
        """
        state: dict[str, int] = {}
        for name in self.names():
            if is_aside(self.nodes[name]) and name not in self._needed:
                continue
            path = [] if name in state else [(name, iter(self._makers(name)))]
            while path:
                current, makers = path[-1]
                state[current] = 1
                for maker in makers:
                    if state.get(maker) == 1:
                        raise self._cycle([n for n, _ in path], maker)
                    if maker not in state:
                        path.append((maker, iter(self._makers(maker))))
                        break
                else:
                    state[current] = 2
                    path.pop()
                    yield self.nodes[current]

    def _makers(self, name: str) -> list[str]:
        node = self.nodes[name]
        makers = [source_of(given)[0] for given in [*data_inputs(node), *self.gates(node)]]
        missing = next((m for m in makers if m not in self.nodes), None)
        if missing is not None:
            raise ModelError(
                f"{described(node)} reads {missing[:200]!r}, which is not a node of the graph; "
                "the file is damaged"
            )
        return makers

    def _cycle(self, path: list[str], start: str) -> ModelError:
        cycle = path[path.index(start) :]
        shown = " → ".join(described(self.nodes[n]) for n in [*cycle[:5], start])
        more = f" (of {len(cycle)} nodes)" if len(cycle) > 5 else ""
        return ModelError(
            f"a cycle{more}: {shown}; loops are not supported, expected a graph without cycles"
        )
