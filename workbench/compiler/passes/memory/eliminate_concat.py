"""Concatenations without copies: the operands are written directly into parts of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.compiler.ir.builtin import Identity
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import normalize_axis
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.memory.liveness import aliased
from workbench.compiler.ops.buffers import Write, Written
from workbench.compiler.ops.movement import Allocate, Concat
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import BACKEND
from workbench.compiler.rewrite import Decline, change


@dataclass(frozen=True)
class ConcatModel:
    """The operations of a target that can write into parts of a buffer.

    Args:
        allocate: The operation that makes a buffer.
        copy: The operation that copies its first input into its second.
        non_packed_output: Whether operations can write into a part that has gaps.
        non_packed_input: Whether operations can read from a part that has gaps.
    """

    allocate: str = "allocate"
    copy: str = "copy"
    non_packed_output: bool = False
    non_packed_input: bool = False

    def joins(self, instruction: Instruction) -> bool:
        """Whether an instruction concatenates all but its last input, and that one is its buffer."""
        return isinstance(instruction.op, Write) and isinstance(instruction.op.op, Concat)

    def axis_of(self, root: Instruction) -> int:
        """The axis of an instruction that ``joins``, counted from the front."""
        op = root.op
        assert isinstance(op, Write)
        assert isinstance(op.op, Concat)
        return normalize_axis(op.op, op.op.axis, root.shape.ndim)

    def buffer_of(self, instruction: Instruction) -> Instruction | None:
        """The allocation that an instruction fills, if its result takes all of it."""
        made = aliased(instruction)
        fills = self.fills(instruction) and self.allocates(made)
        return made if fills and made.shape.lens == instruction.shape.lens else None

    def fills(self, instruction: Instruction) -> bool:
        """Whether an instruction's result is all that is in the memory that it shares."""
        return isinstance(instruction.op, Written | Identity)

    def allocates(self, instruction: Instruction) -> bool:
        """Whether an instruction makes a buffer."""
        return instruction.name == self.allocate or isinstance(instruction.op, Allocate)

    def writes_gaps(self, instruction: Instruction) -> bool:
        """Whether an instruction can write into a part that has gaps."""
        return self.non_packed_output

    def reads_gaps(self, user: Instruction) -> bool:
        """Whether an instruction can read from a part that has gaps."""
        return self.non_packed_input


@dataclass(frozen=True)
class NamedModel(ConcatModel):
    """Operations chosen by name. Each must share memory with its buffer.

    Args:
        concat: The operation that concatenates along its attribute ``axis``; its last input is the buffer.
        writers: Operations that can write into a part that has gaps; ``*`` for all.
        packed_input_only: Operations that cannot read from a part that has gaps.
    """

    concat: str = "concat"
    writers: tuple[str, ...] = ()
    packed_input_only: tuple[str, ...] = ()

    def joins(self, instruction: Instruction) -> bool:
        """Whether the instruction is the named concatenation into an allocated buffer."""
        inputs = instruction.inputs
        return instruction.name == self.concat and bool(inputs) and self.allocates(inputs[-1])

    def axis_of(self, root: Instruction) -> int:
        """The attribute ``axis``, or 0."""
        return normalize_axis(root.op, root.op.attributes().get("axis", 0), root.shape.ndim)

    def fills(self, instruction: Instruction) -> bool:
        """Always true: every instruction writes into a buffer."""
        return True

    def writes_gaps(self, instruction: Instruction) -> bool:
        """Whether the instruction is one of the writers."""
        return "*" in self.writers or instruction.name in self.writers

    def reads_gaps(self, user: Instruction) -> bool:
        """Whether the user can read a part with gaps, i.e. is not in `packed_input_only`."""
        return user.name not in self.packed_input_only


@register
class EliminateConcat(Pass):
    """Write the operands of a concatenation directly into its buffer, part by part.

    Args:
        model: The capabilities of the target's operations.
    """

    name = "eliminate_concat"
    rests = True
    apart = BACKEND
    model: ConcatModel = ConcatModel()

    def apply(self, program: Program) -> None:
        """Check each concatenation that writes into a buffer, in order."""
        for module in open_modules(program):
            for instruction in module:
                if self.model.joins(instruction):
                    join_parts(instruction, self.model)


@change
def join_parts(root: Instruction, model: ConcatModel) -> Decline | None:
    """write[concat](x, y, buffer) → identity(buffer, x, y), with x and y written into slices of it"""
    *inputs, buffer = root.inputs
    if reason := _obstacle(root, inputs, buffer, model):
        return Decline(reason)
    module, axis = root.module, model.axis_of(root)
    made = [b for i in inputs if (b := model.buffer_of(i)) is not None]
    if made and (first := min(made, key=_order)).order < buffer.order:
        module.move(buffer, first)
    start = 0
    for given in inputs:
        end = start + given.shape.lens[axis]
        part = module.insert(
            buffer.following, "slice", buffer, axes=(axis,), starts=(start,), ends=(end,)
        )
        _place(given, part, model)
        start = end
    module.replace(root, module.insert(root, "identity", buffer, *root.inputs[:-1]))
    return None


def _place(given: Instruction, part: Instruction, model: ConcatModel) -> None:
    """Write an operand into a part of the buffer, or copy it there."""
    module, own = given.module, model.buffer_of(given)
    writes = part.shape.packed or model.writes_gaps(given)
    if own is not None and writes and given.only_user is not None:
        module.replace(own, part)
        return
    later = max(given, part, key=_order).following
    copied = module.insert(later, model.copy, given, part)
    for user in given.users:
        if user is not copied and user.module is module and user.order > copied.order:
            module.set_inputs(user, [copied if i is given else i for i in user.inputs])


def _obstacle(
    root: Instruction, inputs: Sequence[Instruction], buffer: Instruction, model: ConcatModel
) -> str:
    """The reason why the operands cannot be written into the buffer; empty if they can."""
    if len(set(inputs)) < len(inputs):
        return f"{root.name} #{root.id} has an operand twice"
    if outside := [i for i in (*inputs, buffer) if i.module is not root.module]:
        return f"{outside[0].name} #{outside[0].id} is in another module"
    if buffer.only_user is not root:
        return f"the buffer {buffer.name} #{buffer.id} has other users"
    axis = model.axis_of(root)
    copies = [i for i in inputs if not _is_direct(i, axis, model)]
    if len(copies) > 1:
        which = " and ".join(f"{i.name} #{i.id}" for i in copies[:2])
        return f"more than one operand would have to be copied: {which}"
    return _late_buffer(inputs, buffer, model) or _reader_of_gaps(root, inputs, axis, model)


def _late_buffer(inputs: Sequence[Instruction], buffer: Instruction, model: ConcatModel) -> str:
    made = [b for i in inputs if (b := model.buffer_of(i)) is not None]
    first = min(made, key=_order, default=buffer)
    late = [i for i in buffer.inputs if i.module is buffer.module and i.order >= first.order]
    if first.order < buffer.order and late:
        return (
            f"the buffer {buffer.name} #{buffer.id} cannot be made before {first.name} #{first.id}"
        )
    return ""


def _reader_of_gaps(
    root: Instruction, inputs: Sequence[Instruction], axis: int, model: ConcatModel
) -> str:
    """The reason why a user of an operand cannot read the part that it is copied to; empty if it can."""
    packed = all(n == 1 for n in root.shape.lens[:axis])
    for given in inputs:
        others = [u for u in given.users if u is not root and not model.reads_gaps(u)]
        if others and not packed:
            return f"{others[0].name} #{others[0].id} would read from a part of a buffer with gaps"
    return ""


def _is_direct(given: Instruction, axis: int, model: ConcatModel) -> bool:
    """Whether an operand is written into an allocation that a part of the buffer can replace."""
    if model.buffer_of(given) is None:
        return False
    shape = given.shape
    lens = [1 if k == axis else n for k, n in enumerate(shape.lens)]
    return Shape(shape.type, lens, shape.strides).packed or model.writes_gaps(given)


def _order(instruction: Instruction) -> int:
    return instruction.order
