"""Scan as MIGraphX composes it: a module whose scanned inputs become slices of outer values."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.importer import unique_name
from workbench.compiler.onnx.registry import strict_op


@strict_op("Scan")
def scan(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """A subgraph run on each slice of its inputs, as a loop of a fixed number of iterations."""
    if node.version == 8:
        raise node.fail("Scan of operator set 8 is not supported; convert the model to opset 9")
    body, count = node.graph("body"), node.integer("num_scan_inputs")
    if not 1 <= count <= len(inputs) or len(body.input) != len(inputs):
        raise node.fail(
            f"num_scan_inputs={count}, {len(inputs)} inputs and a body with {len(body.input)}; "
            f"expected 1 to {len(inputs)} scanned, and a body with as many inputs"
        )
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = _axes(node, "scan_input_axes", scanned)
    turned = _directions(node, "scan_input_directions", count)
    lengths = {
        node.fixed(node.lens(x), "lengths of")[a] for x, a in zip(scanned, axes, strict=True)
    }
    if len(lengths) != 1:
        raise node.fail(f"scanned inputs of lengths {sorted(lengths)}; expected one length")
    length, outputs = lengths.pop(), len(body.output) - len(states)
    name = f"{unique_name(node.node, node.module)}_scan"
    module = _body(node, name, states, list(zip(scanned, axes, turned, strict=True)))
    back = _directions(node, "scan_output_directions", outputs)
    operands = [node.scalar(DType.INT64, length), node.scalar(DType.BOOL, True), *states]
    made = node.add(
        "loop", *operands, modules=[module], max_iterations=length, scan_output_directions=back
    )
    results = [node.add("get_tuple_elem", made, index=i) for i in range(len(states))]
    places = _per_value(node, "scan_output_axes", outputs)
    for i, place in enumerate(places, len(states)):
        results.append(_placed(node, node.add("get_tuple_elem", made, index=i), place))
    return results


def _per_value(node: NodeContext, name: str, count: int) -> tuple[int, ...]:
    values = node.integers(name, (0,) * count)
    if len(values) != count:
        raise node.fail(f"{len(values)} {name}; expected {count}")
    return values


def _directions(node: NodeContext, name: str, count: int) -> tuple[int, ...]:
    values = _per_value(node, name, count)
    if not {0, 1}.issuperset(values):
        raise node.fail(f"{name} {list(values)}; expected 0 or 1 for each")
    return values


def _axes(node: NodeContext, name: str, values: Sequence[Instruction]) -> list[int]:
    given = _per_value(node, name, len(values))
    return [node.axis(a, x.shape.ndim) for a, x in zip(given, values, strict=True)]


def _body(
    node: NodeContext,
    name: str,
    states: Sequence[Instruction],
    scanned: Sequence[tuple[Instruction, int, int]],
) -> Module:
    """The body's module: its parameters first, then slices, the last input's first."""
    body = node.graph("body")
    module = node.importer.new_module(name)
    step = module.add_parameter("iter", Shape(DType.INT64))
    condition = module.add_parameter("cond", Shape(DType.BOOL))
    names = [i.name for i in body.input]
    values = {
        name: module.add_parameter(f"state_var{k}", state.shape)
        for k, (name, state) in enumerate(zip(names, states, strict=False))
    }
    slices: list[Instruction] = []
    pairs = list(zip(names[len(states) :], scanned, strict=True))
    for value, (x, axis, direction) in reversed(pairs):
        piece = module.add("scan_slice", x, step, axis=axis, direction=direction)
        values[value] = module.add("squeeze", piece, axes=(axis,))
        slices += [piece, values[value]]
    _check(node, values)
    outputs = node.importer.graph(body, module, node.scope.inner(values))
    module.add_return(condition, *outputs)
    _arrange(module, slices, len(body.initializer))
    return module


def _check(node: NodeContext, values: dict[str, Instruction]) -> None:
    """Refuse values with lens other than the body declares."""
    for declared in node.graph("body").input:
        kind, found = declared.type.tensor_type, values[declared.name].shape
        if not kind.HasField("shape") or found.is_dynamic:
            continue
        wanted = tuple(d.dim_value or n for d, n in zip(kind.shape.dim, found.lens, strict=False))
        if kind.shape.dim and (len(kind.shape.dim) != found.ndim or wanted != found.lens):
            shown = [d.dim_value or d.dim_param for d in kind.shape.dim]
            raise node.fail(f"{found} for the body's {declared.name!r}; expected {shown}")


def _arrange(module: Module, slices: Sequence[Instruction], initializers: int) -> None:
    """Move parameters before literals, and slices before the literals that were initialisers."""
    literals = [i for i in module if i.literal is not None]
    kept = literals[len(literals) - initializers :] if initializers else []
    for parameter in list(module.parameters.values()):
        module.move(parameter, next(iter(module)))
    for value in slices if kept else ():
        module.move(value, kept[0])


def _placed(node: NodeContext, value: Instruction, axis: int) -> Instruction:
    """The value with its first axis moved to ``axis``."""
    rank = value.shape.ndim
    permutation = [*range(1, rank)]
    permutation.insert(node.axis(axis, rank), 0)
    return node.transpose(value, *permutation)
