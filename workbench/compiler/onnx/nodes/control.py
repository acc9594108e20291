"""If, Loop and Scan: subgraphs as modules."""

from __future__ import annotations

import onnx

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction, Module
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.importer import unique_name
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.shape import Shape

MAX_ITERATIONS = 65535
"""More iterations of a loop are cut off, for its scan outputs are made as long as they may get."""


@onnx_op("If")
def if_(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """One of two subgraphs; the one that is taken, if that is known at import."""
    node.expect(inputs, 1)
    condition = inputs[0]
    if condition.shape.elements != 1:
        raise node.fail(f"condition {condition.shape}; expected one element")
    then, other = node.graph("then_branch"), node.graph("else_branch")
    known = node.constant(condition)
    if known is not None:
        taken = then if bool(known.reshape(-1)[0]) else other
        return node.importer.inlined(taken, node.module, node.scope)
    name = unique_name(node.node, node.module)
    modules = [_module(node, then, f"{name}_if"), _module(node, other, f"{name}_else")]
    _match(node, modules)
    made = node.add("if", condition, modules=modules)
    return node.elements(made, len(modules[0].outputs))


def _module(node: NodeContext, graph: onnx.GraphProto, name: str) -> Module:
    return node.importer.subgraph(graph, name, node.scope)


def _match(node: NodeContext, modules: list[Module]) -> None:
    """Make the outputs of both branches of equal shapes, where only their strides differ."""
    outputs = [m.outputs for m in modules]
    if len(outputs[0]) != len(outputs[1]):
        raise node.fail(f"branches with {len(outputs[0])} and {len(outputs[1])} outputs")
    for index, (a, b) in enumerate(zip(*outputs, strict=True)):
        if a.shape.as_standard() != b.shape.as_standard():
            raise node.fail(f"output {index} is {a.shape} or {b.shape}; expected one shape")
    differ = [a.shape != b.shape for a, b in zip(*outputs, strict=True)]
    if any(differ):
        for module in modules:
            _make_standard(module, differ)


def _make_standard(module: Module, differ: list[bool]) -> None:
    end = module.last
    if end is None or not module.has_return:
        return
    values: list[Instruction] = []
    for value, differs in zip(end.inputs, differ, strict=True):
        if not value.shape.standard:
            value = module.add("contiguous", value)  # noqa: PLW2901
        elif differs and value.shape != value.shape.as_standard():
            value = module.add("reshape", value, dims=value.shape.lens)  # noqa: PLW2901
        values.append(value)
    module.set_inputs(end, values)


@onnx_op("Loop")
def loop(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """A subgraph run over and over."""
    if len(inputs) < 2:
        raise node.fail(f"{len(inputs)} inputs; expected a trip count, a condition and the states")
    body = node.graph("body")
    limit, condition = node.optional(inputs, 0), node.optional(inputs, 1)
    count = node.importer.options.max_loop_iterations
    if limit is None:
        limit = node.scalar(DType.INT64, count)
    else:
        known = node.constant(limit)
        count = count if known is None else int(known.reshape(-1)[0])
    if condition is None:
        condition = node.scalar(DType.BOOL, True)
    if len(body.input) != len(inputs):
        raise node.fail(f"a body with {len(body.input)} inputs; expected {len(inputs)}")
    states = [i if i.shape.standard else node.add("contiguous", i) for i in inputs[2:]]
    shapes = {i.name: s.shape for i, s in zip(body.input[2:], states, strict=True)}
    name = f"{unique_name(node.node, node.module)}_loop"
    module = node.importer.subgraph(body, name, node.scope, shapes)
    made = node.add(
        "loop",
        limit,
        condition,
        *states,
        modules=[module],
        max_iterations=min(max(count, 0), MAX_ITERATIONS),
    )
    return _with_rank_zero(node, node.elements(made, len(module.outputs) - 1), module, len(states))


def _with_rank_zero(
    node: NodeContext, results: list[Instruction], module: Module, states: int
) -> list[Instruction]:
    """Scan outputs made of scalars have one axis, not two."""
    scalars = [o.shape == Shape.scalar(o.shape.type) for o in module.outputs[1:]]
    return [
        node.squeeze(r, 1) if is_scalar and i >= states else r
        for i, (r, is_scalar) in enumerate(zip(results, scalars, strict=True))
    ]


@onnx_op("Scan")
def scan(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """A subgraph run on each slice of its inputs, as a loop."""
    if node.version < 9:
        raise node.fail(
            "Scan before operator set 9 is not supported; convert the model to a newer one"
        )
    body, count = node.graph("body"), node.integer("num_scan_inputs")
    states = [i if i.shape.standard else node.add("contiguous", i) for i in inputs]
    states, scanned = states[: len(inputs) - count], inputs[len(inputs) - count :]
    if not 1 <= count <= len(inputs) or len(body.input) != len(inputs):
        raise node.fail(f"{count} scanned of {len(inputs)} inputs, a body with {len(body.input)}")
    outputs = len(body.output) - len(states)
    axes = [
        node.axis(a, x.shape.ndim)
        for a, x in zip(_per_value(node, "scan_input_axes", count), scanned, strict=True)
    ]
    directions = _per_value(node, "scan_input_directions", count)
    lengths = {x.shape.lens[a] for a, x in zip(axes, scanned, strict=True)}
    if len(lengths) != 1:
        raise node.fail(f"scanned inputs of lengths {sorted(lengths)}; expected one length")
    name = f"{unique_name(node.node, node.module)}_scan"
    module = _scan_module(node, name, states, list(zip(scanned, axes, directions, strict=True)))
    length = lengths.pop()
    made = node.add(
        "loop",
        node.scalar(DType.INT64, length),
        node.scalar(DType.BOOL, True),
        *states,
        modules=[module],
        max_iterations=length,
        scan_output_directions=_per_value(node, "scan_output_directions", outputs),
    )
    results = _with_rank_zero(node, node.elements(made, len(body.output)), module, len(states))
    for i, axis in enumerate(_per_value(node, "scan_output_axes", outputs), len(states)):
        results[i] = _with_first_axis_at(node, results[i], axis)
    return results


def _per_value(node: NodeContext, name: str, count: int) -> tuple[int, ...]:
    values = node.integers(name, (0,) * count)
    if len(values) != count:
        raise node.fail(f"{len(values)} {name}; expected {count}")
    return values


def _scan_module(
    node: NodeContext,
    name: str,
    states: list[Instruction],
    scanned: list[tuple[Instruction, int, int]],
) -> Module:
    body = node.graph("body")
    module = node.importer.new_module(name)
    step = module.add_parameter("iter", Shape.scalar(DType.INT64))
    condition = module.add_parameter("cond", Shape.scalar(DType.BOOL))
    values = [
        module.add_parameter(f"state_var{i}", state.shape) for i, state in enumerate(states)
    ]  # fmt: skip
    for x, axis, direction in scanned:
        piece = module.add("scan_slice", x, step, axis=axis, direction=direction)
        values.append(module.add("squeeze", piece, axes=(axis,)))
    bound = dict(zip([i.name for i in body.input], values, strict=True))
    outputs = node.importer.graph(body, module, node.scope.inner(bound))
    module.add_return(condition, *outputs)
    return module


def _with_first_axis_at(node: NodeContext, value: Instruction, axis: int) -> Instruction:
    rank = value.shape.ndim
    place = node.axis(axis, rank)
    permutation = [*range(1, rank)]
    permutation.insert(place, 0)
    return node.transpose(value, *permutation)
