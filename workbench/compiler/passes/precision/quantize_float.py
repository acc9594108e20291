"""Computing in a 16-bit float type instead of float."""

from __future__ import annotations

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.builtin import Undefined, Unknown
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector, select, selectors_of
from workbench.compiler.ops.control import GetTupleElem, If, Loop
from workbench.compiler.ops.convert import Convert
from workbench.compiler.passes.base import Pass, register
from workbench.compiler.passes.broadcasting import is_broadcast
from workbench.compiler.rewrite import change

_KEPT = (Convert, GetTupleElem, If, Loop, Undefined, Unknown)


@register
class QuantizeFloat(Pass):
    """Compute float operations in half or bfloat16; parameters and results keep their type.

    Attributes:
        type: ``fp16`` or ``bf16``.
        keep: Selectors of the instructions that stay in float.
    """

    name = "quantize_float"
    apart = (
        "lower precision is the user's choice. Run by `compile(precision=...)`, before all others."
    )
    type: str = "fp16"
    keep: tuple[Selector, ...] = ()

    def __post_init__(self) -> None:
        """Keep selectors as a tuple; raise OperationError unless all are selectors."""
        object.__setattr__(self, "keep", selectors_of(self.keep))

    def apply(self, program: Program) -> None:
        """Convert the inputs of every float operation, apply it to them, and convert its result back.

        Raises:
            OperationError: The type is another one, or a selector chooses nothing.
        """
        target = DType.of(self.type)
        if target not in (DType.HALF, DType.BF16):
            raise OperationError(f"quantize_float: type {self.type!r}; expected fp16 or bf16")
        kept = select(program, self.keep)
        for module in list(program.modules.values()):
            if not module.bypass:
                _quantize(module, target, kept)


def _quantize(module: Module, target: DType, kept: frozenset[int]) -> None:
    narrowed: dict[Instruction, Instruction] = {}
    for instruction in module:
        if instruction.id not in kept and computes_in_float(instruction):
            narrow(instruction, target, narrowed)


def computes_in_float(instruction: Instruction) -> bool:
    """Whether the pass would compute an instruction in the narrower type, unless it is kept."""
    op = instruction.op
    if (
        op.name.startswith("@")
        or isinstance(op, _KEPT)
        or instruction.modules
        or op.alias is not None
    ):
        return False
    return instruction.shape.type is DType.FLOAT


@change
def narrow(
    instruction: Instruction, target: DType, narrowed: dict[Instruction, Instruction]
) -> None:
    """f(x) → convert[float](f(convert[half](x))), rounded"""
    module, program = instruction.module, instruction.module.program
    to_narrow, to_wide = Convert(target_type=target), Convert(target_type=DType.FLOAT)
    inputs = [_converted(i, instruction, to_narrow, narrowed) for i in instruction.inputs]
    half = module.insert(instruction, instruction.op, *inputs)
    wide = module.insert(instruction, to_wide, half)
    program.tell_replaced(
        instruction, half
    )  # the same value, rounded: compare() measures the difference
    module.replace(instruction, wide)
    narrowed[wide] = half


def _converted(
    value: Instruction, before: Instruction, op: Operation, narrowed: dict[Instruction, Instruction]
) -> Instruction:
    """A value in the narrower type; of a broadcast, what it repeats is converted, so constants still show."""
    if value.shape.type is not DType.FLOAT:
        return value
    if value not in narrowed or narrowed[value].module is not before.module:
        if is_broadcast(value):
            source = _converted(value.inputs[0], before, op, narrowed)
            narrowed[value] = before.module.insert(before, value.op, source)
        else:
            narrowed[value] = before.module.insert(before, op, value)
    return narrowed[value]
