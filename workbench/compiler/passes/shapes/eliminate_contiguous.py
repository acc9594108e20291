"""Removal of copies to row-major order that no reader needs."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.tidy.propagate_constant import fold, value_of
from workbench.compiler.rewrite import change


@register
class EliminateContiguous(Pass):
    """Remove copies to row-major order if the operations that read them accept any order.

    Later values must stay row-major or keep their layout. A copy of a constant becomes a literal.

    Attributes:
        op_name: The operation that copies.
    """

    name = "eliminate_contiguous"
    rests = True
    apart = "removes copies of `auto_contiguous` that are not needed. In the pipeline `backend`."
    op_name: str = "contiguous"

    def apply(self, program: Program) -> None:
        """Visit each module twice: slices of a value with other users only the second time."""
        for module in open_modules(program):
            remove_contiguous(module, self.op_name)


def remove_contiguous(module: Module, op_name: str) -> None:
    """Remove the copies that a module does not need."""
    for shared_slices in (False, True):
        kept: dict[Instruction, None] = {}
        for instruction in module:
            if shared_slices or not _is_shared_slice(instruction):
                _read_sources(instruction, op_name, kept)
        for copy in kept:
            if copy.users and (value := value_of(copy)) is not None:
                fold(copy, value)


def _is_shared_slice(instruction: Instruction) -> bool:
    return isinstance(instruction.op, Slice) and len(instruction.inputs[0].users) != 1


def _read_sources(instruction: Instruction, op_name: str, kept: dict[Instruction, None]) -> None:
    """Make an instruction read the sources of copies; ``kept`` collects copies of constants that stay."""
    unused = not instruction.users and instruction is not instruction.module.last
    if unused or isinstance(instruction.op, Return):
        return
    for copy in dict.fromkeys(instruction.inputs):
        if copy.op.name == op_name and copy.module is instruction.module:
            if _takes(instruction, copy, copy.inputs[0].shape):
                read_source(instruction, copy)
            elif copy.inputs[0].is_constant:
                kept[copy] = None


@change
def read_source(instruction: Instruction, copy: Instruction) -> None:
    """f(contiguous(x)) → f(x)"""
    module = instruction.module
    source = copy.inputs[0]
    module.set_inputs(instruction, [source if i is copy else i for i in instruction.inputs])
    module.prune(copy)


def _takes(instruction: Instruction, copy: Instruction, shape: Shape) -> bool:
    """Whether an instruction and its users accept another shape of one input.

    Users are visited transitively in module order, each once.
    """
    shapes = {copy: shape}
    waiting = [(instruction.order, instruction.id, instruction)]
    met = {instruction}
    while waiting:
        current = heappop(waiting)[2]
        if current.module is not instruction.module:
            return False  # another module captures the value
        made = _shape_of(current, [shapes.get(i, i.shape) for i in current.inputs])
        if made is None or made.is_dynamic:
            return False
        if made.standard or made == current.shape:
            continue
        if not current.users:
            return False
        shapes[current] = made
        for user in current.users:
            if user not in met:
                met.add(user)
                heappush(waiting, (user.order, user.id, user))
    return True


def _shape_of(instruction: Instruction, inputs: Sequence[Shape]) -> Shape | None:
    rules = instruction.module.program.shape_rules
    try:
        return instruction.op.shape_by(rules, inputs, instruction.modules)
    except (WorkbenchError, IndexError, ZeroDivisionError, AttributeError):
        return None
