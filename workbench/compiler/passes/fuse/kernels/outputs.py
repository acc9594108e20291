"""Elementwise kernels with several results: kernels that share an input, or a producer with other users."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.passes.fuse.kernels.pairs import LARGEST_BODY, lines, listed, who
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, rule
from workbench.compiler.rewrite.bodies import Body


def _pointwise_inputs(instruction: Instruction) -> list[Instruction]:
    return [i for i in dict.fromkeys(instruction.inputs) if isinstance(i.op, PointwiseModule)]


def _reads_pointwise(instruction: Instruction) -> bool:
    return any(isinstance(i.op, PointwiseModule) for i in instruction.inputs)


def outputs_obstacle(producer: Instruction, user: Instruction) -> str:
    """The reason why two ``pointwise``, one perhaps reading the other, cannot merge; empty if they can."""
    if producer.module is not user.module:
        return f"{who(producer)} is in module {producer.module.name!r}, not {user.module.name!r}"
    if (parts := lines(producer.modules[0], user.modules[0])) > LARGEST_BODY:
        return f"{who(producer)} and {who(user)} would make a body of {parts} lines; at most {LARGEST_BODY}"
    for one in (producer, user):
        if one.shape.is_tuple and any(not isinstance(u.op, GetTupleElem) for u in one.users):
            return f"all results of {who(one)} are used together: {listed(one.users)}"
    between = _between(producer, user)
    return between if isinstance(between, str) else ""


def _between(producer: Instruction, user: Instruction) -> list[Instruction] | str:
    """The direct and indirect users of ``producer`` before ``user``, in order; or an obstacle."""
    found: dict[Instruction, None] = {}
    stack = [u for u in producer.users if u is not user]
    while stack:
        one = stack.pop()
        if one.module is not user.module:
            stack += _callers(one.module, user.module)
            continue
        if one is user:
            return f"{who(user)} depends on {who(producer)} through other users, which must stay between"
        if one not in found and one.order < user.order:
            found[one] = None
            stack += one.users
    return sorted(found, key=lambda i: i.order)


def _callers(inner: Module, module: Module) -> list[Instruction]:
    """The instructions of a module that call another one, or a module that does."""
    found: list[Instruction] = []
    for instruction in module:
        seen: set[Module] = set()
        stack = list(instruction.modules)
        while stack:
            one = stack.pop()
            if one not in seen:
                seen.add(one)
                stack += [m for i in one.calling for m in i.modules]
        if inner in seen:
            found.append(instruction)
    return found


def join(producer: Instruction, user: Instruction) -> Instruction:
    """Merge two kernels into one, with the results of ``user`` followed by those of ``producer``."""
    between, module = _between(producer, user), user.module
    assert isinstance(between, list)
    body = Body(producer.modules[0], producer.inputs, scalars=True)
    if producer.shape.is_tensor:
        body.know(producer, body.results[0])
    own, emptied = body.results, user.modules[0]
    body.close(*body.absorb(emptied, user.inputs), *own)
    fused = module.insert(user, user.op, *body.inputs, modules=[body.module])
    module.set_sources(fused, (*producer.sources, *user.sources))
    module.set_modules(user, [body.module])  # until it is removed
    anchor = user.following
    for one in reversed(between):
        if not (isinstance(one.op, GetTupleElem) and one.inputs == (producer,)):
            module.move(one, anchor)
            anchor = one
    _take_results(fused, user, 0)
    _take_results(fused, producer, len(body.module.outputs) - len(own))
    module.program.remove_module(emptied)
    return fused


def _take_results(fused: Instruction, old: Instruction, start: int) -> None:
    """Replace the results of ``old`` by elements of the new tuple, beginning at ``start``."""
    module = fused.module
    elements: Sequence[Instruction] = [old] if old.shape.is_tensor else old.users
    for one in elements:
        index = start + (one.op.attributes()["index"] if one is not old else 0)
        place = fused.following
        while (
            place is not None
            and place.inputs == (fused,)
            and place.op.attributes()["index"] < index
        ):
            place = place.following
        module.replace(one, module.insert(place, "get_tuple_elem", fused, index=index))


@rule(Pattern(frozenset({"pointwise"}), binding="root", structure=_reads_pointwise), dynamic=True)
def fuse_shared(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """pointwise(a, y…), a = pointwise(x…) used elsewhere too → pointwise(x…, y…), with a as a result"""
    reasons: list[str] = []
    for producer in _pointwise_inputs(root):
        if producer.shape.is_tensor and producer.only_user is root:
            reasons.append(f"{who(producer)} has no other user: fuse_chain merges them")
        elif reason := outputs_obstacle(producer, root):
            reasons.append(reason)
        else:
            return join(producer, root)
    return Decline("; ".join(reasons))


def _siblings(instruction: Instruction) -> list[Instruction]:
    """The ``pointwise`` of the same module that read a value, in order."""
    module = instruction.module
    found = [
        u for u in instruction.users if isinstance(u.op, PointwiseModule) and u.module is module
    ]
    return sorted(found, key=lambda i: i.order)


def _reach(start: Instruction, last: Instruction, found: set[Instruction]) -> None:
    """Add to ``found`` the instructions that depend on ``start`` and do not come after ``last``."""
    stack = [start]
    while stack:
        for user in stack.pop().users:
            if user not in found and (user.module is not last.module or user.order <= last.order):
                found.add(user)
                stack.append(user)


@rule(Pattern(binding="root", structure=lambda i: len(_siblings(i)) > 1), dynamic=True)
def fuse_siblings(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """f(x, y…), g(x, z…) → pointwise(x, y…, z…), with both as results"""
    first, *others = _siblings(root)
    fused, reasons, reached = first, list[str](), set[Instruction]()
    _reach(first, others[-1], reached)
    for other in others:
        if other in reached:
            reasons.append(f"{who(other)} depends on {who(first)}, which also reads {who(root)}")
        elif reason := outputs_obstacle(fused, other):
            reasons.append(reason)
        else:
            _reach(other, others[-1], reached)
            fused = join(fused, other)
    return root if fused is not first else Decline("; ".join(reasons[:3]))
