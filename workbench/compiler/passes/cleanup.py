"""Tidying: attributes made normal, dead code, identities and conversions removed."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import ml_dtypes
import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction, Module
from workbench.compiler.operation import Operation
from workbench.compiler.passes.base import Pass, RewritePass, open_modules, register
from workbench.compiler.program import Program
from workbench.compiler.rewrite import Decline, Rewriter, Rule, change, law, op, rule, var


@register
class NormalizeOps(Pass):
    """Resolve negative axes, open slices and short paddings in attributes."""

    name: ClassVar[str] = "normalize_ops"
    rests: ClassVar[bool] = True

    def apply(self, program: Program) -> None:
        """Replace every operation whose attributes are not normal yet."""
        for module in open_modules(program):
            for instruction in module:
                if instruction.inputs and not instruction.modules:
                    normal = instruction.op.normalized([i.shape for i in instruction.inputs])
                    if normal != instruction.op:
                        normalize(instruction, normal)


@change
def normalize(instruction: Instruction, normal: Operation) -> None:
    """op[axis=-1](x) → op[axis=rank-1](x)"""
    module = instruction.module
    module.replace(instruction, module.insert(instruction, normal, *instruction.inputs))


@register
class DeadCodeElimination(Pass):
    """Remove instructions that nobody uses, and modules that nobody calls."""

    name: ClassVar[str] = "dead_code_elimination"
    rests: ClassVar[bool] = True

    def apply(self, program: Program) -> None:
        """Remove what is unused; then modules that lost their last call, and what only they used."""
        _sweep(program)
        while lost := unreachable(program):
            for module in lost:
                with program.edit(remove_module, None):
                    program.remove_module(module)
            _sweep(program)


def _sweep(program: Program) -> None:
    for module in open_modules(program):
        unused = [i for i in reversed(module) if not i.is_used]
        for instruction in unused:
            alive = instruction is not module.last and program.find(instruction.id)
            if alive and not _stays(instruction):
                remove_unused(instruction)


def _stays(instruction: Instruction) -> bool:
    """Whether an instruction is there for something else than its value.

    Parameters and remarks are, and what has no dimensions, as it is done for its effect.
    """
    shape, name = instruction.shape, instruction.op.name
    if instruction.parameter is not None or name == "@comment":
        return True
    if not shape.is_tensor or shape.is_dynamic or shape.ndim:
        return False
    return not name.startswith("@") and name not in ("undefined", "identity", "allocate")


@change
def remove_unused(instruction: Instruction) -> None:
    """a value that nobody uses → nothing"""
    instruction.module.prune(instruction)


@law
def remove_module() -> None:
    """a module that nobody calls → nothing"""


def unreachable(program: Program) -> list[Module]:
    """Modules that cannot be reached from main, those that are called before those that call them."""
    reached = set(program.reachable_modules())
    found: dict[Module, None] = {}

    def visit(module: Module) -> None:
        if module not in reached:
            reached.add(module)
            for called in [m for i in module for m in i.modules]:
                visit(called)
            found[module] = None

    for module in program.modules.values():
        visit(module)
    return list(found)


@rule(op("identity", var("x")), dynamic=True)
def find_identity(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """identity(x) → x"""
    root = b.root
    shared = x.parameter is not None or x.only_user is not root or x.module is not root.module
    if root is root.module.last and shared:
        return Decline("it is the module's last instruction, and its input is used elsewhere too")
    return x


@register
class EliminateIdentity(RewritePass):
    """Remove identities."""

    name: ClassVar[str] = "eliminate_identity"
    rules: ClassVar[tuple[Rule, ...]] = (find_identity,)


@rule(op("convert", op("convert", var("x"), name="inner")), dynamic=True)
def find_nested_convert(b: Rewriter, x: Instruction, inner: Instruction) -> Instruction | Decline:
    """convert(convert(x)) → convert(x), where the inner one loses nothing"""
    if not keeps_values(x.shape.type, inner.shape.type):
        lost, kept = x.shape.type.type_name, inner.shape.type.type_name
        return Decline(f"the inner conversion from {lost} to {kept} can change values")
    return x if x.shape == b.root.shape else b(b.root.op, x)


@rule(op("convert", var("x")).when(lambda i: i.shape == i.inputs[0].shape), dynamic=True)
def find_nop_convert(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """convert[target_type=T](x) → x, for x of type T"""
    return x


def keeps_values(source: DType, target: DType) -> bool:
    """Whether every value of one element type has its exact like in another one."""
    if source is target or source is DType.BOOL:
        return True
    if source.is_float:
        return target.is_float and _float_fits(source, target)
    if target is DType.BOOL:
        return False
    low, high = _bounds(source)
    if target.is_float:
        digits, largest, _ = _limits(target)
        return max(-low, high) <= 2 ** (digits + 1) and high <= largest
    return _bounds(target)[0] <= low and high <= _bounds(target)[1]


def _bounds(type: DType) -> tuple[int, int]:
    limits = np.iinfo(type.numpy)
    return int(limits.min), int(limits.max)


def _limits(type: DType) -> tuple[int, float, float]:
    """Of a float type: bits of the fraction, the largest and the least positive number."""
    info = cast("Any", ml_dtypes.finfo(type.numpy))
    return int(info.nmant), float(info.max), float(info.smallest_subnormal)


def _float_fits(source: DType, target: DType) -> bool:
    a, b = _limits(source), _limits(target)
    return a[0] <= b[0] and a[1] <= b[1] and a[2] >= b[2]


@register
class EliminateConvert(RewritePass):
    """Remove conversions to the type that a value has, and merge nested ones where nothing is lost."""

    name: ClassVar[str] = "eliminate_convert"
    rules: ClassVar[tuple[Rule, ...]] = (find_nop_convert, find_nested_convert)
