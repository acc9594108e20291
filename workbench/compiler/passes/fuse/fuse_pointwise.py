"""Fusion of elementwise work: each operation gets a body, then bodies are merged along chains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import Pointwise
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.passes.base import RewritePass, open_modules, register
from workbench.compiler.passes.fuse.kernels.chains import POINTWISE, Chains, Node, wrap_chain
from workbench.compiler.passes.fuse.kernels.common_space import (
    STAYING,
    join_kernels,
    rewrite_pointwise_reshapes,
)
from workbench.compiler.passes.fuse.kernels.outputs import fuse_shared, fuse_siblings
from workbench.compiler.passes.fuse.kernels.pairs import (
    behind_views,
    listed,
    pointwise_obstacle,
    who,
)
from workbench.compiler.passes.fuse.kernels.sweep import sweep
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.passes.tidy.eliminate_identity import find_identity
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Rewriter,
    Rule,
    behind_broadcasts,
    candidates,
    drive,
    first_applied,
    is_pointwise,
    rule,
)
from workbench.compiler.rewrite.bodies import Body
from workbench.compiler.run.constants import evaluate_constant

_SERIES = "pointwise"


def is_wrappable(instruction: Instruction) -> bool:
    """Whether an instruction is elementwise work that goes into a body; a ``layout`` does not."""
    op = instruction.op
    return op.pointwise and bool(instruction.inputs)


def scalar_constant(value: Instruction) -> Argument | None:
    """The element of a one-element constant, perhaps broadcast, as a scalar; otherwise None."""
    source = value if value.literal is not None else behind_broadcasts(value)
    shape = source.shape
    if not source.constant or shape.dims is not None:
        return None
    if shape.elements != 1 and not (shape.elements and shape.is_scalar):
        return None
    try:
        found = (
            evaluate_constant(source, source.module.program.evaluated)
            if source.literal is None
            else source.literal.numpy()
        )
    except EvaluationError:  # it fails or is too large: a run reports it if it gets there
        return None
    return Argument(Shape.scalar(shape.type), np.asarray(found).reshape(-1)[:1])


@rule(Pattern(binding="x", kind=is_pointwise, structure=is_wrappable), dynamic=True)
def wrap_pointwise(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """f(a, b…) → pointwise(a, b…), [f]"""
    found, ((name, _),) = _constants(x), _next_names(b.module, 1)
    if reason := _wrapping_obstacle(x, found):
        return Decline(reason)
    return _wrapped(x, found, name, x.shape if _is_settled(x, found) else None)


def _wrapped(
    x: Instruction, inputs: Mapping[Instruction, Argument | None], name: str, shape: Shape | None
) -> Instruction:
    """The kernel of one instruction, whose inputs and their elements are given; and its shape, if known."""
    body = Body(x.module.program.create_module(name, bypass=True), scalars=True)
    body.fill([(value, element, x.sources) for value, element in inputs.items()])
    return body.stand_for_all([x], POINTWISE, shape, x.sources)


def _constants(x: Instruction) -> dict[Instruction, Argument | None]:
    """The inputs of an instruction, each with its element if it is a scalar constant."""
    found: dict[Instruction, Argument | None] = {}
    for value in x.inputs:
        if value not in found:
            possible = value.constant or isinstance(value.op, STAYING)
            found[value] = scalar_constant(value) if possible else None
    return found


def _next_names(module: Module, count: int) -> list[tuple[str, int]]:
    """The names of the next bodies of a module, and their numbers."""
    series, program = f"{module.name}:{_SERIES}", module.program
    number, found = program.numbers[series], list[tuple[str, int]]()
    taken = program.modules
    for _ in range(count):
        while (name := f"{series}{number}") in taken:
            number += 1
        found.append((name, number))
        number += 1
    program.numbers[series] = number
    return found


def _wrapping_obstacle(x: Instruction, found: Mapping[Instruction, Argument | None]) -> str:
    """The reason why an instruction cannot become a kernel; empty if it can."""
    if None not in found.values():
        return "every input is a scalar constant: it is folded, not fused"
    if x.shape.dims is not None:
        if _chooses(x):
            return "one condition chooses among operands whose lengths a run may tell apart"
        return ""
    lens = x.shape.lens
    for value, element in found.items():
        if value.shape.lens != lens and value.shape.dims is None:
            if element is not None:
                break
            return f"{who(value)} has lens {list(value.shape.lens)}, not {list(lens)}"
    return ""


def _chooses(x: Instruction) -> bool:
    """Whether an instruction has a condition of one element for operands of any lens."""
    shapes = [i.shape for i in x.inputs]
    return isinstance(x.op, Pointwise) and len(x.op.alike(shapes)) < len(shapes)


def _is_settled(x: Instruction, inputs: Mapping[Instruction, Argument | None]) -> bool:
    """Whether a body gives its result the shape that it has outside.

    It does if it sees its inputs in the layouts that they have outside: none is broadcast, or the others and
    the result are row-major. Constants of one element are broadcast in the body, so they must be scalars.
    """
    if x.shape.dims is not None:
        return False
    spread, whole = False, True
    for value, constant in inputs.items():
        shape = value.shape
        if constant is None:
            if shape.broadcasted:
                spread = True
            elif not shape.is_row_major:
                whole = False
        elif not shape.is_scalar:
            return False
    return not spread or (whole and x.shape.is_row_major)


def _follows_pointwise(instruction: Instruction) -> bool:
    for given in instruction.inputs:  # noqa: SIM110 (a loop is faster)
        if isinstance(behind_views(given).op, PointwiseModule):
            return True
    return False


@rule(Pattern(frozenset({"pointwise"}), binding="root", structure=_follows_pointwise), dynamic=True)
def fuse_chain(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """pointwise(pointwise(x…), [f], y…), [g] → pointwise(x…, y…), [g after f]"""
    reasons: dict[Instruction, str] = {}
    for value in dict.fromkeys(root.inputs):
        producer = behind_views(value)
        if isinstance(producer.op, PointwiseModule) and producer not in reasons:
            reason = pointwise_obstacle(producer, root, value)
            if not reason:
                return _chained(producer, root)
            reasons[producer] = reason
    return Decline("; ".join(reasons.values()))


def _chained(producer: Instruction, root: Instruction) -> Instruction:
    """The root with the body of a producer before its own."""
    body = Body(producer.modules[0], producer.inputs, scalars=True)
    body.know(producer, body.results[0])
    body.close(*body.absorb(root.modules[0], root.inputs))
    return body.attach(root)


def _between_pointwise(instruction: Instruction) -> bool:
    return follows_pointwise(instruction, PointwiseModule)


def follows_pointwise(instruction: Instruction, reader: type[Operation]) -> bool:
    """Whether an instruction's first input is elementwise work and one of its users is a ``reader``."""
    inputs, users = instruction.inputs, instruction.users
    return (
        bool(inputs)
        and isinstance(inputs[0].op, PointwiseModule)
        and any(isinstance(u.op, reader) for u in users)
    )


@rule(
    Pattern(frozenset({"multibroadcast"}), binding="root", structure=_between_pointwise),
    dynamic=True,
)
def broadcast_inputs(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """multibroadcast(pointwise(x…)) → pointwise(multibroadcast(x)…)"""
    return broadcast_first(b, root)


def broadcast_first(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """A broadcast of elementwise work as work on broadcast inputs; or the other users of either."""
    inner, *like = root.inputs
    if not inner.shape.is_tensor:
        return Decline(f"{who(inner)} has several results")
    for one, user in ((inner, root), (root, root.only_user)):
        if others := [u for u in one.users if u is not user]:
            return Decline(f"{who(one)} has other users: {listed(others)}")
    return b("pointwise", *[b(root.op, x, *like) for x in inner.inputs], modules=inner.modules)


# Chains


def wrap_all(program: Program, clearing: Collection[Rule]) -> None:
    """Make kernels of all elementwise operations, one of each chain that nothing else can change.

    Args:
        program: The program.
        clearing: The rules that move kernels into other dimensions before they are merged.
    """
    named = {m: _names(m) for m in open_modules(program)}
    version = program.version
    DeadCodeElimination().apply(program)
    for module in open_modules(program):
        names = named[module]
        if program.version != version:  # by it, or by kernels of another module
            names = {x: name for x, name in names.items() if program.find(x.id) is x}
        if names:
            _wrap_module(_chains(module, names, clearing), names)


def _names(module: Module) -> dict[Instruction, tuple[str, int]]:
    """The name of the body of each elementwise operation in a module, and its number."""
    kinds = set(filter(is_pointwise, set(module.kinds)))
    found = [x for x in module.of_kinds(kinds) if is_wrappable(x)]
    return dict(zip(found, _next_names(module, len(found)), strict=True))


def _wrap_module(chains: Chains, names: Mapping[Instruction, tuple[str, int]]) -> None:
    """Make the kernels of a module that are planned, and those that rules make one by one.

    The plan holds as long as each of the latter has the shape of what it replaces, which was no constant.
    """
    chains.merge()
    made: dict[Instruction, Instruction] = {}
    holds = True
    of = chains.of
    for x in names:
        node = of.get(x)
        if node is None or node.is_fixed:
            shape, holds = x.shape, holds and not x.constant
            _wrap_each([x], names, made)
            holds = holds and (x not in made or made[x].shape == shape)
        elif node.root is x:
            if holds or _still_fits(node):
                made[x] = _planned(node, names[node.kernel.parts[0]][0], made)
            else:
                _wrap_each(sorted(node.kernel.parts, key=lambda i: i.order), names, made)


def _still_fits(node: Node) -> bool:
    """Whether a kernel of several instructions can be made although shapes of operands have changed."""
    parts = node.kernel.parts
    return len(parts) > 1 and all(_is_settled(part, _constants(part)) for part in parts)


def _planned(node: Node, name: str, made: Mapping[Instruction, Instruction]) -> Instruction:
    """Make a kernel as it is planned."""
    root = node.root
    if len(node.kernel.parts) > 1:
        return wrap_chain(root, node.kernel, name, made)
    with root.module.program.edit(wrap_pointwise, root, root.sources):
        inputs = {made.get(value, value): element for value, element in node.constants.items()}
        return _wrapped(root, inputs, name, root.shape)


def _wrap_each(
    chain: Sequence[Instruction],
    names: Mapping[Instruction, tuple[str, int]],
    made: dict[Instruction, Instruction],
) -> None:
    """Make a kernel of each of some instructions."""
    among, module = candidates((wrap_pointwise,)), chain[0].module
    for x in chain:
        if x.module is module and module.program.find(x.id) is x:
            module.program.numbers[f"{module.name}:{_SERIES}"] = names[x][1]
            if (kernel := first_applied(among.at(x), x)) is not None:
                made[x] = kernel


def _chains(module: Module, own: Collection[Instruction], clearing: Collection[Rule]) -> Chains:
    """The kernels of single operations, which are given, and those that are there."""
    chains = Chains()
    kinds = {PointwiseModule, *filter(is_pointwise, set(module.kinds))}
    for x in module.of_kinds(kinds):
        if x in own:
            found = _constants(x)
            if _wrapping_obstacle(x, found):
                continue
            node = Node(len(chains.all), x, found)
            node.is_fixed = x.constant or not _is_settled(x, found)
            chains.add(node)
        elif isinstance(x.op, PointwiseModule) and x.shape.is_tensor:
            chains.add(Node(len(chains.all), x))
    if clearing:
        chains.fix_beside_views(() if broadcast_inputs in clearing else STAYING)
    return chains


JOINS = (fuse_chain, fuse_shared, fuse_siblings)


@register
class FusePointwise(RewritePass):
    """Elementwise operations become bodies of ``pointwise`` kernels, one kernel per chain.

    A value with several users is computed once: it ends its kernel, unless kernels may have several
    results. Scalar constants go into the body.

    Attributes:
        enable_rewrite_reshapes: Also fuse across reshapes and transposes, by working in common dimensions
            that both sides can be reshaped to.
        enable_rewrite_broadcasts: Also fuse across a ``multibroadcast``, by broadcasting the inputs of
            the work before it.
        enable_multi_output: Also fuse kernels that share an input, and producers with other users, into
            kernels with several results.
        stepwise: Make a kernel of each operation first, and then one of two, edit by edit, as MIGraphX does.
            The result is the same as with one edit for each chain.
    """

    name = "fuse_pointwise"
    rules = (
        wrap_pointwise, rewrite_pointwise_reshapes, broadcast_inputs, fuse_chain, fuse_shared,
        fuse_siblings,
    )  # fmt: skip
    enable_rewrite_reshapes: bool = True
    enable_rewrite_broadcasts: bool = False
    enable_multi_output: bool = False
    stepwise: bool = False

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options switch on, and those that no option controls."""
        switched = {
            rewrite_pointwise_reshapes: self.enable_rewrite_reshapes,
            broadcast_inputs: self.enable_rewrite_broadcasts,
            fuse_shared: self.enable_multi_output,
            fuse_siblings: self.enable_multi_output,
        }
        return tuple(r for r in self.rules if switched.get(r, True))

    def apply(self, program: Program) -> None:
        """Wrap every elementwise operation, then merge the bodies."""
        drive(program, (find_identity,))
        rules = [r for r in self.active if r is not wrap_pointwise]
        joins, clearing = [r for r in rules if r in JOINS], [r for r in rules if r not in JOINS]
        program.numbers.clear()
        whole = joins == [fuse_chain] and wrap_pointwise in self.active
        if whole and not self.stepwise and not program.newest_first:
            wrap_all(program, clearing)
        else:
            sweep(program, [r for r in self.active if r is wrap_pointwise])
        program.evaluated.clear()
        join_kernels(program, joins, clearing)
