"""If, Loop and Scan: subgraphs as modules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.ranges import dims_of, fixed, joined, unnamed
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.dynamic import cut_out
from workbench.compiler.onnx.importer import unique_name
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import dim_of, same
from workbench.compiler.ops.collection import MAX_LENGTH

MAX_ATTEMPTS = 5
"""The most imports of a loop's body until the shapes of its states settle."""


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
    match_branches(node, modules)
    made = node.add("if", condition, modules=modules)
    return node.elements(made, len(modules[0].outputs))


def _module(node: NodeContext, graph: onnx.GraphProto, name: str) -> Module:
    return node.importer.subgraph(graph, name, node.scope)


def match_branches(node: NodeContext, modules: list[Module]) -> None:
    """Make both branches' outputs of equal shapes, where strides differ, or the rank of one element."""
    outputs = [m.outputs for m in modules]
    if len(outputs[0]) != len(outputs[1]):
        raise node.fail(
            f"branches with {len(outputs[0])} and {len(outputs[1])} outputs; expected equal numbers"
        )
    for module, others in zip(modules, reversed(outputs), strict=True):
        _raise_ranks(module, others)
    outputs = [m.outputs for m in modules]
    differ = [a.shape != b.shape for a, b in zip(*outputs, strict=True)]
    if node.strict and any(_standard(a) != _standard(b) for a, b in zip(*outputs, strict=True)):
        shapes = ("; ".join(str(o.shape) for o in side) for side in outputs)
        raise node.fail(f"branches of {' and '.join(shapes)}; expected the same shapes of both")
    if any(differ):
        for module in modules:
            _make_standard(module, differ)


def _raise_ranks(module: Module, others: Sequence[Instruction]) -> None:
    """Give one element as many dimensions as in the other branch: which is taken, only a run knows."""
    end = module.last
    if end is None or not module.has_return:
        return
    values = list(end.inputs)
    for at, (own, other) in enumerate(zip(values, others, strict=True)):
        if own.shape.ndim < other.shape.ndim and _is_one(own) and _is_one(other):
            values[at] = module.add("reshape", own, dims=other.shape.lens)
    if values != list(end.inputs):
        module.set_inputs(end, values)


def _is_one(value: Instruction) -> bool:
    """Whether a value is known to have one element."""
    return value.shape.is_tensor and not value.shape.is_dynamic and value.shape.elements == 1


def _standard(value: Instruction) -> Shape:
    fixed = value.shape.is_tensor and not value.shape.is_dynamic
    return value.shape.as_standard() if fixed else value.shape


def _make_standard(module: Module, differ: list[bool]) -> None:
    end = module.last
    if end is None or not module.has_return:
        return
    values: list[Instruction] = []
    for value, differs in zip(end.inputs, differ, strict=True):
        fixed = value.shape.is_tensor and not value.shape.is_dynamic
        if fixed and not value.shape.standard:
            value = module.add("contiguous", value)  # noqa: PLW2901
        elif fixed and differs and value.shape != value.shape.as_standard():
            value = module.add("reshape", value, dims=value.shape.lens)  # noqa: PLW2901
        values.append(value)
    module.set_inputs(end, values)


@onnx_op("Loop")
def loop(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """A subgraph run over and over."""
    if len(inputs) < 2:
        raise node.fail(f"{len(inputs)} inputs; expected a trip count, a condition and the states")
    if len(node.graph("body").input) != len(inputs):
        found = len(node.graph("body").input)
        raise node.fail(f"a body with {found} inputs; expected {len(inputs)}")
    name = f"{unique_name(node.node, node.module)}_loop"
    limit, known = _limit(node, node.optional(inputs, 0))
    condition = node.optional(inputs, 1)
    if condition is None:
        condition = node.scalar(DType.BOOL, True)
    states = [node.standard(i) for i in inputs[2:]]
    module = _settled(node, name, states)
    room = node.importer.options.max_loop_iterations if known is None else known
    room = min(max(room, 0), node.importer.options.limit_max_iterations)
    counted = node.importer.options.use_dyn_output and len(module.outputs) > len(states) + 1
    if not counted or (known is not None and known <= room and _runs_on(node, module, condition)):
        made = node.add("loop", limit, condition, *states, modules=[module], max_iterations=room)
        results = node.elements(made, len(module.outputs) - 1)
    else:
        results = _counted(node, [limit, condition, *states], module, room)
    return results


def _limit(node: NodeContext, given: Instruction | None) -> tuple[Instruction, int | None]:
    """The trip count, and its value if that is known; without one, the condition alone decides.

    Where scans are as long as they may get, it is what a loop without a trip count runs at most.
    """
    if given is None:
        options = node.importer.options
        most = np.iinfo(np.int64).max if options.use_dyn_output else options.max_loop_iterations
        return node.scalar(DType.INT64, most), None
    known = node.constant(given)
    return given, None if known is None else int(node.element(known, "the trip count"))


def _settled(node: NodeContext, name: str, states: list[Instruction]) -> Module:
    """The body's module, its states of shapes that they keep from one iteration to the next."""
    body = node.graph("body")
    names = [i.name for i in body.input[2:]]
    program = node.importer.program
    shapes = [s.shape for s in states]
    for attempt in range(MAX_ATTEMPTS):
        known = dict(program.source_nodes)
        given = dict(zip(names, shapes, strict=True))
        module = node.importer.subgraph(body, name, node.scope, given)
        _wrap_optionals(module, states)
        after = [o.shape for o in module.outputs[1 : len(states) + 1]]
        if len(after) < len(states):
            raise node.fail(
                f"a body with {len(module.outputs)} outputs for {len(states)} states; expected a "
                "condition, and an output for each state"
            )
        wider = [_wider(node, a, b, attempt) for a, b in zip(shapes, after, strict=True)]
        if wider == shapes:
            return module
        shapes = wider
        discard(module)
        node.importer.provenance.restore(known)
    raise node.fail(
        "states whose shapes change in every iteration; expected shapes that settle after "
        f"{MAX_ATTEMPTS} iterations"
    )


def _wrap_optionals(module: Module, states: list[Instruction]) -> None:
    """A state that begins as an optional value may go on as a plain one."""
    end = module.last
    assert end is not None  # every subgraph returns its outputs
    values = list(end.inputs)
    for i, state in enumerate(states[: len(values) - 1], 1):
        if state.shape.kind == "optional" and values[i].shape.kind != "optional":
            values[i] = module.insert(end, make("optional"), values[i])
    if values != list(end.inputs):
        module.set_inputs(end, values)


def _wider(node: NodeContext, before: Shape, after: Shape, attempt: int) -> Shape:
    """A shape for both; a length that goes on changing may be any."""
    if before.is_tensor and not before.is_dynamic and before.lens == after.lens:
        return before
    try:
        shape = joined(before, after)
    except ShapeError as error:
        raise node.fail(f"a state that changes from {before} to {after}: {error}") from error
    if attempt == 0 or shape.dims is None or before.dims is None:
        return shape
    pairs = zip(shape.dims, before.dims, strict=True)
    return Shape.dynamic(shape.type, [d if d == old else Dim(0, MAX_LENGTH) for d, old in pairs])


def discard(module: Module) -> None:
    """Remove a module that nothing calls, and those that it calls."""
    for instruction in reversed(list(module)):
        called = instruction.modules
        module.remove(instruction)
        for inner in called:
            discard(inner)
    module.program.remove_module(module)


def _runs_on(node: NodeContext, module: Module, condition: Instruction) -> bool:
    """Whether a loop surely runs until its trip count."""
    first = node.constant(condition)
    given = list(module.parameters.values())[1]
    after = module.outputs[0]
    last = node.constant(after) if after.module is module else None
    stays = after is given or (last is not None and bool(last.all()))
    return first is not None and bool(first.all()) and stays


def _counted(
    node: NodeContext, inputs: list[Instruction], module: Module, room: int
) -> list[Instruction]:
    """The results of a loop that counts its iterations, so that scans end where it ended."""
    states = len(inputs) - 2
    name = "#iterations"
    while name in module.parameters:  # the model may be one that was written from such a loop
        name += "'"
    count = module.add_parameter(name, Shape(DType.INT64))
    end = module.last
    assert end is not None  # every subgraph returns its outputs
    one = module.add_literal(np.ones((), np.int64))
    more = module.insert(end, make("add"), count, one)
    given = list(end.inputs)
    module.set_inputs(end, [*given[: states + 1], more, *given[states + 1 :]])
    zero = node.scalar(DType.INT64, 0)
    made = node.add("loop", *inputs, zero, modules=[module], max_iterations=room)
    results = node.elements(made, len(end.inputs) - 1)
    done = results.pop(states)
    done = done if done.shape.ndim else node.unsqueeze(done, 0)
    scans = [node.add("slice", r, done, axes=(0,), starts=(0,)) for r in results[states:]]
    return [*results[:states], *scans]


@onnx_op("Scan")
def scan(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """A subgraph run on each slice of its inputs, as a loop."""
    if node.version < 9:
        return _scan_of_batch(node, inputs)
    return _scan(node, inputs, _per_value(node, "scan_input_directions", _scanned(node, inputs)))


def _scanned(node: NodeContext, inputs: list[Instruction]) -> int:
    """The number of inputs that are scanned."""
    body, count = node.graph("body"), node.integer("num_scan_inputs")
    if not 1 <= count <= len(inputs) or len(body.input) != len(inputs):
        raise node.fail(
            f"num_scan_inputs={count}, {len(inputs)} inputs and a body with {len(body.input)}; "
            f"expected 1 to {len(inputs)} scanned, and a body with as many inputs"
        )
    return count


def _scan_of_batch(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Scan as operator set 8 has it: inputs begin with an axis of examples, each scanned by itself."""
    if node.optional(inputs, 0) is not None:
        raise node.fail("lengths of each example are not supported; convert the model to opset 9")
    values = inputs[1:]
    directions = _per_value(node, "directions", _scanned(node, values))
    batch = {n for x in values for n in node.lens(x)[:1] if isinstance(n, int)}
    if len(batch) != 1:
        raise node.fail(f"inputs of {sorted(batch)} examples; expected one number for all")
    count = batch.pop()
    values = [node.expected(x, [*fixed(count), *dims_of(x.shape)[1:]]) for x in values]
    made: list[list[Instruction]] = []
    for example in range(count):
        rows = [node.slice(x, [0], [example], [example + 1]) for x in values]
        results = _scan(node, [node.squeeze(r, 0) for r in rows], directions)
        made.append([node.unsqueeze(r, 0) for r in results])
    if not made:
        raise node.fail("no examples; expected one at least")
    return [node.add("concat", *column, axis=0) for column in zip(*made, strict=True)]


def _scan(
    node: NodeContext, inputs: list[Instruction], directions: tuple[int, ...]
) -> list[Instruction]:
    body, count = node.graph("body"), len(directions)
    states = [node.standard(i) for i in inputs]
    states, scanned = states[: len(inputs) - count], inputs[len(inputs) - count :]
    outputs = len(body.output) - len(states)
    if not all(x.shape.is_tensor for x in scanned):
        shapes = "; ".join(str(x.shape) for x in scanned)
        raise node.fail(f"scanned inputs {shapes}; expected tensors")
    axes = [
        node.axis(a, x.shape.ndim)
        for a, x in zip(_per_value(node, "scan_input_axes", count), scanned, strict=True)
    ]
    lengths = [node.lens(x)[a] for a, x in zip(axes, scanned, strict=True)]
    if not all(same(lengths[0], n) for n in lengths):
        shown = ", ".join(str(dim_of(n)) for n in lengths)
        raise node.fail(f"scanned inputs of lengths {shown}; expected one length")
    name = f"{unique_name(node.node, node.module)}_scan"
    module = _scan_module(node, name, states, list(zip(scanned, axes, directions, strict=True)))
    length = lengths[0]
    limit = node.importer.options.limit_max_iterations
    most = length if isinstance(length, int) else min(length.dim.max, limit)
    turned = _per_value(node, "scan_output_directions", outputs)
    if any(turned) and not isinstance(length, int):
        raise node.fail(f"backward scans of a length of {length.dim}; expected a fixed one")
    made = node.add(
        "loop",
        node.number_of(length),
        node.scalar(DType.BOOL, True),
        *states,
        modules=[module],
        max_iterations=most,
        scan_output_directions=turned,
    )
    results = node.elements(made, len(body.output))
    if not isinstance(length, int):
        scans = [cut_out(node.module, r, 0, 0, length) for r in results[len(states) :]]
        results = [*results[: len(states)], *scans]
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
    step = module.add_parameter("iter", Shape(DType.INT64))
    condition = module.add_parameter("cond", Shape(DType.BOOL))
    values = [
        module.add_parameter(f"state_var{i}", unnamed(state.shape))
        for i, state in enumerate(states)
    ]
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
