"""Calls and loops of subgraphs: a call is inlined, a loop has a module for its body."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.lowering.effects import Effects, Place, uses_of
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.module import Module

if TYPE_CHECKING:
    from workbench.compat.popart.lowering.frame import Frame


@dataclass(frozen=True)
class Binding:
    """The results of a call: the graph's outputs, then the new values of the inputs that it changed."""

    outputs: list[Value]
    modified: list[Value]


def called(frame: Frame, op: Op) -> Binding:
    """Inline the graph that an operation calls."""
    from workbench.compat.popart.lowering.frame import Frame  # noqa: PLC0415 - frames make calls

    graph = op.called_graphs[0]
    inputs = dict(zip(graph.get_input_tensors(), frame.inputs_of(op), strict=True))
    inner = Frame(graph, frame.builder, frame.effects, inputs)
    inner.run()
    outputs = [inner.read(t) for t in graph.get_output_tensors()]
    return Binding(outputs, [inner.read(graph.get_input_tensors()[k]) for k in op.modifies])


def repeated(frame: Frame, op: Op) -> Binding:
    """Run the graph of a loop so many times, its outputs becoming its first inputs."""
    graph, count = op.called_graphs[0], op.attributes["repeat_count"]
    uses, effects = uses_of(graph), frame.effects
    first = {s: effects.row(s) for s in uses.transfers}
    varying = {s: v for s, v in first.items() if isinstance(v, Value)}
    state = [effects.contents[p] for p in uses.places]
    given = frame.inputs_of(op)
    carried = [*state, *varying.values(), *given]
    body = _Body(graph, op, uses.places, first, uses.transfers)
    found = _loop(frame.builder, body, count, carried)
    for place, value in zip(uses.places, found, strict=False):
        effects.contents[place] = value
    for stream, per_iteration in uses.transfers.items():
        effects.done[stream] += per_iteration * count
    values = found[len(state) + len(varying) :]
    outputs = values[: len(graph.get_output_tensors())]
    return Binding(outputs, [values[k] for k in op.modifies])


@dataclass(frozen=True)
class _Body:
    """One iteration of a loop: from the values that it begins with to those that it ends with."""

    graph: Graph
    op: Op
    places: tuple[Place, ...]
    first: dict[Place, int | Value]
    transfers: Counter[Place]

    def values(self, builder: LineBuilder, iteration: Value, given: list[Value]) -> list[Value]:
        """Append one iteration; the carried values at its end."""
        from workbench.compat.popart.lowering.frame import Frame  # noqa: PLC0415 - frames make calls

        rest = iter(given)
        contents = {place: next(rest) for place in self.places}
        starts = {s: v if isinstance(v, int) else next(rest) for s, v in self.first.items()}
        varying = [v for v in starts.values() if isinstance(v, Value)]
        rows = {s: iteration * self.transfers[s] + v for s, v in starts.items()}
        inputs = dict(zip(self.graph.get_input_tensors(), rest, strict=True))
        inner = Frame(self.graph, builder, Effects(contents, rows), inputs)
        inner.run()
        values = [contents[place] for place in self.places]
        return [*values, *varying, *self._next(inner, inputs)]

    def _next(self, inner: Frame, inputs: dict) -> list[Value]:
        """The inputs of the next iteration."""
        outputs = self.graph.get_output_tensors()
        found = [inner.read(t) for t in outputs]
        for k, tensor in enumerate(inputs):
            if k >= len(outputs):
                found.append(inner.read(tensor) if k in self.op.modifies else inputs[tensor])
        return found


def _loop(builder: LineBuilder, body: _Body, count: int, carried: list[Value]) -> list[Value]:
    """The carried values after all iterations, by the core's loop."""
    module = new_module(builder, body.graph)
    inner = type(builder).of(module)
    iteration = inner.input("iteration", (), "int64")
    condition = inner.input("condition", (), "bool")
    given = [inner.input(f"carried{k}", v.instruction.shape.as_standard()) for k, v in enumerate(carried)]
    inner.program(condition, *body.values(inner, iteration, given))
    limits = [builder.constant(count, "int64"), builder.constant(True, "bool")]
    inputs = [v.instruction for v in (*limits, *carried)]
    outer = builder.module
    loop = outer.add("loop", *inputs, modules=[module], max_iterations=count)
    return [
        Value(builder, outer.add("get_tuple_elem", loop, index=k)) for k in range(len(carried))
    ]


def new_module(builder: LineBuilder, graph: Graph) -> Module:
    """A module of the program with a graph's name."""
    program = builder.module.program
    name, number = graph.name, 1
    while name in program.modules:
        number += 1
        name = f"{graph.name}:{number}"
    return program.create_module(name)
