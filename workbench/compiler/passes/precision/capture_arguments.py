"""Arguments captured for calibration."""

from __future__ import annotations

from workbench.compiler.ir.builtin import Capture
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector, select, selectors_of
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.recurrent import LastState
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.precision.eliminate_data_type import names_of
from workbench.compiler.rewrite import change

QUANTIZABLE = (DType.FLOAT, DType.DOUBLE, DType.HALF)
"""Types of the arguments that are captured."""


@register
class CaptureArguments(Pass):
    """Put a numbered ``capture`` before every float argument of some operations, for calibration.

    Attributes:
        ins_names: Names of the operations whose arguments are captured.
        keep: Selectors of the instructions whose arguments are not.
    """

    name = "capture_arguments"
    once = "a second run captures the arguments again, under other numbers"
    apart = "it is for calibration. Run by `wb.quantize`."
    ins_names: tuple[str, ...] = ()
    keep: tuple[Selector, ...] = ()

    def __post_init__(self) -> None:
        """Keep names and selectors as tuples."""
        object.__setattr__(self, "keep", selectors_of(self.keep))
        object.__setattr__(self, "ins_names", names_of(self.ins_names))

    def apply(self, program: Program) -> None:
        """Number arguments in the order of the instructions, called modules before their callers.

        Raises:
            OperationError: A selector chooses nothing.
        """
        index, kept = 0, select(program, self.keep)
        for module in open_modules(program):
            for instruction in list(module):
                if instruction.id not in kept and self._is_meant(instruction.op):
                    count = sum(map(is_captured, instruction.inputs))
                    if count:
                        capture(instruction, index)
                    index += count

    def _is_meant(self, op: Operation) -> bool:
        """Whether an operation's arguments are captured; last states are read from the network itself."""
        return op.name in self.ins_names and not isinstance(op, Convert | LastState)


def is_captured(value: Instruction) -> bool:
    """Whether a value is a float that is captured where an operation takes it."""
    shape = value.shape
    return shape.type in QUANTIZABLE and (shape.dims is not None or shape.elements > 0)


@change
def capture(instruction: Instruction, index: int) -> None:
    """f(x) → f(capture(x))"""
    module, inputs = instruction.module, list(instruction.inputs)
    for i, value in enumerate(inputs):
        if is_captured(value):
            inputs[i] = module.insert(instruction, Capture(ins_index=index), value)
            index += 1
    module.set_inputs(instruction, inputs)
