"""An arena parameter, allocated before a run."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import BACKEND, AllocationModel
from workbench.compiler.rewrite import Decline, change


@register
class PreallocateParam(Pass):
    """Replace an arena parameter such as ``scratch`` by memory that the target allocates.

    Args:
        param: The parameter's name.
        model: How the target allocates.
    """

    name = "preallocate_param"
    rests = True
    apart = BACKEND
    param: str = "scratch"
    model: AllocationModel = AllocationModel()

    def apply(self, program: Program) -> None:
        """Replace the parameter of that name in every module that has one."""
        for module in open_modules(program):
            if (found := module.parameters.get(self.param)) is not None:
                preallocate(found, self.model)


@change
def preallocate(parameter: Instruction, model: AllocationModel) -> Decline | None:
    """@param → preallocate"""
    module, name = parameter.module, parameter.parameter
    if module is not module.program.main:
        return Decline(f"module {module.name!r} is called with an input for {name!r}")
    if parameter.shape.dims is not None:
        return Decline(f"the size of {parameter.shape} is known only at run time")
    op = make(model.preallocate, shape=parameter.shape, id=f"{module.name}:{name}")
    made = module.insert(parameter, op)
    for user in parameter.users:
        user.module.set_inputs(user, [made if i is parameter else i for i in user.inputs])
    module.remove(parameter)
    return None
