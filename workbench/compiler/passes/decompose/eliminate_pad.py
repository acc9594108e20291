"""Folding a pad into the padding attribute of the window operation that reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import names_where
from workbench.compiler.ops.compare import Clip
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.movement import Pad, PadMode
from workbench.compiler.ops.pointwise import Mul
from workbench.compiler.ops.pool import Pooling, PoolingMode
from workbench.compiler.ops.windows import doubled
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Rewriter, op, rule

Ints: TypeAlias = tuple[int, ...]

WINDOWS = names_where(lambda cls: cls.sliding)


@rule(op("|".join(WINDOWS)).when(lambda i: isinstance(i.inputs[0].op, Pad)))
def find_pad(b: Rewriter) -> Instruction | Decline:
    """convolution(pad(x), w) → convolution[padding](x, w), and pooling or im2col likewise"""
    padded, kernel = b.root.inputs[0], b.root.op.attributes()
    pad, rank = padded.op, padded.shape.ndim
    assert isinstance(pad, Pad)
    if reason := _not_padding(pad, kernel["padding_mode"]) or _not_of_values(b.root, pad):
        return Decline(f"pad #{padded.id}: {reason}")
    spatial = pad.pads[2:rank] + pad.pads[rank + 2 :]
    own = doubled(kernel["padding"], rank - 2)
    padding = tuple(p + q for p, q in zip(own, spatial, strict=True))
    return b(replace(b.root.op, padding=padding), padded.inputs[0], *b.root.inputs[1:])


def _not_padding(pad: Pad, padding_mode: int) -> str:
    """The reason why a pad cannot become the padding of its reader."""
    rank = len(pad.pads) // 2
    if pad.mode is not PadMode.CONSTANT:
        return "its values are not one constant"
    if any(pad.pads[:2] + pad.pads[rank : rank + 2]):
        return "it pads the batch or the channels"
    if min(pad.pads) < 0:
        return "it crops"
    return "its reader computes its own padding (padding_mode)" if padding_mode else ""


def _not_of_values(reader: Instruction, pad: Pad) -> str:
    """The reason why the padding of ``reader`` would have values other than the pad's."""
    kernel = reader.op
    if not isinstance(kernel, Pooling) or kernel.mode is PoolingMode.LPNORM:
        return "" if pad.value == 0 else "the pad's value is not 0"
    if kernel.dyn_global:
        return "the window is the whole input, whatever its size"
    if kernel.mode is PoolingMode.AVERAGE:
        return "a mean counts the elements of a pad, but not padding"
    if pad.value == -np.inf:
        return ""
    if pad.value != 0:
        return "a maximum treats padding as -∞, and the pad's value is neither that nor 0"
    if not _is_never_negative(reader.inputs[0].inputs[0]):
        return "a maximum treats padding as -∞; 0 is the same only where no element is negative"
    return "" if _always_reach(kernel, pad) else "some windows may have nothing but padding"


def _always_reach(pool: Pooling, pad: Pad) -> bool:
    """Whether no window lies entirely in padding, the pad's and the pooling's own together."""
    rank = len(pool.lengths)
    own = doubled(pool.padding, rank)
    total = [p + q for p, q in zip(pad.pads[2 : 2 + rank] + pad.pads[-rank:], own, strict=True)]
    plain = set(pool.dilations) == {1} and not pool.ceil_mode
    return plain and all(p < n for p, n in zip(total, pool.lengths * 2, strict=True))


def _is_never_negative(value: Instruction) -> bool:
    """Whether all elements are known to be 0, positive or NaN."""
    while value.op.rearranges is not None or _keeps_sign(value):
        value = value.inputs[0]
    if value.literal is not None:
        return bool(np.all(value.literal.numpy() >= 0))
    if isinstance(value.op, Clip):
        return all(map(_is_never_negative, value.inputs[1:]))
    is_square = isinstance(value.op, Mul) and value.inputs[0] is value.inputs[1]
    type = value.shape.type
    return type.numpy.kind in "bu" or (type.is_float and (is_square or value.op.never_negative))


def _keeps_sign(value: Instruction) -> bool:
    """Whether it is a conversion that makes no element negative; of integers the low bits may."""
    if not isinstance(value.op, Convert):
        return False
    return any(i.shape.type.is_float or i.shape.type is DType.BOOL for i in (value, *value.inputs))


@register
class EliminatePad(RewritePass):
    """Fold a pad into the padding of the convolution, maximum or norm that reads it."""

    name = "eliminate_pad"
    rules = (find_pad,)
