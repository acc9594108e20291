"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.stablehlo.context import Context, standardised
from workbench.compiler.stablehlo.registry import find, stablehlo_op

SAME = {"Sharding", "annotate_device_placement", "SPMDFullToShardShape", "SPMDShardToFullShape"}
"""Targets of custom calls that say where a value is, which is here already."""

FOREVER = (1 << 31) - 1
"""The limit of a loop that ends by its condition."""


@stablehlo_op("func.call")
def call(node: Context, *operands: Instruction) -> list[Instruction]:
    """The results of a function, inlined."""
    name = node.attribute("callee").value
    return node.owner.called(name, node.op, node.frame, operands)


@stablehlo_op("composite")
def composite(node: Context, *operands: Instruction) -> Any:
    """An operation with a name of its own: by the handler of that name, or else by its decomposition."""
    handler = find(node.attribute("name").value)
    if handler is None:
        name = node.attribute("decomposition").value
        return node.owner.called(name, node.op, node.frame, operands)
    attributes = node.attribute("composite_attributes")
    given: Any = {} if attributes is None else attributes
    return handler(Context(node.owner, node.op, node.frame, given), *operands)


@stablehlo_op("custom_call")
def custom_call(node: Context, *operands: Instruction) -> Any:
    """A call of a library, if it only says where a value is, or if its target has a handler.

    Raises:
        ModelError: It is another one; the message names it.
    """
    target = node.attribute("call_target_name").value
    if target in SAME:
        return list(operands)
    handler = find(f"custom_call.{target}")
    if handler is None:
        raise node.fail(
            f"a custom call of {target[:80]!r}, which is code outside the module; expected operations, or a "
            f"handler registered as stablehlo_op('custom_call.{target[:80]}')"
        )
    return handler(node, *operands)


@stablehlo_op("if", "case")
def case(node: Context, chosen: Instruction) -> list[Instruction]:
    """The results of one of several branches; an index out of range takes the last."""
    count = len(node.op.regions)
    known = node.constant(chosen)
    is_bool = chosen.shape.type is DType.BOOL
    if known is not None:
        index = int(known.reshape(-1)[0])
        index = 1 - index if is_bool else index if 0 <= index < count else count - 1
        return node.region(index, [])
    return _branches(node, chosen, 0, is_bool)


def _branches(node: Context, chosen: Instruction, first: int, is_bool: bool) -> list[Instruction]:
    """The branches from the first on: that one if it is chosen, else one of the others."""
    last = len(node.op.regions) - 1
    if first == last:
        return node.region(first, [])
    condition = chosen if is_bool else node.test("equal", chosen, first)
    then = node.branch(first, "branch")
    if first + 1 == last:
        other = node.branch(last, "branch")
    else:
        other = node.program_module("branch")
        inner = node.within(other)
        other.add_return(*standardised(other, _branches(inner, chosen, first + 1, is_bool)))
    made = node.add("if", condition, modules=[then, other])
    return node.elements(made, len(node.op.results))


@stablehlo_op("while")
def while_(node: Context, *states: Instruction) -> list[Instruction]:
    """A loop: its condition is computed before it, and in its body for the next iteration.

    A loop that counts from one known number up to another by one becomes a loop of known length.
    """
    given = [node.standard(s) for s in states]
    count = _count(node, given)
    condition = node.scalar(DType.BOOL, True) if count is not None else node.region(0, given)[0]
    block = node.op.regions[1].blocks[0]
    module = node.program_module("while")
    inner = node.within(module)
    module.add_parameter("iteration", node.scalar(DType.INT64, 0).shape)
    going = module.add_parameter("condition", condition.shape.as_standard())
    carried = [module.add_parameter(f"x{k}", s.shape.as_standard()) for k, s in enumerate(given)]
    results = node.owner.inlined(block, inner.frame, carried)
    going = going if count is not None else inner.region(0, results)[0]
    module.add_return(*standardised(module, [going, *results]))
    limit = node.scalar(DType.INT64, FOREVER if count is None else count)
    made = node.add(
        "loop",
        limit,
        condition,
        *given,
        modules=[module],
        max_iterations=FOREVER if count is None else count,
    )
    return node.elements(made, len(given))


def _count(node: Context, given: Sequence[Instruction]) -> int | None:
    """The number of iterations, where a state counts up by one to a known limit; None elsewhere."""
    condition, body = (list(r.blocks[0].operations) for r in node.op.regions)
    test = condition[-1].operation.operands[0].owner
    state = _counter(node, test)
    if state is None or len(condition) > 3:
        return None
    limit = _constant_of(node, test.operands[1])
    first = node.constant(given[state])
    own = node.op.regions[1].blocks[0].arguments[state]
    step = body[-1].operation.operands[state].owner
    if limit is None or first is None or not _adds_one(node, step, own):
        return None
    return max(limit - int(first.reshape(-1)[0]), 0)


def _counter(node: Context, test: Any) -> int | None:
    """The number of the state that a condition compares with something."""
    if getattr(test, "name", "") != "stablehlo.compare" or "LT" not in str(
        test.attributes["comparison_direction"]
    ):
        return None
    arguments = list(node.op.regions[0].blocks[0].arguments)
    return arguments.index(test.operands[0]) if test.operands[0] in arguments else None


def _constant_of(node: Context, value: Any) -> int | None:
    """The one element of a constant integer; None if it is something else."""
    owner = value.owner
    if getattr(owner, "name", "") != "stablehlo.constant":
        known = node.frame.values.get(value)
        array = None if known is None else node.constant(known)
    else:
        array = np.array(owner.attributes["value"])
    return int(array.reshape(-1)[0]) if array is not None and array.dtype.kind in "iu" else None


def _adds_one(node: Context, step: Any, own: Any) -> bool:
    if getattr(step, "name", "") != "stablehlo.add" or step.operands[0] != own:
        return False
    return _constant_of(node, step.operands[1]) == 1
