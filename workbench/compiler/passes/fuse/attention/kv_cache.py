"""Attention to a cache of keys and values, as in step-by-step text generation."""

from __future__ import annotations

import heapq

import numpy as np

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ops.attention import ConcatPastPresent
from workbench.compiler.ops.broadcast import Multibroadcast
from workbench.compiler.ops.compare import Greater, Where
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.reduce import ReduceMax, ReduceSum, Softmax
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Transpose
from workbench.compiler.passes.fuse.attention.recognition import (
    Members,
    between,
    enclose,
    in_order,
    is_reshape,
    is_shaped,
    look_through,
    needed_outside,
    others,
    product_behind,
    softmax_behind,
    softmax_input,
    used_outside,
    with_constants,
)
from workbench.compiler.rewrite import Decline, Rewriter, op, rule
from workbench.compiler.run.constants import evaluate_constant

_LAST_AXIS_ONLY = (0, 0, 0, 1)
"""Strides of a vector broadcast to four axes, along all but the last."""


def _cache_behind(value: Instruction) -> bool:
    while is_shaped(value) and len(value.inputs) == 1:
        value = value.inputs[0]
    return isinstance(value.op, ConcatPastPresent)


def _product(reshape: Instruction) -> Instruction | None:
    """The second product of the attention that a reshape ends, perhaps behind a transpose."""
    value = reshape.inputs[0]
    value = value.inputs[0] if isinstance(value.op, Transpose) else value
    return value if isinstance(value.op, Dot) else None


def _takes_cache(reshape: Instruction) -> bool:
    """Whether a reshape ends an attention whose values are a cache."""
    product = _product(reshape)
    return product is not None and _cache_behind(product.inputs[1])


def _scores(product: Instruction) -> Instruction | None:
    """The scores whose softmax the product multiplies."""
    softmax = softmax_behind(product.inputs[0])
    return None if softmax is None else softmax_input(softmax)


def _length(scores: Instruction) -> Instruction | None:
    """The length of each sequence, which the mask compares key positions with; None without a mask."""
    for value in look_through(scores, is_reshape):
        if isinstance(value.op, Where):
            mask = look_through(value.inputs[0], is_shaped)
            if greater := next((i for i in mask if isinstance(i.op, Greater)), None):
                return greater.inputs[1]
    return None


@rule(op("reshape", name="root").when(_takes_cache))
def find_kv_cache_attention(b: Rewriter, root: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """reshape(transpose(dot(softmax(f(dot(q, k))), v))) → group[tag=kv_cache_attention](q, k, v…)"""
    second = _product(root)
    scores = None if second is None else _scores(second)
    first = None if scores is None else product_behind(scores)
    if second is None or scores is None or first is None:
        return Decline("the cache of values is not multiplied by a softmax of a product")
    if not _cache_behind(first.inputs[1]):
        return Decline(f"the keys of dot #{first.id} are not a cache, but the values are")
    if (length := _length(scores)) is None:
        return Decline(f"no mask on dot #{first.id} hides keys beyond the length of the sequence")
    members = _members(root, (first, second), length)
    if first not in members:
        return Decline(_why_left_out(scores, members))
    kept = [i for i in in_order(needed_outside(members, [root])) if not _is_cheap(i)]
    if kept:
        return Decline("; ".join(others(i, members) for i in kept[-1:]))
    group = enclose(members, [root], "attn", "kv_cache_attention")
    _shorten_vectors(group.modules[0])
    return group


def _why_left_out(scores: Instruction, members: Members) -> str:
    """The users outside the group of the instructions from the first product to the scores."""
    way = look_through(scores, is_reshape)
    used = [i for i in way if i not in members and any(u in members for u in i.users)]
    return "; ".join(others(i, members) for i in used if used_outside(i, members))


def _is_cheap(instruction: Instruction) -> bool:
    """Whether an instruction is cheap enough to compute twice."""
    return instruction.constant or instruction.op.pointwise or is_shaped(instruction)


def _members(root: Instruction, products: tuple[Instruction, ...], length: Instruction) -> Members:
    """The instructions from the length to the root, and those that only they use."""

    def allowed(instruction: Instruction) -> bool:
        op = instruction.op
        inside = isinstance(op, Slice | Softmax | ReduceMax | ReduceSum)
        return op.pointwise or inside or is_shaped(instruction) or instruction in products

    members = between(length, root, allowed)
    if not allowed(length):
        members.discard(length)
    waiting: list[tuple[int, int, Instruction]] = []
    _wait(waiting, members)
    queued = set(members)
    while waiting:  # users come before their operands
        value = heapq.heappop(waiting)[2]
        if value in queued or not allowed(value) or value.module is not root.module:
            continue
        queued.add(value)
        if value.constant or all(u in members for u in value.users):
            members.add(value)
            _wait(waiting, [value])
    return with_constants(members)


def _wait(waiting: list[tuple[int, int, Instruction]], users: Members | list[Instruction]) -> None:
    for user in users:
        for value in user.inputs:
            heapq.heappush(waiting, (-value.order, value.id, value))


def _shorten_vectors(body: Module) -> None:
    """Replace constants of four axes that vary only along the last by broadcast vectors."""
    for value in list(body):
        if not value.constant or value.shape.strides != _LAST_AXIS_ONLY:
            continue
        if isinstance(value.op, Multibroadcast) and value.inputs[0].shape.ndim == 1:
            continue
        vector = np.ascontiguousarray(evaluate_constant(value)[0, 0, 0])
        short = body.add_literal(vector)
        body.replace(value, body.insert(value, "multibroadcast", short, out_lens=value.shape.lens))
