"""Fusion of elementwise work: each operation gets a body, then bodies are merged along chains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import Pointwise
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.fuse.kernels.common_space import (
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
from workbench.compiler.passes.tidy.eliminate_identity import find_identity
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Rewriter,
    Rule,
    behind_broadcasts,
    drive,
    is_pointwise,
    rule,
)
from workbench.compiler.rewrite.bodies import Body, keeps_shape, numbered_name
from workbench.compiler.run.constants import evaluate_constant

_SERIES = "pointwise"


def is_wrappable(instruction: Instruction) -> bool:
    """Whether an instruction is elementwise work that goes into a body; a ``layout`` does not."""
    op = instruction.op
    return op.pointwise and bool(instruction.inputs)


def scalar_constant(value: Instruction) -> Argument | None:
    """The element of a one-element constant, perhaps broadcast, as a scalar; otherwise None."""
    source = behind_broadcasts(value)
    shape = source.shape
    if not source.constant or shape.dims is not None or not shape.elements:
        return None
    if shape.elements != 1 and not shape.is_scalar:
        return None
    try:
        found = evaluate_constant(source, source.module.program.evaluated)
        element = np.asarray(found).reshape(-1)[:1]
    except EvaluationError:  # it fails or is too large: a run reports it if it gets there
        return None
    return Argument(Shape.scalar(shape.type), element)


@rule(Pattern(binding="x", kind=is_pointwise, structure=is_wrappable), dynamic=True)
def wrap_pointwise(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """f(a, b…) → pointwise(a, b…), [f]"""
    found = {i: scalar_constant(i) for i in dict.fromkeys(x.inputs)}
    stem, program = f"{b.module.name}:{_SERIES}", b.program
    name, number = numbered_name(program, stem, program.numbers[stem])
    program.numbers[stem] = number + 1
    if all(found.values()):
        return Decline("every input is a scalar constant: it is folded, not fused")
    other = next((i for i in found if i.shape.dims is None and i.shape.lens != x.shape.lens), None)
    if other is not None and not found[other] and x.shape.dims is None:
        return Decline(f"{who(other)} has lens {list(other.shape.lens)}, not {list(x.shape.lens)}")
    if x.shape.dims is not None and _chooses(x):
        return Decline("one condition chooses among operands whose lengths a run may tell apart")
    body = Body(program.create_module(name, bypass=True), scalars=True)
    for value, constant in found.items():
        if constant:
            body.know(value, body.module.add_literal(constant))
        else:
            body.inner(value)
    return body.stand_for(x, "pointwise", x.shape if _is_settled(x, found) else None)


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
    values = [value for value, constant in inputs.items() if not constant]
    if not all([value.shape.is_scalar for value, constant in inputs.items() if constant]):  # noqa: C419
        return False
    return keeps_shape(x.shape, values) or not any([v.shape.broadcasted for v in values])  # noqa: C419


def _follows_pointwise(instruction: Instruction) -> bool:
    for given in instruction.inputs:  # noqa: SIM110 (a loop is faster)
        if isinstance(behind_views(given).op, PointwiseModule):
            return True
    return False


@rule(Pattern(frozenset({"pointwise"}), binding="root", structure=_follows_pointwise), dynamic=True)
def fuse_chain(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """pointwise(pointwise(x…), [f], y…), [g] → pointwise(x…, y…), [g after f]"""
    reasons: dict[str, None] = {}
    for producer in map(behind_views, dict.fromkeys(root.inputs)):
        if isinstance(producer.op, PointwiseModule):
            reason = pointwise_obstacle(producer, root)
            if not reason:
                return _chained(producer, root)
            reasons[reason] = None
    return Decline("; ".join(reasons))


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
    """

    name = "fuse_pointwise"
    rules = (
        wrap_pointwise, rewrite_pointwise_reshapes, broadcast_inputs, fuse_chain, fuse_shared,
        fuse_siblings,
    )  # fmt: skip
    enable_rewrite_reshapes: bool = True
    enable_rewrite_broadcasts: bool = False
    enable_multi_output: bool = False

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
        program.numbers.clear()
        sweep(program, [r for r in self.active if r is wrap_pointwise])
        program.evaluated.clear()
        rules = [r for r in self.active if r is not wrap_pointwise]
        join_kernels(
            program, [r for r in rules if r in JOINS], [r for r in rules if r not in JOINS]
        )
