"""Parameters and results of 8-bit floats, passed and returned in another type."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.convert import Convert
from workbench.compiler.passes.base import Pass, register
from workbench.compiler.passes.precision.eliminate_data_type import type_text
from workbench.compiler.rewrite import change


@register
class AutocastFp8(Pass):
    """Parameters and results of 8-bit floats become float; the program converts them itself.

    Attributes:
        target_type: Name of the type that callers see.
    """

    name = "autocast_fp8"
    rests = True
    apart = "a model's own 8-bit inputs keep their type. Run by `autocast_fp8` of the drop-in."
    target_type: str = "float"

    def __post_init__(self) -> None:
        """Keep the type's name."""
        object.__setattr__(self, "target_type", type_text(self.target_type))

    def apply(self, program: Program) -> None:
        """Convert the parameters of the main module in their order, then its results."""
        target, main = DType.of(self.target_type), program.main
        for instruction in list(main):
            if instruction.parameter is not None and instruction.shape.type in FP8:
                take_as(instruction, target)
        last = main.last
        if last is not None and main.has_return and any(i.shape.type in FP8 for i in last.inputs):
            return_as(last, target)


@change
def take_as(parameter: Instruction, target: DType) -> None:
    """a parameter of fp8 → convert[fp8](a parameter of another type)"""
    module, name, shape = parameter.module, parameter.parameter or "", parameter.shape
    module.rename_parameter(parameter, _unused(module, name))
    given = module.add_parameter(name, shape.with_type(target))
    place = parameter if given.order < parameter.order else given.following
    value = module.insert(place, Convert(target_type=shape.type), given)
    module.program.tell_replaced(parameter, value)
    for user in parameter.users:
        user.module.set_inputs(user, [value if i is parameter else i for i in user.inputs])
    module.remove(parameter)


def _unused(module: Module, name: str) -> str:
    while name in module.parameters:
        name += "_old"
    return name


@change
def return_as(last: Instruction, target: DType) -> None:
    """@return(x) → @return(convert(x)), for x of fp8"""
    module, convert = last.module, Convert(target_type=target)
    inputs = [module.insert(last, convert, i) if i.shape.type in FP8 else i for i in last.inputs]
    module.set_inputs(last, inputs)
