"""Operations with modules: fused ones as functions of the model, branches and loops as graphs inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.tensors import CODES
from workbench.compiler.onnx.write.block import DOMAIN, Block, write_call
from workbench.compiler.onnx.write.call import Call, narrowed
from workbench.compiler.onnx.write.registry import Named, writes
from workbench.compiler.onnx.write.writer import ancestors, function, subgraph
from workbench.compiler.ops.control import OUTPUT_PREFIX

_ELEMENTWISE = {"pointwise", "fused_concat"}


def _called(call: Call, module: Module, inputs: Sequence[str]) -> tuple[str, ...]:
    """The results of a module for inputs of its parameters, sorted by name."""
    name, outer = function(call.block, module, call.op.name in _ELEMENTWISE)
    more = [call.block.value(i) for i in outer]
    given = [*inputs, *(v for v in more if isinstance(v, str))]
    if len(given) < len(inputs) + len(more):
        raise call.refuse("its module reads a tuple of another one")
    return call.several(name, len(module.outputs), *given, domain=DOMAIN)


@writes("pointwise", "fused_reduce", "split_fused_reduce", "group")
def fused(call: Call) -> Named:
    """A call of a function with the module's body."""
    inputs = _repeated(call) if call.op.name == "pointwise" else None
    results = _called(call, call.modules[0], inputs or call.inputs)
    return results[0] if len(results) == 1 else results


def _repeated(call: Call) -> list[str] | None:
    """The operands before they were broadcast, if the body's results have the same lens without that."""
    body = call.modules[0]
    places = {body.parameters[n]: at for at, n in enumerate(sorted(body.parameters))}
    used = [[places[i] for i in ancestors(o) if i in places] for o in body.outputs]
    whole = call.shape.subs[0] if call.shape.subs else call.shape
    return narrowed(call.block, call.operands, used, whole) if all(used) else None


@writes("run_on_target")
def run_on_target(call: Call) -> Named:
    """A call of a function; a model leaves it to its runtime where operators run."""
    return _called(call, call.modules[0], call.inputs)


@writes("call")
def call(call: Call) -> Named:
    """A call of a function, whose inputs are sorted by name."""
    given = dict(zip(call.modules[0].parameters, call.inputs, strict=True))
    return _called(call, call.modules[0], [given[name] for name in sorted(given)])


@writes("fused_concat")
def fused_concat(call: Call) -> str:
    """A function for each piece, Concat, and a function for the whole."""
    *pieces, last = call.modules
    rest = list(call.inputs)
    parts: list[str] = []
    for module in pieces:
        count = len(module.parameters)
        parts += _called(call, module, rest[:count])
        rest = rest[count:]
    whole = call.add("Concat", *parts, axis=call.op.axis)
    return _called(call, last, [whole, *rest])[0]


@writes("get_tuple_elem")
def get_tuple_elem(call: Call) -> Named:
    """One of the names of a tuple."""
    return call.values[0][call.op.index]


@writes("write")
def write(call: Call) -> Named:
    """The result of the operation inside; the buffer is left out."""
    inner = Call(call.block, call.instruction, call.op.op, call.operands[:-1])
    return write_call(inner)


# Branches and loops


def _single(call: Call, at: int, type: DType) -> str:
    """An operand of one element, as a scalar of a type."""
    value = call.cast(call.inputs[at], call.shapes[at].type, type)
    return value if not call.shapes[at].ndim else call.add("Reshape", value, call.constant([]))


@writes("if")
def if_(call: Call) -> tuple[str, ...]:
    """If: its graphs read the operands that the modules' parameters bind to."""
    names = sorted({name for m in call.modules for name in m.parameters})
    bound = dict(zip(names, call.values[1:], strict=True))
    graphs = [_branch(call, module, bound) for module in call.modules]
    count = len(call.modules[0].outputs)
    condition = _single(call, 0, DType.BOOL)
    return call.several("If", count, condition, then_branch=graphs[0], else_branch=graphs[1])


def _branch(call: Call, module: Module, bound: Mapping[str, Named]) -> onnx.GraphProto:
    inner = call.block.inner()
    for name, parameter in module.parameters.items():
        inner.bind(parameter, bound[name])
    results = inner.write(module)
    return subgraph(inner, {}, _shaped(call, module, results), "branch")


def _shaped(call: Call, module: Module, results: Sequence[Named]) -> list[tuple[str, Shape]]:
    """The names of a module's results, with their shapes."""
    found = [
        (value, made.shape)
        for made, value in zip(module.outputs, results, strict=True)
        if isinstance(value, str) and value
    ]
    if len(found) < len(results):
        raise call.refuse("a result of its module is a tuple or has no value")
    return found


@writes("select_module")
def select_module(call: Call) -> Named:
    """If in If: the first module whose parameters have the lengths of the inputs; the last is not asked."""
    if any(n.startswith(OUTPUT_PREFIX) for m in call.modules for n in m.parameters):
        raise call.refuse("its modules write into buffers, which ONNX does not have")
    possible = [m for m in call.modules if _may_fit(call, m)]
    if not possible:
        raise call.refuse("none of its modules takes inputs of these lengths")
    made = _first_that_fits(call, call.block, possible)
    return made if call.shape.is_tuple else made[0]


def _may_fit(call: Call, module: Module) -> bool:
    """Whether a module takes the lengths that are known."""
    pairs = zip(call.shapes, sorted(module.parameters), strict=True)
    return all(s.dims is not None or s.lens == module.parameters[n].shape.lens for s, n in pairs)


def _first_that_fits(call: Call, block: Block, modules: Sequence[Module]) -> tuple[str, ...]:
    first, *rest = modules
    if all(s.dims is None for s in call.shapes):
        rest = []
    bound = dict(zip(sorted(first.parameters), call.values, strict=True))
    if not rest:
        for name, parameter in first.parameters.items():
            block.bind(parameter, bound[name])
        return tuple(name for name, _ in _shaped(call, first, block.write(first)))
    shapes = call.shape.subs or (call.shape,)
    inner = block.inner()
    others = list(zip(_first_that_fits(call, inner, rest), shapes, strict=True))
    graphs = {
        "then_branch": _branch(Call(block, call.instruction, call.op, call.operands), first, bound),
        "else_branch": subgraph(inner, {}, others, "branch"),
    }
    return block.node("If", "", [_fits(call, block, first)], len(shapes), graphs)


def _fits(call: Call, block: Block, module: Module) -> str:
    """Whether the inputs have the lengths of a module's parameters: no length is off."""

    def add(op_type: str, *inputs: str, **attributes: int) -> str:
        return block.node(op_type, "", list(inputs), 1, attributes)[0]

    total = block.constant(np.array(0, np.int64))
    for name, value, shape in zip(sorted(module.parameters), call.inputs, call.shapes, strict=True):
        lens = module.parameters[name].shape.lens
        if shape.dims is not None and lens:
            off = add("Abs", add("Sub", add("Shape", value), block.constant(np.array(lens))))
            total = add("Add", total, add("ReduceSum", off, keepdims=0))
    return add("Equal", total, block.constant(np.array(0, np.int64)))


@writes("loop")
def loop(call: Call) -> tuple[str, ...]:
    """Loop; rows of zeros fill its scans up to the number that the program allows."""
    (body,) = call.modules
    states = len(call.inputs) - 2
    limit, condition = _single(call, 0, DType.INT64), _single(call, 1, DType.BOOL)
    inner, inputs = call.block.inner(), dict[str, Shape]()
    for at, parameter in enumerate(body.parameters.values()):
        name = call.block.shared.tensors.unique(parameter.parameter or "state")
        inputs[name] = Shape(_COUNTERS[at]) if at < len(_COUNTERS) else parameter.shape
        inner.bind(parameter, _as(inner, name, inputs[name], parameter.shape))
    results = _shaped(call, body, inner.write(body))
    results[0] = _as(inner, *results[0], Shape(DType.BOOL)), Shape(DType.BOOL)
    graph = subgraph(inner, inputs, results, "body")
    made = call.several("Loop", len(results) - 1, limit, condition, *call.inputs[2:], body=graph)
    scans = [_filled(call, v, k, limit) for k, v in enumerate(made[states:])]
    return (*made[:states], *scans)


_COUNTERS = (DType.INT64, DType.BOOL)
"""The types of the first two inputs of a loop's body: the iteration and the condition."""


def _as(block: Block, value: str, found: Shape, wanted: Shape) -> str:
    """One element in the type and the rank that are wanted; anything else as it is."""
    if found.type is not wanted.type:
        value = block.node("Cast", "", [value], 1, {"to": CODES[wanted.type]})[0]
    if found.ndim != wanted.ndim:
        lens = block.constant(np.ones(wanted.ndim, np.int64))
        value = block.node("Reshape", "", [value, lens], 1, {})[0]
    return value


def _filled(call: Call, scan: str, index: int, limit: str) -> str:
    """A scan with rows of zeros after it; one that runs backwards also before it."""
    op, results = call.op, call.shape.subs or ()
    rank = results[index + len(call.inputs) - 2].ndim
    most, count = call.constant([op.max_iterations]), call.add("Shape", scan, start=0, end=1)
    begin, end = call.constant([0]), call.add("Sub", most, count)
    if index < len(op.scan_output_directions) and op.scan_output_directions[index]:
        ends = np.iinfo(np.int64).min
        scan = call.add("Slice", scan, *(call.constant([n]) for n in (-1, ends, 0, -1)))
        room = call.add("Min", call.add("Reshape", limit, call.constant([1])), most)
        begin, end = call.add("Sub", room, count), call.add("Sub", most, room)
    zeros = call.constant([0] * (rank - 1))
    return call.add("Pad", scan, call.add("Concat", begin, zeros, end, zeros, axis=0))
