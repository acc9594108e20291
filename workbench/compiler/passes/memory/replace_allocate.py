"""Allocations by the target's operation; those of results become parameters."""

from __future__ import annotations

from collections.abc import Collection

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.memory.liveness import owner
from workbench.compiler.ops.control import OUTPUT_PREFIX, If
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import AllocationModel, buffer_shape
from workbench.compiler.rewrite import Decline, change


@register
class ReplaceAllocate(Pass):
    """Make the buffers of results parameters, and replace other allocations by the target's operation.

    A result that is a view is copied into a buffer of its own first. Branches of an ``if`` get the buffers
    of their results from it; other called modules allocate their own.

    Args:
        model: How the target allocates.
        offload_copy: Whether the main module allocates its own results, which are copied out.
    """

    name = "replace_allocate"
    rests = True
    apart = (
        "follows `lowering`. In `gpu` where the caller provides the buffers (`offload_copy=False`), "
        "and in the pipeline `backend`."
    )
    model: AllocationModel = AllocationModel()
    offload_copy: bool = False

    def apply(self, program: Program) -> None:
        """Replace allocations in called modules first, so that their callers know which buffers they need."""
        made: set[str] = set()
        callers = _callers(program)
        for module in open_modules(program):
            given = self._gives_buffers(module, callers.get(module, []))
            if given:
                self._copy_views(module)
            names = _names(module) if given else {}
            for instruction in module:
                if isinstance(instruction.op, If):
                    _bind_buffers(instruction, made, self.model)
                elif isinstance(instruction.op, Allocate):
                    self._replace(instruction, names, made)

    def _gives_buffers(self, module: Module, callers: Collection[Instruction]) -> bool:
        """Whether the callers of a module provide the buffers of its results."""
        if not self.model.needs_out_params:
            return False
        if module is module.program.main:
            return not self.offload_copy
        return all(isinstance(c.op, If) for c in callers)

    def _copy_views(self, module: Module) -> None:
        for result in dict.fromkeys(module.outputs):
            static = result.shape.is_tensor and result.shape.dims is None
            if static and owner(result).shape != result.shape:
                copy_out(result, self.model)

    def _replace(
        self, instruction: Instruction, names: dict[Instruction, str], made: set[str]
    ) -> None:
        name = names.get(instruction)
        if name is not None and instruction.shape.dims is None:
            give_buffer(instruction, name)
            made.add(name)
        elif self.model.name != Allocate.name:
            allocate_as(instruction, self.model)


def _callers(program: Program) -> dict[Module, list[Instruction]]:
    found: dict[Module, list[Instruction]] = {}
    for instruction in program.instructions:
        for module in instruction.modules:
            found.setdefault(module, []).append(instruction)
    return found


def _names(module: Module) -> dict[Instruction, str]:
    """Names of the parameters that the allocations behind a module's results become."""
    is_main = module is module.program.main
    found = {owner(r): k for k, r in enumerate(module.outputs)}
    return {
        one: f"{module.name}:{OUTPUT_PREFIX}{k if k < 10 else f':{k:05}'}"
        for one, k in found.items()
        if isinstance(one.op, Allocate) and one.module is module and (is_main or one.shape.standard)
    }


@change
def copy_out(result: Instruction, model: AllocationModel) -> None:
    """@return(view) → @return(copy(view, allocate))"""
    module = result.module
    last = None if result is module.last else module.last
    following = result.following
    buffer = module.insert(following, model.allocate(buffer_shape(result.shape)))
    made = module.insert(following, model.copy, result, buffer)
    if last is not None:
        for user in result.users:
            if user is not made and user.module is module:
                module.set_inputs(user, [made if i is result else i for i in user.inputs])


@change
def give_buffer(allocation: Instruction, name: str) -> Decline | None:
    """@return(f(x, allocate)) → @return(f(x, a parameter))"""
    module = allocation.module
    if name in module.parameters:
        return Decline(f"module {module.name!r} already has a parameter {name!r}")
    module.replace(allocation, module.add_parameter(name, allocation.shape))
    return None


@change
def allocate_as(allocation: Instruction, model: AllocationModel) -> None:
    """allocate → the target's operation"""
    module = allocation.module
    module.replace(allocation, module.insert(allocation, model.allocate(allocation.shape)))


def _bind_buffers(instruction: Instruction, made: Collection[str], model: AllocationModel) -> None:
    names = sorted({n for m in instruction.modules for n in m.parameters})
    if made and len(names) + 1 > len(instruction.inputs):
        bind_buffers(instruction, names, made, model)


@change
def bind_buffers(
    instruction: Instruction, names: list[str], made: Collection[str], model: AllocationModel
) -> None:
    """if(condition) → if(condition, allocate…), for branches whose results need buffers"""
    module = instruction.module
    given = iter(instruction.inputs[1:])
    shapes = {n: p.shape for m in instruction.modules for n, p in m.parameters.items()}
    inputs = [
        module.insert(instruction, model.allocate(shapes[n])) if n in made else next(given)
        for n in names
    ]
    module.set_inputs(instruction, [instruction.inputs[0], *inputs])
