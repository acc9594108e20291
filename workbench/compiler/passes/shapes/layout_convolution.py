"""The order in memory of the axes of convolution operands."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.convolve import Convolution, QuantConvolution
from workbench.compiler.ops.movement import Contiguous, Layout
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.shapes.eliminate_contiguous import remove_contiguous
from workbench.compiler.rewrite import change

_PLANE = 4
"""The rank of images."""
_NARROW = (DType.HALF, DType.BF16, DType.INT8, DType.UINT8, *FP8)


@register
class LayoutConvolution(Pass):
    """Give the operands of all two-dimensional convolutions the same memory layout.

    Values between convolutions follow this layout; results of a module keep theirs. Convolutions over one or
    three axes stay as they are, unless all have their channels last.

    Attributes:
        channels_last: Make channels the fastest axis, except for grouped convolutions; otherwise row-major.
        grouped: Make them that for grouped convolutions, too. The weights of those with one channel a group
            have their filters as the fastest axis.
        half_channels_last: The same for convolutions of half, bfloat16 and types of 8 bits alone. Matrix
            units multiply channels that are contiguous.
    """

    name = "layout_convolution"
    rests = True
    channels_last: bool = False
    grouped: bool = False
    half_channels_last: bool = False

    def apply(self, program: Program) -> None:
        """Insert copies around convolutions, then remove those that no reader needs."""
        for module in open_modules(program):
            found = [i for i in module if self._suits(i)]
            if any(map(self._is_laid_otherwise, found)):
                _keep_results(module)
                for instruction in found:
                    lay_out(instruction, *self._orders(instruction))
                remove_contiguous(module, Contiguous.name)
            for instruction in module:
                if isinstance(instruction.op, Layout) and _is_idle(instruction):
                    remove_layout(instruction)

    def _suits(self, instruction: Instruction) -> bool:
        """Whether an instruction is a convolution of known lens whose layout the pass decides."""
        return (
            isinstance(instruction.op, Convolution | QuantConvolution)
            and len(instruction.inputs) == 2
            and not any(i.shape.is_dynamic for i in instruction.inputs)
            and (self.channels_last or instruction.shape.ndim == _PLANE)
        )

    def _orders(self, instruction: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The wanted orders of the axes of a convolution's input and weights."""
        op = instruction.op
        assert isinstance(op, Convolution | QuantConvolution)
        is_narrow = all(i.shape.type in _NARROW for i in instruction.inputs)
        last = self.channels_last or (self.half_channels_last and is_narrow)
        places = tuple(range(2, instruction.shape.ndim))
        if not last or (op.group > 1 and not self.grouped):
            return (0, 1, *places), (0, 1, *places)
        is_depthwise = op.group > 1 and instruction.inputs[1].shape.lens[1] == 1
        return (0, *places, 1), (1, *places, 0) if is_depthwise else (0, *places, 1)

    def _is_laid_otherwise(self, instruction: Instruction) -> bool:
        orders = zip(instruction.inputs, self._orders(instruction), strict=True)
        return any(not _has_order(i.shape, order) for i, order in orders)


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
def lay_out(instruction: Instruction, *orders: tuple[int, ...]) -> None:
    """convolution(x, w) → contiguous(convolution(layout(x), layout(w)))"""
    module = instruction.module
    wanted = zip(instruction.inputs, orders, strict=True)
    inputs = [module.insert(instruction, Layout(permutation=o), i) for i, o in wanted]
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
