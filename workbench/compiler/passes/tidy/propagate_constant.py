"""Constant folding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Identity, Undefined
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.packing import UnpackFp4, UnpackInt4
from workbench.compiler.ops.quant import Dequantizelinear
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change
from workbench.compiler.run.constants import evaluate_constant, is_large


@register
class PropagateConstant(Pass):
    """Fold instructions that depend only on literals; broadcasts stay, so that literals do not grow."""

    name = "propagate_constant"
    rests = True
    skip_ops: tuple[str, ...] = ()

    def apply(self, program: Program) -> None:
        """Fold the outermost constants of every module; shared operands are evaluated once."""
        for module in open_modules(program):
            evaluator = _Evaluator()
            for instruction in self._outermost(module):
                fold(instruction, evaluator.value(instruction))

    def _outermost(self, module: Module) -> list[Instruction]:
        known: dict[Instruction, bool] = {}
        large: set[Instruction] = set()
        found: dict[Instruction, None] = {}
        for instruction in module:
            if self._folds(instruction, known, large):
                if instruction is module.last and not _is_settled(instruction):
                    found[instruction] = None
            else:
                found |= dict.fromkeys(
                    i for i in instruction.inputs if i.module is module and known.get(i)
                )
        return list(found)

    def _folds(
        self, instruction: Instruction, known: dict[Instruction, bool], large: set[Instruction]
    ) -> bool:
        """Whether to fold an instruction; ``large`` collects the constants that are too large to fold."""
        if instruction.is_constant and (
            is_large(instruction) or large.intersection(instruction.inputs)
        ):
            large.add(instruction)
        folds = (
            instruction.is_constant
            and instruction.literal is None
            and instruction.name not in self.skip_ops
            and instruction.shape.dims is None
            and instruction.shape.subs is None
            and not stays(instruction)
            and instruction not in large
        )
        known[instruction] = folds
        return folds


def _is_settled(last: Instruction) -> bool:
    """Whether a module's last instruction is already an identity of literals, which this pass leaves."""
    return isinstance(last.op, Identity) and all(i.literal is not None for i in last.inputs)


def stays(instruction: Instruction) -> bool:
    """Whether folding a constant only makes it larger: it is a broadcast, or a view of one."""
    while True:
        op, shape = instruction.op, instruction.shape
        if isinstance(op, UnpackInt4 | UnpackFp4 | Undefined) or not shape.elements:
            return True
        if isinstance(op, Contiguous | Dequantizelinear | Reshape) and instruction.inputs:
            instruction = instruction.inputs[0]
        elif shape.broadcasted and shape.element_space < shape.elements:
            return True
        elif op.alias is not None and instruction.inputs:
            instruction = instruction.inputs[op.alias]
        else:
            return False


@change
def fold(instruction: Instruction, value: Argument) -> None:
    """f(c) → its value"""
    module = instruction.module
    new = module.add_literal(value)
    if instruction is module.last:  # a literal cannot be a module's result: an identity of it can
        new = module.insert(None, "identity", new)
    module.replace(instruction, new)


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


@dataclass
class _Evaluator:
    """Values of constants; each instruction is evaluated once."""

    known: dict[Instruction, Array] = field(default_factory=dict[Instruction, Array])

    def value(self, instruction: Instruction) -> Argument:
        stack = [instruction]
        while stack:
            current = stack[-1]
            waiting = [i for i in current.inputs if i.literal is None and i not in self.known]
            if waiting:
                stack += waiting
            else:
                stack.pop()
                if current not in self.known:
                    self.known[current] = self._compute(current)
        return Argument(literal_shape(instruction.shape), self.known[instruction])

    def _compute(self, instruction: Instruction) -> Any:
        inputs = [
            self.known[i] if i.literal is None else i.literal.numpy() for i in instruction.inputs
        ]
        try:
            value: Any = instruction.op.compute(*inputs)
            return value if instruction.shape.is_tuple else np.asarray(value)
        except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
            raise EvaluationError(f"{instruction!r}: {error}") from error


def literal_shape(shape: Shape) -> Shape:
    """The shape of a literal for values of ``shape``: packed, with the same axis order in memory."""
    return shape if shape.packed else shape.with_lens(shape.lens)
