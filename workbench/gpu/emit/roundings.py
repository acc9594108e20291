"""The roundings that kernels leave out, because a later one hides them or the value is only computed with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.convert import BitCast, Convert
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.pointwise import Div, Mul
from workbench.compiler.ops.quant import Quantizelinear
from workbench.compiler.ops.reduce import ReduceSum

Callers: TypeAlias = tuple[Instruction, ...]
"""The instructions whose bodies an instruction is in, the innermost last."""
_HALVES = (DType.HALF, DType.BF16)


def hides_last_bits(one: Instruction, callers: Callers = ()) -> bool:
    """Whether a float is only scaled and added up before it is rounded to half or bfloat16.

    Args:
        one: The instruction that computes the float.
        callers: The instructions whose bodies it is in.
    """
    if one.shape.type is not DType.FLOAT:
        return False
    for user, inside in _uses(one, callers):
        if user is None:
            return False
        if isinstance(user.op, Convert) and user.shape.type in _HALVES:
            continue
        scales = isinstance(user.op, Mul | Div | ReduceSum) or _moves(user)
        if not scales or not hides_last_bits(user, inside):
            return False
    return True


def is_only_computed_with(one: Instruction, callers: Callers = ()) -> bool:
    """Whether all that uses a float converted to half or bfloat16 is arithmetic in that type.

    Such a value need not be rounded, as the results of that arithmetic are not until they are stored.

    Args:
        one: The conversion.
        callers: The instructions whose bodies it is in.
    """
    if one.shape.type not in _HALVES or one.inputs[0].shape.type is not DType.FLOAT:
        return False
    return _is_operand(one, callers)


def _is_operand(one: Instruction, callers: Callers) -> bool:
    """Whether only arithmetic in its own type uses a value, perhaps moved or repeated."""
    return all(
        user is not None
        and (_is_operand(user, inside) if _moves(user) else _is_arithmetic(user, one.shape.type))
        for user, inside in _uses(one, callers)
    )


def _is_arithmetic(user: Instruction, type: DType) -> bool:
    op = user.op
    if isinstance(op, Convert | BitCast | Quantizelinear) or user.shape.type is not type:
        return False
    return op.monoid is not None or (op.pointwise and op.expression is not None)


def _moves(user: Instruction) -> bool:
    return user.op.rearranges is not None or user.op.alias is not None


def _uses(one: Instruction, callers: Callers) -> Iterator[tuple[Instruction | None, Callers]]:
    """The instructions that compute with a value, also inside pointwise bodies; None for a result."""
    if not one.is_used:
        yield None, callers
    for user in one.users:
        if isinstance(user.op, PointwiseModule):
            body = user.modules[0]
            for x, (_, parameter) in zip(user.inputs, sorted(body.parameters.items()), strict=True):
                if x is one and parameter.is_used:
                    yield from _uses(parameter, (*callers, user))
        elif isinstance(user.op, Return) and callers:
            yield from _uses(callers[-1], callers[:-1])
        else:
            yield (None if isinstance(user.op, Return) else user), callers
