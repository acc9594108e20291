"""The order in which nodes are imported: the file's own if it is topological, otherwise a sorted one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx

from workbench.compiler.errors import ModelError


def ordered(
    nodes: Sequence[onnx.NodeProto], known: Callable[[str], bool], where: str
) -> list[tuple[int, onnx.NodeProto]]:
    """The nodes with their indices, each after the nodes whose outputs it reads.

    Args:
        nodes: The nodes of a graph, in file order.
        known: Whether a name has a value before any node runs.
        where: The graph, for messages.

    Raises:
        ModelError: Two nodes compute one value, no node computes a value that is read, or there is a cycle.
    """
    makers = _makers(nodes, where)
    seen: set[str] = set()
    is_sorted = True
    for node in nodes:
        for name in needed(node):
            if name in makers:
                is_sorted = is_sorted and name in seen
            elif not known(name):
                raise ModelError(
                    f"{where}: {described(node)} reads {name!r}, which is neither an input, "
                    "an initializer nor the output of a node; the model is damaged"
                )
        seen.update(node.output)
    return list(enumerate(nodes)) if is_sorted else _sorted(nodes, makers, where)


def described(node: onnx.NodeProto) -> str:
    """The name of a node in messages."""
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    return f"the {node.op_type} node that computes {next(iter(node.output), '')!r}"


def needed(node: onnx.NodeProto) -> Iterable[str]:
    """The names of values that a node reads, including in its subgraphs."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            yield from captured(graph)


def captured(graph: onnx.GraphProto) -> Iterable[str]:
    """The names of outer values that a subgraph captures."""
    own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    own |= {i.values.name for i in graph.sparse_initializer}
    own.update(name for node in graph.node for name in node.output)
    inner = [name for node in graph.node for name in needed(node)]
    inner += [output.name for output in graph.output]
    return dict.fromkeys(name for name in inner if name and name not in own)


def _makers(nodes: Sequence[onnx.NodeProto], where: str) -> dict[str, int]:
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers:
                first = described(nodes[makers[name]])
                raise ModelError(
                    f"{where}: {first} and {described(node)} both compute {name!r}; "
                    "expected every value to be defined once"
                )
            makers[name] = index
    return makers


def _sorted(
    nodes: Sequence[onnx.NodeProto], makers: dict[str, int], where: str
) -> list[tuple[int, onnx.NodeProto]]:
    """The nodes in reverse postorder of a depth-first search from producers to consumers."""
    consumers: list[dict[int, None]] = [{} for _ in nodes]
    for index, node in enumerate(nodes):
        for name in needed(node):
            if name in makers:
                consumers[makers[name]][index] = None
    done: list[int] = []
    state = [0] * len(nodes)
    for start in range(len(nodes)):
        path = [(start, iter(consumers[start]))] if not state[start] else []
        while path:
            current, following = path[-1]
            state[current] = 1
            for consumer in following:
                if state[consumer] == 1:
                    raise _cycle(nodes, [n for n, _ in path], consumer, where)
                if not state[consumer]:
                    path.append((consumer, iter(consumers[consumer])))
                    break
            else:
                state[current] = 2
                done.append(current)
                path.pop()
    return [(index, nodes[index]) for index in reversed(done)]


def _cycle(nodes: Sequence[onnx.NodeProto], path: list[int], start: int, where: str) -> ModelError:
    cycle = path[path.index(start) :]
    shown = " → ".join(described(nodes[i]) for i in [*cycle[:5], start])
    more = f" (of {len(cycle)} nodes)" if len(cycle) > 5 else ""
    return ModelError(f"{where}: a cycle{more}: {shown}; expected a graph without cycles")
