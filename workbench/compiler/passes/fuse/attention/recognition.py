"""Attention: recognising it between two products, and enclosing it in one group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.elementary import Exp, Log
from workbench.compiler.ops.movement import Layout
from workbench.compiler.ops.pointwise import Add, Div, Sub
from workbench.compiler.ops.reduce import ReduceMax, ReduceSum, Softmax
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Predicate,
    Rewriter,
    behind_broadcasts,
    rule,
)
from workbench.compiler.rewrite.bodies import Body, numbered_name

Members = set[Instruction]

_FARTHEST = 64
"""The most instructions that a search for a product visits; attention has a few."""


def is_relaid(value: Instruction) -> bool:
    """Whether a value only rearranges its input. A layout that the program asks for does not count."""
    op = value.op
    return op.rearranges is Rearrangement.RELAID and not isinstance(op, Layout)


def is_shaped(value: Instruction) -> bool:
    """Whether a value rearranges or repeats the elements of its input."""
    return is_relaid(value) or value.op.rearranges is Rearrangement.REPEATED


# The softmax


def softmax_input(value: Instruction) -> Instruction | None:
    """The x if ``value`` is softmax(x) in the form that ``rewrite_reduce`` writes; otherwise None."""
    if not isinstance(value.op, Div):
        return None
    power, total = value.inputs[0], behind_broadcasts(value.inputs[1])
    if (
        not isinstance(power.op, Exp)
        or not isinstance(total.op, ReduceSum)
        or total.inputs[0] is not power
    ):
        return None
    difference = power.inputs[0]
    if not isinstance(difference.op, Sub):
        return None
    scores, top = difference.inputs[0], behind_broadcasts(difference.inputs[1])
    return scores if isinstance(top.op, ReduceMax) and top.inputs[0] is scores else None


def softmax_behind(value: Instruction) -> Instruction | None:
    """The softmax behind ``value``, through elementwise work such as a conversion or a guard against NaN."""
    return next((i for i in look_through(value) if softmax_input(i) is not None), None)


def product_behind(scores: Instruction) -> Instruction | None:
    """The first ``dot`` behind ``scores``, through elementwise work and reshapes."""
    return next((i for i in look_through(scores, is_reshape) if isinstance(i.op, Dot)), None)


def is_reshape(value: Instruction) -> bool:
    """Whether a value is a ``reshape`` of another."""
    return isinstance(value.op, Reshape)


def look_through(value: Instruction, through: Predicate | None = None) -> Iterator[Instruction]:
    """A value and the values behind it, through elementwise work; depth first, without constants.

    Args:
        value: The value to start from.
        through: Whether to look through an operation that is not elementwise; by default never.
    """
    seen: set[Instruction] = set()
    stack = [value]
    while stack and len(seen) < _FARTHEST:
        current = stack.pop()
        if current in seen or current.constant:
            continue
        seen.add(current)
        yield current
        if current.op.pointwise or (through is not None and through(current)):
            stack += reversed(current.inputs)


# Attention that is not a group yet


def attention_ending_in(root: Instruction) -> tuple[Members, Instruction] | None:
    """The attention that ends in a product, whether or not it can be a group; None if there is none.

    Its softmax may be an operation of its own, and views may lie anywhere between the two products.

    Returns:
        The instructions from the first product to the last, and the softmax.
    """
    if not isinstance(root.op, Dot) or not root.inputs:
        return None
    for value in look_through(root.inputs[0], is_shaped):
        scores = value.inputs[0] if isinstance(value.op, Softmax) else softmax_input(value)
        if scores is None:
            continue
        first = next((i for i in look_through(scores, is_shaped) if isinstance(i.op, Dot)), None)
        if first is not None and first.module is root.module:
            return between(first, root), value
    return None


def attention_obstacle(root: Instruction, softmax: Instruction) -> str:
    """The operation between a softmax and the product after it that attention cannot contain."""
    inside = in_order(between(softmax, root))
    if dynamic := next((i for i in (root, *inside) if i.shape.dims is not None), None):
        return f"{dynamic.name} #{dynamic.id} has dynamic dimensions; a body has static ones"
    strange = next((i for i in inside if i not in (softmax, root) and not i.op.pointwise), None)
    if strange is None:
        return ""
    between_them = f"lies between the softmax #{softmax.id} and the product #{root.id}"
    return f"{strange.name} #{strange.id} {between_them}; in attention only elementwise work does"


# Members of the group


def between(first: Instruction, last: Instruction, allowed: Predicate | None = None) -> Members:
    """The instructions on the paths from ``first`` to ``last``, both included.

    Args:
        first: The start of the paths.
        last: The end of the paths.
        allowed: Whether a path may pass an instruction; by default every one.
    """
    cone = {last}
    stack = [last]
    while stack:
        for value in stack.pop().inputs:
            inside = value.module is last.module and value.order > first.order
            if inside and value not in cone and (allowed is None or allowed(value)):
                cone.add(value)
                stack.append(value)
    found = {first}
    for current in in_order(cone):
        if any(i in found for i in current.inputs):
            found.add(current)
    return found


def in_order(instructions: Iterable[Instruction]) -> list[Instruction]:
    """Instructions of one module in its order."""
    return sorted(instructions, key=lambda i: i.order)


def with_constants(members: Members) -> Members:
    """Members and the constants that they are computed from."""
    found, stack = set(members), list(members)
    while stack:
        for value in stack.pop().inputs:
            if value.constant and value not in found:
                found.add(value)
                stack.append(value)
    return found


def used_outside(instruction: Instruction, members: Collection[Instruction]) -> list[Instruction]:
    """Users that are not members."""
    return [u for u in instruction.users if u not in members]


def others(instruction: Instruction, members: Collection[Instruction]) -> str:
    """A reason that names an instruction's users outside the members."""
    listed = ", ".join(f"{u.name} #{u.id}" for u in used_outside(instruction, members))
    return f"{instruction.name} #{instruction.id} has other users: {listed}"


# The group


def enclose(
    members: Iterable[Instruction], results: Sequence[Instruction], stem: str, tag: str
) -> Instruction:
    """Move members into the body of a group, which is inserted right after the first of its results.

    Members with users outside are copied. The group's inputs move before it.
    """
    program, module = results[0].module.program, results[0].module
    inside = set(members)
    kept = needed_outside(inside, results)
    place = min(results, key=lambda i: i.order).following
    while place is not None and place in inside and place not in kept:
        place = place.following
    name, program.numbers[stem] = _next_name(program, stem)
    body = Body(program.create_module(name, bypass=True))
    for member in in_order(inside):
        if member in kept:
            _copy(body, member)
        else:
            body.take(member, keep_shape=member in results)
    place = lift(module, body.inputs, place)
    return body.enclose(module, place, results, "group", tag=tag)


def needed_outside(members: Members, results: Collection[Instruction]) -> Members:
    """Members, results aside, with users outside the group, and the members that they are computed from."""
    found: Members = set()
    for member in reversed(in_order(members)):
        if member not in results and any(u in found or u not in members for u in member.users):
            found.add(member)
    return found


def _next_name(program: Program, stem: str) -> tuple[str, int]:
    name, number = numbered_name(program, stem, program.numbers[stem])
    return name, number + 1


def _copy(body: Body, member: Instruction) -> None:
    if member.literal is not None:
        body.know(member, body.module.add_literal(member.literal))
    else:
        inputs = [body.inner(i) for i in member.inputs]
        body.know(member, body.module.add(member.op, *inputs, modules=member.modules))


def lift(
    module: Module, needed: Sequence[Instruction], place: Instruction | None
) -> Instruction | None:
    """Move instructions and their producers before a place; returns the place."""
    if place is None:
        return None
    late: set[Instruction] = set()
    stack = list(needed)
    while stack:
        value = stack.pop()
        if value.module is module and value.order >= place.order and value not in late:
            late.add(value)
            stack += value.inputs
    while place is not None and place in late:
        place = place.following
    for value in in_order(late):
        if place is not None and value.order > place.order:
            module.move(value, place)
    return place


def _has_softmax(product: Instruction) -> bool:
    return product.inputs[0].op.pointwise and softmax_behind(product.inputs[0]) is not None


@rule(Pattern(frozenset({"dot"}), binding="root", structure=_has_softmax))
def find_attention(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """dot(softmax(f(dot(q, k))), v) → group[tag=attention](q, k, v…)"""
    softmax = softmax_behind(root.inputs[0])
    scores = None if softmax is None else softmax_input(softmax)
    first = None if scores is None else product_behind(scores)
    if first is None or first.module is not root.module:
        return Decline("the softmax is not of a matrix product, queries by keys")
    members = between(first, root)
    if strange := [i for i in in_order(members) if not _belongs(i, first, root)]:
        one = strange[0]
        return Decline(f"{one.name} #{one.id} between the two products is not elementwise")
    results = _results(members, root)
    if isinstance(results, Decline):
        return results
    return enclose(with_constants(members), results, "attn", "attention")


def _belongs(instruction: Instruction, first: Instruction, last: Instruction) -> bool:
    op = instruction.op
    fits = op.pointwise or isinstance(op, ReduceMax | ReduceSum) or is_shaped(instruction)
    return fits or instruction in (first, last)


def _results(members: Members, root: Instruction) -> list[Instruction] | Decline:
    """The members with users outside: the last product, perhaps the log-sum-exp, which becomes a member."""
    used = [i for i in in_order(members) if i is not root and used_outside(i, members)]
    if not used:
        return [root]
    if {type(i.op) for i in used} != {ReduceMax, ReduceSum} or len(used) != 2:
        return Decline("; ".join(others(i, members) for i in used))
    top, total = sorted(used, key=lambda i: i.name)
    log = next((u for u in used_outside(total, members) if isinstance(u.op, Log)), None)
    add = None if log is None else log.only_user
    if log is None or add is None or not isinstance(add.op, Add) or set(add.inputs) != {log, top}:
        return Decline(f"{others(total, members)}; only max + log(sum) can be a second result")
    members |= {log, add}
    if left := [i for i in (top, total) if used_outside(i, members)]:
        return Decline("; ".join(others(i, members) for i in left))
    return [root, add]
