"""Fusion of elementwise work: every operation in a body of its own, then bodies joined along chains."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from workbench.compiler.argument import Argument
from workbench.compiler.bodies import Body, numbered_name
from workbench.compiler.errors import EvaluationError, OperationError
from workbench.compiler.ir import Instruction
from workbench.compiler.operation import Family
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.reshapes import build, chain_to, is_transform, transform_of
from workbench.compiler.passes.shape_transform import shortest
from workbench.compiler.program import Program
from workbench.compiler.reference import evaluate_constant
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Rewriter,
    Rule,
    behind_broadcasts,
    drive,
    op,
    rule,
)
from workbench.compiler.shape import Shape

_SERIES = "pointwise"

LARGEST_BODY = 256
"""Lines of a body beyond which no more is fused into it: registers and arguments of a kernel are few."""


def is_wrappable(instruction: Instruction) -> bool:
    """Whether an instruction is elementwise work that goes into a body (a ``layout`` does not)."""
    op = instruction.op
    return op.pointwise and op.name != "layout" and bool(instruction.inputs)


def scalar_constant(value: Instruction) -> Argument | None:
    """The one element that a constant repeats, as a scalar; None for anything else."""
    source = behind_broadcasts(value)
    shape = source.shape
    if shape.dims is not None or not shape.elements:
        return None
    if shape.elements != 1 and not shape.is_scalar:
        return None
    if not source.is_constant:
        return None
    try:
        element = np.asarray(evaluate_constant(source)).reshape(-1)[:1]
    except EvaluationError:  # it fails, or is too large: the run will say so, if it gets there
        return None
    return Argument(Shape.scalar(shape.type), element)


@rule(Pattern(binding="x", structure=is_wrappable), dynamic=True)
def wrap_pointwise(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """f(a, b…) → pointwise(a, b…), [f]"""
    found = {i: scalar_constant(i) for i in dict.fromkeys(x.inputs)}
    stem, program = f"{b.module.name}:{_SERIES}", b.program
    name, number = numbered_name(program, stem, program.numbers[stem])
    program.numbers[stem] = number + 1
    if all(found.values()):
        return Decline("every input is a scalar constant: it is folded, not fused")
    body = Body(program.create_module(name, bypass=True), scalars=True)
    for value, constant in found.items():
        body.know(value, body.module.add_literal(constant) if constant else body.inner(value))
    return body.stand_for(x, "pointwise")


def _behind_views(value: Instruction) -> Instruction:
    while (value.op.family is Family.VIEW and len(value.inputs) == 1) or value.name in (
        "reshape",
        "contiguous",
    ):
        value = value.inputs[0]
    return value


def _follows_pointwise(instruction: Instruction) -> bool:
    return any(_behind_views(i).name == "pointwise" for i in instruction.inputs)


def _producer(root: Instruction) -> Instruction | Decline:
    """The first input to fuse with: a ``pointwise`` of the same module that only ``root`` uses."""
    reasons: list[str] = []
    for value in dict.fromkeys(root.inputs):
        source = _behind_views(value)
        if source.name != "pointwise":
            continue
        if reason := _obstacle(root, value, source):
            reasons.append(reason)
        else:
            return source
    return Decline("; ".join(reasons))


def _obstacle(root: Instruction, value: Instruction, source: Instruction) -> str:
    """Why ``source`` cannot be fused into ``root``, which reads it as ``value``; empty if it can."""
    who = f"pointwise #{source.id}"
    if value is not source:
        return (
            f"{who} has lens {list(source.shape.lens)}, and {value.name} #{value.id} lies between: "
            f"it makes them {list(value.shape.lens)}"
        )
    if source.module is not root.module:
        return f"{who} is in module {source.module.name!r}, its user in {root.module.name!r}"
    if not (source.shape.is_tensor and root.shape.is_tensor):
        return f"{who} or its user has several results"
    if (parts := len(source.modules[0]) + len(root.modules[0])) > LARGEST_BODY:
        return f"{who} and its user would make a body of {parts} lines; at most {LARGEST_BODY}"
    if (users := source.users) != [root]:
        others = ", ".join(f"{u.name} #{u.id}" for u in users if u is not root)
        return f"{who} has other users: {others}"
    return ""


@rule(Pattern(frozenset({"pointwise"}), binding="root", structure=_follows_pointwise), dynamic=True)
def fuse_chain(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """pointwise(pointwise(x…), [f], y…), [g] → pointwise(x…, y…), [g after f]"""
    producer = _producer(root)
    if isinstance(producer, Decline):
        return producer
    body = Body(producer.modules[0], producer.inputs, scalars=True)
    body.know(producer, body.results[0])
    body.close(*body.absorb(root.modules[0], root.inputs))
    return body.attach(root)


def _feeds_pointwise(instruction: Instruction) -> bool:
    return len(instruction.inputs) == 1 and any(u.name == "pointwise" for u in instruction.users)


@rule(
    Pattern(
        frozenset({"multibroadcast"}),
        (op("pointwise", name="inner").once,),
        "root",
        structure=_feeds_pointwise,
    ).once
)
def broadcast_inputs(b: Rewriter, root: Instruction, inner: Instruction) -> Instruction | Decline:
    """multibroadcast(pointwise(x…)) → pointwise(multibroadcast(x)…)"""
    if not inner.shape.is_tensor:
        return Decline(f"pointwise #{inner.id} has several results")
    return b("pointwise", *[b(root.op, x) for x in inner.inputs], modules=inner.modules)


def _chain_over_pointwise(value: Instruction) -> tuple[list[Instruction], Instruction] | None:
    """The transforms that lead from a ``pointwise`` to ``value``, and that ``pointwise``."""
    if not is_transform(value):
        return None
    chain = chain_to(value)
    source = chain[0].inputs[0]
    moves = any(i.name not in ("broadcast", "multibroadcast", "contiguous") for i in chain)
    return (chain, source) if source.name == "pointwise" and moves else None


def _chain_obstacle(root: Instruction, chain: list[Instruction], source: Instruction) -> str:
    """Why work cannot move across the chain; empty if it can."""
    for one in (source, *chain):
        if one.only_user is None:
            return f"{one.name} #{one.id} has other users"
        if one.name in ("broadcast", "multibroadcast"):
            return f"{one.name} #{one.id} repeats elements"
    same = source.module is root.module and all(i.module is root.module for i in chain)
    tuples = not (source.shape.is_tensor and root.shape.is_tensor)
    return "" if same and not tuples else "modules differ, or a value has several parts"


@rule(
    Pattern(
        frozenset({"pointwise"}),
        binding="root",
        structure=lambda i: any(_chain_over_pointwise(x) for x in i.inputs),
    )
)
def move_transforms(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(g(x…)), y…) → f(g(reshape(x)…), y…), or reshape(f(g(x…))) without y"""
    reasons: list[str] = []
    for value in dict.fromkeys(root.inputs):
        found = _chain_over_pointwise(value)
        if found is None:
            continue
        chain, source = found
        if reason := _chain_obstacle(root, chain, source):
            reasons.append(reason)
        elif set(root.inputs) == {value}:
            return _move_root(b, root, chain, source)
        else:
            return _move_source(b, root, chain, source)
    return Decline("; ".join(reasons))


def _move_root(
    b: Rewriter, root: Instruction, chain: list[Instruction], source: Instruction
) -> Instruction:
    moved = result = b("pointwise", *[source] * len(root.inputs), modules=root.modules)
    for one in chain:
        result = b(one.op, result)
    root.module.replace(root, result)
    fuse_chain.apply_at(moved)  # at once: until then, a user of the result may move the chain back
    return result


def _move_source(
    b: Rewriter, root: Instruction, chain: list[Instruction], source: Instruction
) -> Instruction:
    steps = tuple(transform_of(i) for i in chain if i.name != "contiguous")
    inputs: list[Instruction] = []
    for value in source.inputs:
        before = chain_to(value)
        start = before[0].inputs[0] if before else value
        whole = tuple(transform_of(i) for i in before if i.name != "contiguous") + steps
        for one in shortest(start.shape.lens, whole):
            start = build(b, start, one)
        inputs.append(start)
    moved = b("pointwise", *inputs, modules=source.modules)
    root.module.replace(chain[-1], moved)
    return root


@register
class FusePointwise(RewritePass):
    """Elementwise operations become bodies of ``pointwise`` kernels, one kernel a chain of them.

    A value with several users is computed once, so it ends a kernel. Scalar constants go into the body.

    Attributes:
        rewrite_reshapes: Also fuse across reshapes and transposes, by moving work to their other side.
        rewrite_broadcasts: Also fuse across a ``multibroadcast``, by broadcasting what lies before it.
        multi_output: Also fuse what several kernels share, into one with several results. Not available yet.
    """

    name: ClassVar[str] = "fuse_pointwise"
    rules: ClassVar[tuple[Rule, ...]] = (
        wrap_pointwise,
        move_transforms,
        broadcast_inputs,
        fuse_chain,
    )
    rewrite_reshapes: bool = True
    rewrite_broadcasts: bool = False
    multi_output: bool = False

    def apply(self, program: Program) -> None:
        """Wrap every elementwise operation, then join the bodies.

        Raises:
            OperationError: An option that is not available is switched on.
        """
        if self.multi_output:
            raise OperationError(
                f"{self.name}: multi_output=True is not available yet; leave it out"
            )
        program.numbers.clear()
        drive(program, (wrap_pointwise,))
        rules = [fuse_chain]
        if self.rewrite_broadcasts:
            rules.append(broadcast_inputs)
        if self.rewrite_reshapes:
            rules.append(move_transforms)
        drive(program, rules)
