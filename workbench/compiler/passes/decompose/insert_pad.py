"""Moving uneven padding of a window operation into a pad before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.movement import Pad
from workbench.compiler.ops.pool import Pooling, PoolingMode
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.decompose.eliminate_pad import WINDOWS, Ints
from workbench.compiler.rewrite import Decline, Rewriter, drive, op, rule


def _is_uneven(instruction: Instruction) -> bool:
    padding = tuple(instruction.op.attributes()["padding"])
    rank = len(instruction.inputs[0].shape.lens) - 2
    return len(padding) == 2 * rank and padding[:rank] != padding[rank:]


@rule(op("|".join(WINDOWS)).when(_is_uneven))
def find_uneven_padding(b: Rewriter) -> Instruction | Decline:
    """convolution[padding](x, w) → convolution(pad(x), w), for ends padded unlike begins"""
    kernel, value = b.root.op, 0.0
    padding: Ints = tuple(kernel.attributes()["padding"])
    if kernel.attributes()["padding_mode"]:
        return Decline("it computes its own padding (padding_mode)")
    if isinstance(kernel, Pooling):
        if kernel.mode is PoolingMode.AVERAGE:
            return Decline("a mean would count the elements of the pad")
        if kernel.dyn_global:
            return Decline("the window is the whole input, without padding")
        value = -np.inf if kernel.mode is PoolingMode.MAX else 0.0
    rank = len(padding) // 2
    pads = (0, 0, *padding[:rank], 0, 0, *padding[rank:])
    made = b(Pad(pads=pads, value=value), b.root.inputs[0])
    return b(replace(kernel, padding=(0,) * len(padding)), made, *b.root.inputs[1:])


@register
class InsertPad(RewritePass):
    """Move uneven padding into a separate pad, for kernels that only pad evenly.

    Attributes:
        ops: Names of the operations whose padding is moved; ``quant_convolution`` is allowed too.
    """

    name = "insert_pad"
    rules = (find_uneven_padding,)
    ops: tuple[str, ...] = ("convolution", "pooling", "im2col")

    def apply(self, program: Program) -> None:
        """Apply the rule to the operations in ``ops``.

        Raises:
            OperationError: One of ``ops`` is not a window operation.
        """
        names = frozenset(self.ops)
        if unknown := sorted(names.difference(WINDOWS)):
            known = ", ".join(WINDOWS)
            raise OperationError(f"insert_pad: ops has {unknown[0]!r}; expected some of {known}")
        drive(program, [replace(r, pattern=replace(r.pattern, ops=names)) for r in self.active])
