"""Chains of narrow floats, computed in the widest adjacent type."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.convert import Convert
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change
from workbench.compiler.rewrite.bodies import prune_all

# Chains

_ARITHMETIC = frozenset(t for t in DType if t.is_float and t.format.bits > 8)
"""Types between which a conversion only rounds; fp8 is left out, as it stores quantised values."""


def _is_rounding(instruction: Instruction) -> bool:
    """Whether an instruction converts from one of these types to another."""
    if not isinstance(instruction.op, Convert):
        return False
    return instruction.shape.type in _ARITHMETIC and _source(instruction) in _ARITHMETIC


def _source(convert: Instruction) -> DType:
    return convert.inputs[0].shape.type


def _is_link(instruction: Instruction) -> bool:
    """Whether an operation computes elements or sums in one of these types, and in no other."""
    known = instruction.op.monoid is not None or instruction.op.pointwise
    if not known or instruction.modules or not instruction.inputs:
        return False
    kinds = {i.shape.type for i in (instruction, *instruction.inputs)}
    return len(kinds) == 1 and kinds <= _ARITHMETIC


def _relevant(instruction: Instruction) -> Instruction | None:
    """The one input that is not merely a scalar constant."""
    inputs = dict.fromkeys(instruction.inputs)
    if len(inputs) > 1:
        inputs = [i for i in inputs if not (i.constant and i.shape.is_scalar)]
    return next(iter(inputs)) if len(inputs) == 1 else None


@dataclass
class _Walk:
    """Chains in one direction from conversions; none is visited twice for the same type."""

    sizes: dict[Instruction, int] = field(default_factory=dict[Instruction, int])

    def producers(self, convert: Instruction, type: DType) -> list[Instruction]:
        """The chain that leads to a conversion."""
        found: list[Instruction] = []
        current = convert.inputs[0]
        while self._takes(current, convert, type):
            following = _relevant(current)
            if following is None:
                break
            found.append(current)
            current = following
        return found

    def consumers(self, convert: Instruction, type: DType) -> list[Instruction]:
        """The chains that start from a conversion."""
        found: list[Instruction] = []
        stack = [convert]
        while stack:
            current = stack.pop()
            for user in current.users:
                if _relevant(user) is current and self._takes(user, convert, type):
                    found.append(user)
                    stack.append(user)
        return found

    def _takes(self, one: Instruction, convert: Instruction, type: DType) -> bool:
        if self.sizes.get(one, 0) >= type.size or one.module is not convert.module:
            return False
        if not (_is_rounding(one) or _is_link(one)):
            return False
        self.sizes[one] = type.size
        return True


def _chains(module: Module) -> dict[Instruction, DType]:
    """The instructions to compute in a wider type, with that type, in module order."""
    found: dict[Instruction, DType] = {}
    up, down = _Walk(), _Walk()
    for convert in filter(_is_rounding, module):
        source, target = _source(convert), convert.shape.type
        chain: list[Instruction] = []
        if source.size < target.size:
            chain = up.producers(convert, target)
        elif source.size > target.size:
            chain = down.consumers(convert, source)
        wider = max(source, target, key=_size)
        for one in chain:
            if not _is_rounding(one):
                found[one] = max(found.get(one, one.shape.type), wider, key=_size)
    ordered = sorted(found.items(), key=lambda f: f[0].order)
    return {i: type for i, type in ordered if i.shape.type is not type}


def _size(type: DType) -> int:
    return type.size


@dataclass
class _Widening:
    """The conversions that widened operations share."""

    converted: dict[tuple[Instruction, DType], Instruction] = field(
        default_factory=dict[tuple[Instruction, DType], Instruction]
    )

    def operand(self, user: Instruction, value: Instruction, type: DType) -> Instruction:
        """A value in a wider type, without the roundings before it."""
        if value.shape.type is type:
            return value
        while _is_rounding(value) or (isinstance(value.op, Convert) and _source(value).is_integral):
            if value.inputs[0].shape.type is DType.BOOL:
                break
            value = value.inputs[0]
        if value.shape.type is type:
            return value
        known = self.converted.get((value, type))
        if known is None or user.module.program.find(known.id) is not known:
            known = user.module.insert(user, "convert", value, target_type=type)
            self.converted[value, type] = known
        return known


@change
def widen(instruction: Instruction, type: DType, widening: _Widening) -> None:
    """convert(f(x)) → f(convert(x)), and f(convert(x)) → convert(f(x)), in the wider of both types"""
    module, old = instruction.module, instruction.shape.type
    inputs = [widening.operand(instruction, i, type) for i in instruction.inputs]
    wide = module.insert(instruction, instruction.op, *inputs)
    back = module.insert(instruction, "convert", wide, target_type=old)
    module.replace(instruction, back)
    for user in back.users:
        if _is_rounding(user):
            target = user.shape.type
            new = wide
            if target is not type:
                new = user.module.insert(user, "convert", wide, target_type=target)
            user.module.replace(user, new)
    prune_all([back])


@register
class PropagatePrecision(Pass):
    """Compute chains of elementwise operations and reductions in the wider type of an adjacent conversion.

    Only floats are widened: integers wrap where wider ones would not, bool is not a number, and rounding to
    fp8 is part of a quantised model. Rounding between two widened operations is removed.
    """

    name = "propagate_precision"
    once = "the user that a widened value is converted back for could itself be widened"

    def apply(self, program: Program) -> None:
        """Find all chains of a module, then widen them in order."""
        for module in open_modules(program):
            widening = _Widening()
            for instruction, type in _chains(module).items():
                widen(instruction, type, widening)
