"""Calls and loops of subgraphs: a graph becomes a module, which all its calls share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.lowering.effects import Effects, Uses, uses_of
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compat.popart.lowering.lowered import Printed, parameter_name
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.module import Module

if TYPE_CHECKING:
    from workbench.compat.popart.lowering.frame import Frame, Lane

Key: TypeAlias = tuple[Graph, tuple[int, ...]]
"""A graph, and the inputs whose changes its callers see."""


@dataclass(frozen=True)
class Binding:
    """The results of a call: the graph's outputs, then the new values of the inputs that it changed."""

    outputs: list[Value]
    modified: list[Value]


@dataclass(frozen=True)
class Callee:
    """A graph as a module.

    It takes the number of the next row of each stream; then, for each replica, the contents of streams and
    remote buffers and the graph's inputs. It returns, for each replica, the new contents, the outputs, the
    changed inputs and the values to print.
    """

    module: Module
    uses: Uses
    printed: tuple[Printed, ...]
    """The values to print."""


@dataclass
class Callees:
    """The modules that graphs became."""

    called: dict[Key, Callee] = field(default_factory=dict[Key, Callee])
    """Those of calls, which share them."""
    first: dict[Graph, Module] = field(default_factory=dict[Graph, Module])
    """The first module of each graph, of a call or a loop."""
    unroll: int = 0
    """Loops of at most this many iterations become calls one after another."""
    apart: int = 0
    """The number of replicas, if the program is one of several that run together; 0 if it has all of them."""


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
    """Call the module of a graph; the results for each replica."""
    return _call(frame, op, [list(_inputs(op, lane).values()) for lane in frame.lanes])


def _call(frame: Frame, op: Op, inputs: Sequence[Sequence[Value]]) -> list[Binding]:
    """Call the module of a graph with the inputs of each replica."""
    key = op.called_graphs[0], op.modifies
    callee = frame.callees.called.get(key)
    if callee is None:
        callee = frame.callees.called[key] = _callee(frame, op)
    uses, builder = callee.uses, frame.builder
    given = [_number(builder, frame.lanes[0].effects.row(s)) for s in uses.transfers]
    for lane, values in zip(frame.lanes, inputs, strict=True):
        given += [lane.effects.contents[p] for p in uses.places]
        given += values
    results = iter(builder.calling("call", given, callee.module) if callee.module.outputs else [])
    return [_bound(op, callee, lane, results) for lane in frame.lanes]


def _bound(op: Op, callee: Callee, lane: Lane, results: Iterator[Value]) -> Binding:
    """One replica's part of the results."""
    for place in callee.uses.written:
        lane.effects.contents[place] = next(results)
    lane.effects.done.update(callee.uses.transfers)
    outputs = [next(results) for _ in op.outputs]
    modified = [next(results) for _ in op.modifies]
    first = lane.effects.next_printed
    lane.effects.printed += [(p.in_call(first), next(results)) for p in callee.printed]
    return Binding(outputs, modified)


def _number(builder: LineBuilder, row: int | Value) -> Value:
    return builder.constant(row, "int64") if isinstance(row, int) else row


def _callee(frame: Frame, op: Op) -> Callee:
    """The module of a graph, for calls that see these changes of its inputs."""
    graph = op.called_graphs[0]
    uses = uses_of(graph)
    builder = LineBuilder(_new_module(frame, graph))
    rows = {s: builder.input(f"{s.tensor_id()}.row", (), "int64") for s in uses.transfers}
    inner = _inner(frame, builder, graph, uses)
    for lane in inner.lanes:
        lane.effects.first.update(rows)
    wanted = graph.get_input_tensors()
    inner.run()
    results: list[Value] = []
    for lane in inner.lanes:
        results += [lane.effects.contents[place] for place in uses.written]
        results += [lane.read(t) for t in graph.get_output_tensors()]
        results += [lane.read(wanted[k]) for k in op.modifies]
        results += [value for _, value in lane.effects.printed]
    if results:
        builder.end(results)
    return Callee(builder.module, uses, tuple(p for p, _ in inner.lanes[0].effects.printed))


def _inner(frame: Frame, builder: LineBuilder, graph: Graph, uses: Uses) -> Frame:
    """An execution of a graph in a module of its own, whose parameters are its contents and inputs."""
    from workbench.compat.popart.lowering.frame import Frame, Lane  # noqa: PLC0415 - they make calls

    lanes: list[Lane] = []
    for k, outer in enumerate(frame.lanes):
        ending = f".{k}" if len(frame.lanes) > 1 else ""
        contents = {
            p: builder.input(
                f"{parameter_name(p)}.rows{ending}",
                outer.effects.contents[p].instruction.shape.as_standard(),
            )
            for p in uses.places
        }
        inputs = {
            t: builder.input(f"{t.name}{ending}", t.shape, t.dtype.as_numpy().__name__)
            for t in graph.get_input_tensors()
        }
        lanes.append(Lane(builder, Effects(contents), inputs))
    return Frame(graph, builder, lanes, frame.callees)


def _new_module(frame: Frame, graph: Graph) -> Module:
    """A module of the program with a graph's name, or that and a number if there is one already."""
    program = frame.builder.module.program
    name, number = graph.name, 1
    while name in program.modules:
        number += 1
        name = f"{graph.name}:{number}"
    made = program.create_module(name)
    frame.callees.first.setdefault(graph, made)
    return made


def repeated(frame: Frame, op: Op) -> list[Binding]:
    """Run a graph a number of times, its outputs becoming its first inputs; the results for each replica."""
    if op.attributes["repeat_count"] <= frame.callees.unroll:
        return _unrolled(frame, op)
    graph, count = op.called_graphs[0], op.attributes["repeat_count"]
    uses, builder = uses_of(graph), frame.builder
    starts = [_number(builder, frame.lanes[0].effects.row(s)) for s in uses.transfers]
    carried = list(starts)
    for lane in frame.lanes:
        carried += [lane.effects.contents[p] for p in uses.places]
        carried += _inputs(op, lane).values()
    module, printed = _body(frame, op, uses)
    limits = [builder.constant(count, "int64"), builder.constant(True, "bool")]
    found = builder.calling("loop", [*limits, *carried], module, max_iterations=count)
    results = iter(found[len(starts) :])
    bindings: list[Binding] = []
    for lane in frame.lanes:
        for place in uses.places:
            lane.effects.contents[place] = next(results)
        for stream, per_iteration in uses.transfers.items():
            lane.effects.done[stream] += per_iteration * count
        values = [next(results) for _ in op.inputs]
        bindings.append(Binding(values[: len(op.outputs)], [values[k] for k in op.modifies]))
    for lane in frame.lanes:
        first = lane.effects.next_printed
        lane.effects.printed += [(p.in_loop(first), next(results)) for p in printed]
    return bindings


def _unrolled(frame: Frame, op: Op) -> list[Binding]:
    """Call a graph a number of times."""
    values = [list(_inputs(op, lane).values()) for lane in frame.lanes]
    bindings: list[Binding] = []
    for _ in range(op.attributes["repeat_count"]):
        bindings = _call(frame, op, values)
        for given, binding in zip(values, bindings, strict=True):
            for k, value in zip(op.modifies, binding.modified, strict=True):
                given[k] = value
            given[: len(binding.outputs)] = binding.outputs
    pairs = zip(values, bindings, strict=True)
    return [Binding(b.outputs, [given[k] for k in op.modifies]) for given, b in pairs]


def _body(frame: Frame, op: Op, uses: Uses) -> tuple[Module, list[Printed]]:
    """A module of one iteration, from the values that it begins with to those that it ends with.

    Its last results are the values that each replica prints.
    """
    graph = op.called_graphs[0]
    builder = LineBuilder(_new_module(frame, graph))
    iteration = builder.input("iteration", (), "int64")
    condition = builder.input("condition", (), "bool")
    starts = {s: builder.input(f"{s.tensor_id()}.row", (), "int64") for s in uses.transfers}
    inner = _inner(frame, builder, graph, uses)
    before = [[lane.read(t) for t in graph.get_input_tensors()] for lane in inner.lanes]
    for lane in inner.lanes:
        lane.effects.first = {s: iteration * uses.transfers[s] + v for s, v in starts.items()}
    inner.run()
    results = [condition, *starts.values()]
    for lane, inputs in zip(inner.lanes, before, strict=True):
        results += [lane.effects.contents[place] for place in uses.places]
        results += _next(op, lane, inputs)
    results += [value for lane in inner.lanes for _, value in lane.effects.printed]
    builder.end(results)
    return builder.module, [p for p, _ in inner.lanes[0].effects.printed]


def _next(op: Op, lane: Lane, before: Sequence[Value]) -> list[Value]:
    """The inputs of the next iteration: outputs, then the inputs again, changed only if by reference."""
    graph = op.called_graphs[0]
    found = [lane.read(t) for t in graph.get_output_tensors()]
    for k, tensor in enumerate(graph.get_input_tensors()):
        if k >= len(graph.get_output_tensors()):
            found.append(lane.read(tensor) if k in op.modifies else before[k])
    return found
