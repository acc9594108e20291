"""Where values are put in row-major order in memory, and where that is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import ClassVar

from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir import Instruction, Module
from workbench.compiler.ops.builtin import Return
from workbench.compiler.ops.movement import Contiguous, Layout
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.constants import fold, value_of
from workbench.compiler.program import Program
from workbench.compiler.rewrite import change
from workbench.compiler.shape import Shape

_NEED_STANDARD = frozenset({"reshape_lazy"})


@register
class AutoContiguous(Pass):
    """Put every value in row-major order, for kernels that know no other."""

    name: ClassVar[str] = "auto_contiguous"
    rests: ClassVar[bool] = True

    def apply(self, program: Program) -> None:
        """First what operations demand of their inputs, from the end; then every result, in order."""
        for module in open_modules(program):
            for instruction in list(reversed(module)):
                wanting = [i for i in instruction.inputs if i.name != Contiguous.name]
                if wanting and instruction.op.name in _NEED_STANDARD:
                    make_inputs_contiguous(instruction)
            for instruction in module:
                if _is_scattered(instruction):
                    make_contiguous(instruction)


def _is_scattered(instruction: Instruction) -> bool:
    """Whether a value that is used lies otherwise than in row-major order."""
    shape, users = instruction.shape, instruction.users
    if isinstance(instruction.op, Layout | Return) or not shape.is_tensor or shape.is_dynamic:
        return False
    if shape.elements <= 1 or shape.strides == shape.as_standard().strides:
        return False
    if users:
        return any(not isinstance(u.op, Contiguous) for u in users)
    return instruction is instruction.module.last


@change
def make_inputs_contiguous(instruction: Instruction) -> None:
    """reshape_lazy(x) → reshape_lazy(contiguous(x))"""
    module = instruction.module
    module.set_inputs(
        instruction,
        [
            i if isinstance(i.op, Contiguous) else module.insert(instruction, Contiguous(), i)
            for i in instruction.inputs
        ],
    )


@change
def make_contiguous(instruction: Instruction) -> None:
    """x → contiguous(x), where x is not in row-major order"""
    module = instruction.module
    users = instruction.users
    made = module.insert(instruction.following, Contiguous(), instruction)
    module.program.tell_replaced(instruction, made)
    for user in users:
        user.module.set_inputs(user, [made if i is instruction else i for i in user.inputs])


@register
class EliminateContiguous(Pass):
    """Remove copies to row-major order where the operations that read them take any order.

    What comes after must stay in row-major order or as it was. A copy of a constant becomes a literal.

    Attributes:
        op_name: The operation that copies.
    """

    name: ClassVar[str] = "eliminate_contiguous"
    rests: ClassVar[bool] = True
    op_name: str = "contiguous"

    def apply(self, program: Program) -> None:
        """Twice over each module: slices of a value with other users only the second time."""
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
    return instruction.op.name == "slice" and len(instruction.inputs[0].users) != 1


def _read_sources(instruction: Instruction, op_name: str, kept: dict[Instruction, None]) -> None:
    """Let an instruction read what its inputs copy; ``kept`` collects constants that it cannot."""
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
    """Whether an instruction, and what follows, can do with another shape of one input.

    What follows is asked in the order of the program, each instruction once.
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
    try:
        return instruction.op.compute_shape(inputs, instruction.modules)
    except (WorkbenchError, IndexError, ZeroDivisionError, AttributeError):
        return None
