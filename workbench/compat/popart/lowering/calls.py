"""Calls and loops of subgraphs: a call is inlined, a loop has a module for its body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.streams import Stream
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.lowering.effects import Effects, Place, uses_of
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.module import Module

if TYPE_CHECKING:
    from workbench.compat.popart.lowering.frame import Frame, Lane


@dataclass(frozen=True)
class Binding:
    """The results of a call: the graph's outputs, then the new values of the inputs that it changed."""

    outputs: list[Value]
    modified: list[Value]


def _inputs(op: Op, lane: Lane) -> dict[Tensor, Value]:
    """The values of a callee's inputs.

    Raises:
        popart_exception: The call leaves some out.
    """
    wanted = op.called_graphs[0].get_input_tensors()
    if len(wanted) != len(op.inputs):
        raise popart_exception(
            f"{op!r}: {len(op.inputs)} of the {len(wanted)} inputs of {op.called_graphs[0].name} are given"
        )
    return dict(zip(wanted, lane.inputs_of(op), strict=True))


def called(frame: Frame, op: Op) -> list[Binding]:
    """Inline the graph that an operation calls; the results for each lane."""
    from workbench.compat.popart.lowering.frame import Frame, Lane  # noqa: PLC0415 - they make calls

    graph = op.called_graphs[0]
    lanes = [Lane(frame.builder, lane.effects, _inputs(op, lane)) for lane in frame.lanes]
    Frame(graph, frame.builder, lanes).run()
    inputs, outputs = graph.get_input_tensors(), graph.get_output_tensors()
    return [
        Binding([lane.read(t) for t in outputs], [lane.read(inputs[k]) for k in op.modifies])
        for lane in lanes
    ]


def repeated(frame: Frame, op: Op) -> list[Binding]:
    """Run the graph of a loop so many times, its outputs becoming its first inputs."""
    graph, count = op.called_graphs[0], op.attributes["repeat_count"]
    uses = uses_of(graph)
    first = {s: frame.lanes[0].effects.row(s) for s in uses.transfers}
    body = _Body(graph, op, uses.places, first, uses.transfers, len(frame.lanes))
    varying = [v for v in first.values() if isinstance(v, Value)]
    carried = list(varying)
    for lane in frame.lanes:
        carried += [lane.effects.contents[p] for p in uses.places]
        carried += _inputs(op, lane).values()
    found = iter(_loop(frame.builder, body, count, carried)[len(varying) :])
    bindings: list[Binding] = []
    for lane in frame.lanes:
        for place in uses.places:
            lane.effects.contents[place] = next(found)
        for stream, per_iteration in uses.transfers.items():
            lane.effects.done[stream] += per_iteration * count
        values = [next(found) for _ in op.inputs]
        bindings.append(Binding(values[: len(op.outputs)], [values[k] for k in op.modifies]))
    return bindings


@dataclass(frozen=True)
class _Body:
    """One iteration of a loop: from the values that it begins with to those that it ends with."""

    graph: Graph
    op: Op
    places: tuple[Place, ...]
    first: dict[Stream, int | Value]
    """The number of the first row of each stream; a value is the first thing carried."""
    transfers: Counter[Stream]
    lanes: int

    def values(self, builder: LineBuilder, iteration: Value, given: Sequence[Value]) -> list[Value]:
        """Append one iteration; the carried values at its end."""
        from workbench.compat.popart.lowering.frame import Frame, Lane  # noqa: PLC0415 - they make calls

        rest = iter(given)
        starts = {s: v if isinstance(v, int) else next(rest) for s, v in self.first.items()}
        rows = {s: iteration * self.transfers[s] + v for s, v in starts.items()}
        lanes: list[Lane] = []
        wanted = self.graph.get_input_tensors()
        for _ in range(self.lanes):
            effects = Effects({place: next(rest) for place in self.places}, dict(rows))
            lanes.append(Lane(builder, effects, {t: next(rest) for t in wanted}))
        before = [[lane.read(t) for t in wanted] for lane in lanes]
        Frame(self.graph, builder, lanes).run()
        found = [v for v in starts.values() if isinstance(v, Value)]
        for lane, inputs in zip(lanes, before, strict=True):
            found += [lane.effects.contents[place] for place in self.places]
            found += self._next(lane, inputs)
        return found

    def _next(self, lane: Lane, before: Sequence[Value]) -> list[Value]:
        """The inputs of the next iteration."""
        found = [lane.read(t) for t in self.graph.get_output_tensors()]
        for k, tensor in enumerate(self.graph.get_input_tensors()):
            if k >= len(found):
                found.append(lane.read(tensor) if k in self.op.modifies else before[k])
        return found


def _loop(builder: LineBuilder, body: _Body, count: int, carried: Sequence[Value]) -> list[Value]:
    """The carried values after all iterations, by the core's loop."""
    module = new_module(builder, body.graph)
    inner = type(builder).of(module)
    iteration = inner.input("iteration", (), "int64")
    condition = inner.input("condition", (), "bool")
    shapes = [v.instruction.shape.as_standard() for v in carried]
    given = [inner.input(f"carried{k}", shape) for k, shape in enumerate(shapes)]
    inner.program(condition, *body.values(inner, iteration, given))
    limits = [builder.constant(count, "int64"), builder.constant(True, "bool")]
    inputs = [v.instruction for v in (*limits, *carried)]
    outer = builder.module
    loop = outer.add("loop", *inputs, modules=[module], max_iterations=count)
    made = [outer.add("get_tuple_elem", loop, index=k) for k in range(len(carried))]
    return [Value(builder, i) for i in made]


def new_module(builder: LineBuilder, graph: Graph) -> Module:
    """A module of the program with a graph's name, or that and a number if there is one already."""
    program = builder.module.program
    name, number = graph.name, 1
    while name in program.modules:
        number += 1
        name = f"{graph.name}:{number}"
    return program.create_module(name)
