"""Constant folding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Identity, Literal, Undefined
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.activations import ThresholdedRelu
from workbench.compiler.ops.convert import BitCast, Convert
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.packing import UnpackFp4, UnpackInt4
from workbench.compiler.ops.pointwise import Add, Fmod, Mod, Mul, Sub
from workbench.compiler.ops.quant import Dequantizelinear
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import Decline, change
from workbench.compiler.run.constants import evaluate_constant, is_large

FREE_BYTES = 1 << 28
"""Bytes of literals that a program may have after folding, whatever it had before."""
GROWTH = 8
"""Bytes of literals for each byte of what a program had before its constants were folded."""


@register
class PropagateConstant(Pass):
    """Fold instructions that depend only on literals; broadcasts stay, so that literals do not grow.

    All folds of a program together keep its literals below a bound (``FREE_BYTES``, and ``GROWTH`` times what
    it had); what would exceed it is left to the run, and near misses say so.
    """

    name = "propagate_constant"
    rests = True
    skip_ops: tuple[str, ...] = ()

    def apply(self, program: Program) -> None:
        """Fold the outermost constants of every module; shared operands are evaluated once."""
        room = _Room(program)
        for module in open_modules(program):
            plan = _Plan(self, module, room)
            for instruction, value in plan.values():
                fold(instruction, value)
            for instruction, reason in plan.left.items():
                fold(instruction, Decline(reason))
        room.settle(program)


class _Room:
    """The bytes of a program's literals, and how many they may become by folding."""

    def __init__(self, program: Program) -> None:
        base, before = program.literal_bytes
        self.size = _literal_bytes(program)
        self.base = base + max(0, self.size - before)
        self.limit = FREE_BYTES + GROWTH * self.base

    def takes(self, growth: int) -> bool:
        """Whether a fold may grow the literals by so many bytes; if it may, they are counted."""
        fits = growth <= 0 or self.size + growth <= self.limit
        self.size += growth if fits else 0
        return fits

    def settle(self, program: Program) -> None:
        """Remember the size, so that the next folding does not count literals that others add meanwhile."""
        program.literal_bytes = (self.base, _literal_bytes(program))


def _literal_bytes(program: Program) -> int:
    return sum([i.shape.bytes for m in open_modules(program) for i in m.of_kinds({Literal})])


class _Plan:
    """The constants of a module that are to be folded, and those that are left, with the reasons."""

    def __init__(self, pass_: PropagateConstant, module: Module, room: _Room) -> None:
        self.skipped = pass_.skip_ops
        self.room = room
        self.left: dict[Instruction, str] = {}
        self._folds: set[Instruction] = set()
        self._large: set[Instruction] = set()
        """Constants that are not computed, and those that depend on them."""
        self._users: dict[Instruction, int] = {}
        """Users that are not folded yet, for each operand of one that is."""
        self._outermost: dict[Instruction, None] = {}
        self._see(module)

    def _see(self, module: Module) -> None:
        folds, outermost = self._folds, self._outermost
        for instruction in module.listed:
            if instruction.literal is not None:
                continue
            if instruction.constant and self._is_folded(instruction):
                folds.add(instruction)
                if instruction is module.last and not _is_settled(instruction):
                    outermost[instruction] = None
            elif folds:
                for given in instruction.inputs:
                    if given in folds:
                        outermost[given] = None

    def _is_folded(self, instruction: Instruction) -> bool:
        """Whether a constant that is not a literal is to be folded."""
        if self._large and self._large.intersection(instruction.inputs):
            self._large.add(instruction)
            return False
        if is_large(instruction):
            return self._leave(
                instruction, f"{instruction.shape.bytes:,} bytes are not computed here"
            )
        if (
            instruction.name in self.skipped
            or instruction.shape.dims is not None
            or instruction.shape.subs is not None
            or stays(instruction)
        ):
            return False
        return self._has_room(instruction)

    def _leave(self, instruction: Instruction, reason: str) -> bool:
        self._large.add(instruction)
        self.left[instruction] = reason
        return False

    def _has_room(self, instruction: Instruction) -> bool:
        """Whether a value may become a literal; what it is made of goes with its last user."""
        inputs, users = dict.fromkeys(instruction.inputs), self._users
        freed = 0
        for one in inputs:
            count = users.get(one)
            if count is None:
                count = users[one] = len(one.users)
            if count == 1 and (one.literal is not None or one in self._folds):
                freed += one.shape.bytes
        if not self.room.takes(instruction.shape.bytes - freed):
            return self._leave(
                instruction,
                f"its {instruction.shape.bytes:,} bytes would make literals of {self.room.size:,} bytes "
                f"take more than {self.room.limit:,}; they had {self.room.base:,} before any were folded",
            )
        for one in inputs:
            users[one] -= 1
        return True

    def values(self) -> list[tuple[Instruction, Argument]]:
        """The outermost constants with their values; others are forgotten as soon as nothing needs them."""
        needed = self._needed()
        waiting = Counter(i for one in needed for i in dict.fromkeys(one.inputs))
        known: dict[Instruction, Array] = {}
        values: dict[Instruction, Array] = {}
        for one in needed:
            known[one] = _computed(one, known, is_last=not waiting[one])
            if one in self._outermost:
                values[one] = _rounded(one, known[one])
            waiting[one] += 1  # so that a value without readers is forgotten, too
            for read in dict.fromkeys((one, *one.inputs)):
                waiting[read] -= 1
                if not waiting[read]:
                    known.pop(read, None)
        return [(i, Argument(literal_shape(i.shape), values[i])) for i in self._outermost]

    def _needed(self) -> dict[Instruction, None]:
        """The outermost constants, each behind what it depends on; literals are left out."""
        needed: dict[Instruction, None] = {}
        stack = list(reversed(self._outermost))
        while stack:
            current = stack[-1]
            waiting = [i for i in current.inputs if i.literal is None and i not in needed]
            if waiting:
                stack += waiting
            else:
                needed[stack.pop()] = None
        return needed


def _computed(instruction: Instruction, known: dict[Instruction, Array], is_last: bool) -> Array:
    """The value; a float is a wider one until something else than arithmetic needs it.

    So the weights of a norm are rounded once, not at each step from its variances to them.
    """
    inputs = [known[i] if i.literal is None else i.literal.numpy() for i in instruction.inputs]
    op, type = instruction.op, instruction.shape.type
    compute: Callable[..., Any] = op.compute
    if not _stays_wide(instruction):
        inputs = [_rounded(i, x) for i, x in zip(instruction.inputs, inputs, strict=True)]
    elif isinstance(op, Convert):
        return inputs[0]
    elif is_last and type is DType.FLOAT and op.__class__ in _AT_ONCE:
        if any(x.dtype != np.float32 for x in inputs):  # else the operation itself rounds once
            compute = partial(_rounded_at_once, _AT_ONCE[op.__class__])
    elif op.rearranges is None:
        inputs = [_as_float(x, _WIDE[type]) for x in inputs]
    try:
        value = compute(*inputs)
    except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
        raise EvaluationError(f"{instruction!r}: {error}") from error
    return value if instruction.shape.is_tuple else np.asarray(value)


_WIDE = {DType.HALF: np.float32, DType.BF16: np.float32, DType.FLOAT: np.float64}
"""The types that arithmetic on constants is done in; its result is rounded once."""
_AT_ONCE: dict[type[Operation], np.ufunc] = {Add: np.add, Sub: np.subtract, Mul: np.multiply}
"""Operations whose large results are never whole in memory in double."""
_JUMPS = (Mod, Fmod, ThresholdedRelu)
"""Operations whose result jumps, beside the flat ones: a rounding of operands decides where."""


def _stays_wide(instruction: Instruction) -> bool:
    """Whether a value is computed in a wider type from values of its own, and rounded later, once."""
    op, type = instruction.op, instruction.shape.type
    if type not in _WIDE or op.flat or isinstance(op, (BitCast, *_JUMPS)):
        return False
    if isinstance(op, Convert):
        return type is not DType.FLOAT and instruction.inputs[0].shape.type is DType.FLOAT
    known = op.pointwise or op.rearranges is not None
    return known and all(i.shape.type is type for i in instruction.inputs)


def _rounded_at_once(function: np.ufunc, *inputs: Array) -> Array:
    """The float that a result in double is rounded to, a piece at a time."""
    value = np.empty(np.broadcast_shapes(*(x.shape for x in inputs)), np.float32)
    with np.errstate(all="ignore"):
        return function(*inputs, out=value, dtype=np.float64, casting="same_kind")


def _as_float(value: Array, type: DTypeLike) -> Array:
    """A value in another type; elements that share memory still do."""
    if value.dtype == type:
        return value
    own = value[tuple(slice(None) if step else slice(1) for step in value.strides)]
    return np.broadcast_to(own.astype(type), value.shape)


def _rounded(instruction: Instruction, value: Array) -> Array:
    """A value in its own type."""
    type = instruction.shape.type
    if type not in _WIDE or value.dtype == type.numpy:
        return value
    with np.errstate(over="ignore"):
        return _as_float(value, type.numpy)


def _is_settled(last: Instruction) -> bool:
    """Whether a module's last instruction is already an identity of literals, which this pass leaves."""
    return isinstance(last.op, Identity) and all(i.literal is not None for i in last.inputs)


_UNPACKED = (UnpackInt4, UnpackFp4, Undefined)
_ALIKE = (Contiguous, Dequantizelinear, Reshape)
"""Operations whose result has as many elements as their first input."""


def stays(instruction: Instruction) -> bool:
    """Whether folding a constant only makes it larger: it is a broadcast, or a view of one."""
    while True:
        op, shape = instruction.op, instruction.shape
        if isinstance(op, _UNPACKED) or not shape.elements:
            return True
        if isinstance(op, _ALIKE) and instruction.inputs:
            instruction = instruction.inputs[0]
        elif shape.broadcasted and shape.element_space < shape.elements:
            return True
        elif op.alias is not None and instruction.inputs:
            instruction = instruction.inputs[op.alias]
        else:
            return False


@change
def fold(instruction: Instruction, value: Argument | Decline) -> Decline | None:
    """f(c) → its value"""
    if isinstance(value, Decline):
        return value
    module = instruction.module
    new = module.add_literal(value)
    if instruction is module.last:  # a literal cannot be a module's result: an identity of it can
        new = module.insert(None, "identity", new)
    module.replace(instruction, new)
    return None


def value_of(instruction: Instruction) -> Argument | None:
    """The value of a constant in a literal's shape; None if it is too large or its evaluation fails."""
    if instruction.literal is not None:
        return instruction.literal
    if (
        not instruction.is_constant
        or not instruction.shape.is_tensor
        or instruction.shape.is_dynamic
    ):
        return None
    try:
        return Argument(literal_shape(instruction.shape), evaluate_constant(instruction))
    except EvaluationError:
        return None


def literal_shape(shape: Shape) -> Shape:
    """The shape of a literal for values of ``shape``: packed, with the same axis order in memory."""
    return shape if shape.packed else shape.with_lens(shape.lens)
