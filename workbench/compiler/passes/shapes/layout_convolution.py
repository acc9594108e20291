"""The order in memory of the axes of convolution operands."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.convolve import Convolution, QuantConvolution
from workbench.compiler.ops.movement import Contiguous, Layout
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.shapes.eliminate_contiguous import remove_contiguous
from workbench.compiler.rewrite import change

_CHANNELS_FIRST, _CHANNELS_LAST = (0, 1, 2, 3), (0, 2, 3, 1)
_HALF = (DType.HALF, DType.BF16)


@register
class LayoutConvolution(Pass):
    """Give the operands of all two-dimensional convolutions the same memory layout.

    Values between convolutions follow this layout; results of a module keep theirs.

    Attributes:
        channels_last: Make channels the fastest axis, except for grouped convolutions; otherwise row-major.
        half_channels_last: The same for convolutions of half and bfloat16 alone. Matrix units multiply
            channels that are contiguous.
    """

    name = "layout_convolution"
    rests = True
    channels_last: bool = False
    half_channels_last: bool = False

    def apply(self, program: Program) -> None:
        """Insert copies around convolutions, then remove those that no reader needs."""
        for module in open_modules(program):
            found = [i for i in module if _is_plane(i)]
            if any(map(self._is_laid_otherwise, found)):
                _keep_results(module)
                for instruction in found:
                    lay_out(instruction, self._order(instruction))
                remove_contiguous(module, Contiguous.name)
            for instruction in module:
                if isinstance(instruction.op, Layout) and _is_idle(instruction):
                    remove_layout(instruction)

    def _order(self, instruction: Instruction) -> tuple[int, ...]:
        """The wanted order of a convolution's axes."""
        op = instruction.op
        assert isinstance(op, Convolution | QuantConvolution)
        half = all(i.shape.type in _HALF for i in instruction.inputs)
        last = self.channels_last or (self.half_channels_last and half)
        return _CHANNELS_LAST if last and op.group == 1 else _CHANNELS_FIRST

    def _is_laid_otherwise(self, instruction: Instruction) -> bool:
        order = self._order(instruction)
        return any(not _has_order(i.shape, order) for i in instruction.inputs)


def _is_plane(instruction: Instruction) -> bool:
    """Whether an instruction is a two-dimensional convolution of known lens."""
    return (
        isinstance(instruction.op, Convolution | QuantConvolution)
        and len(instruction.inputs) == 2
        and not any(i.shape.is_dynamic for i in instruction.inputs)
        and instruction.shape.ndim == len(_CHANNELS_FIRST)
    )


def _has_order(shape: Shape, order: tuple[int, ...]) -> bool:
    return shape.permutation == order or shape == Shape.permuted(shape.type, shape.lens, order)


def _keep_results(module: Module) -> None:
    """Lay out the results of a module as they are now."""
    for result in dict.fromkeys(module.outputs):
        if result.shape.is_tensor and not result.shape.is_dynamic and result.shape.ndim > 1:
            keep_result(result)


@change
def keep_result(result: Instruction) -> None:
    """x → layout(x), for a result x"""
    module, order = result.module, result.shape.permutation
    last = module.last if module.has_return else None
    made = module.insert(last, Layout(permutation=order), result)
    module.program.tell_replaced(result, made)
    if last is not None:
        module.set_inputs(last, [made if i is result else i for i in last.inputs])


@change
def lay_out(instruction: Instruction, order: tuple[int, ...]) -> None:
    """convolution(x, w) → contiguous(convolution(layout(x), layout(w)))"""
    module, layout = instruction.module, Layout(permutation=order)
    inputs = [module.insert(instruction, layout, i) for i in instruction.inputs]
    made = module.insert(instruction, instruction.op, *inputs)
    module.replace(instruction, module.insert(instruction, Contiguous(), made))


def _is_idle(instruction: Instruction) -> bool:
    """Whether a layout's input already has the wanted order."""
    op = instruction.op
    assert isinstance(op, Layout)
    return _has_order(instruction.inputs[0].shape, op.permutation)


@change
def remove_layout(instruction: Instruction) -> None:
    """layout(x) → x, where x has that order"""
    instruction.module.replace(instruction, instruction.inputs[0])
