"""Conditions of fusion for any two instructions of a program."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.reduce import is_reduction
from workbench.compiler.passes.fuse.fuse_pointwise import is_wrappable
from workbench.compiler.passes.fuse.kernels.common_space import chain_between, space_obstacle
from workbench.compiler.passes.fuse.kernels.outputs import outputs_obstacle
from workbench.compiler.passes.fuse.kernels.pairs import (
    behind_views,
    in_between,
    is_kernel,
    link_obstacle,
    links,
    pointwise_obstacle,
    who,
)


def obstacle(producer: Instruction, user: Instruction) -> str:
    """The reason why a user and an operand cannot become one kernel; empty if there is none."""
    for one in (producer, user):
        if not is_kernel(one) or one.module.bypass:
            return _no_kernel(one)
    if not any(behind_views(i) is producer for i in user.inputs):
        return _apart(producer, user)
    if any(chain_between(i, producer) for i in user.inputs):
        return space_obstacle(producer, user)
    if all(isinstance(k.op, PointwiseModule) for k in (producer, user)):
        return pointwise_obstacle(producer, user)
    reasons = [
        link_obstacle(user, k) for k in links(user, type(producer.op)) if k.producer is producer
    ]
    return "" if "" in reasons else "; ".join(reasons) or in_between(producer, user)


def _no_kernel(one: Instruction) -> str:
    if one.module.bypass:
        return f"{who(one)} is already in the body {one.module.name!r} of a kernel"
    for does, name in ((is_wrappable, "fuse_pointwise"), (is_reduction, "fuse_reduce")):
        if does(one):
            constant = (
                "it is constant, and will be folded" if one.is_constant else f"{name} has not run"
            )
            return f"{who(one)} is not in a kernel: {constant}"
    return f"{who(one)} is neither elementwise work nor a reduction"


def _apart(producer: Instruction, user: Instruction) -> str:
    """The reason why two kernels, neither of which reads the other, stay separate."""
    if user.module is producer.module and user.order < producer.order:
        return f"{who(user)} comes before {who(producer)}"
    if last := _last_before(producer, user):
        return f"{who(user)} depends on {who(producer)} through {who(last)}, which is between them"
    shared = next((i for i in user.inputs if i in producer.inputs), None)
    if shared is None:
        return f"{who(user)} neither depends on {who(producer)} nor shares an input with it"
    if not isinstance(producer.op, PointwiseModule) or not isinstance(user.op, PointwiseModule):
        kinds = f"{producer.name} and {user.name}"
        return f"{who(user)} does not depend on {who(producer)}; {kinds} sharing only an input stay separate"
    return outputs_obstacle(producer, user)


def _last_before(producer: Instruction, user: Instruction) -> Instruction | None:
    """The operand of ``user`` that depends on ``producer``; None if none does."""
    seen: set[Instruction] = set()
    stack = [(i, i) for i in user.inputs]
    while stack:
        value, first = stack.pop()
        if value is producer:
            return behind_views(first)
        if value not in seen:
            seen.add(value)
            stack += [(i, first) for i in value.inputs]
    return None
