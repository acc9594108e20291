"""Macros of convolutions: defaults for the spatial axes, automatic padding, bias, zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.macros.contractions import shifted
from workbench.compiler.macros.emit import Emit
from workbench.compiler.macros.table import macro
from workbench.compiler.ops.windows import PaddingMode, same_padding
from workbench.compiler.run.constants import evaluate_constant

Ints = tuple[int, ...]

_SAME = {
    "SAME": PaddingMode.SAME_LOWER,
    "SAME_LOWER": PaddingMode.SAME_LOWER,
    "SAME_UPPER": PaddingMode.SAME_UPPER,
}


@macro("convolution", least=2, most=3)
def convolution(
    emit: Emit,
    inputs: list[Instruction],
    *,
    auto_pad: str = "NOTSET",
    paddings: Ints = (),
    strides: Ints = (),
    dilations: Ints = (),
    group: int = 1,
    padding_mode: PaddingMode = PaddingMode.DEFAULT,
) -> Instruction:
    """A convolution, plus a bias for each channel if there is a third input."""
    attributes = _attributes(
        emit, inputs, auto_pad, paddings, strides, dilations, group, padding_mode
    )
    result = emit.add("convolution", *inputs[:2], **attributes)
    if len(inputs) < 3:
        return result
    if result.shape.is_dynamic:
        bias = emit.add("broadcast", inputs[2], result, axis=1)
    else:
        bias = emit.add("broadcast", inputs[2], axis=1, out_lens=result.shape.lens)
    return emit.add("add", result, bias)


@macro("quant_convolution", least=2, most=4)
def quant_convolution(
    emit: Emit,
    inputs: list[Instruction],
    *,
    auto_pad: str = "NOTSET",
    paddings: Ints = (),
    strides: Ints = (),
    dilations: Ints = (),
    group: int = 1,
    padding_mode: PaddingMode = PaddingMode.DEFAULT,
) -> Instruction:
    """A convolution of int8 or uint8 operands, each minus its zero point."""
    x, weights = inputs[:2]
    attributes = _attributes(
        emit, inputs, auto_pad, paddings, strides, dilations, group, padding_mode
    )
    zeros = [_zero_point(emit, v, inputs[i : i + 1]) for v, i in ((x, 2), (weights, 3))]
    if DType.UINT8 in (x.shape.type, weights.shape.type):
        shift = emit.scalar(DType.HALF, -128)
        x, zeros[0] = _as_int8(emit, x, zeros[0], shift)
        weights, zeros[1] = _as_int8(emit, weights, zeros[1], shift)
    result = emit.add("quant_convolution", x, weights, **attributes)

    def spread(value: Instruction, zero: Instruction) -> Instruction:
        if zero.shape.elements == 1:
            return emit.multibroadcast(zero, emit.static(value, "an operand with a zero point"))
        return emit.add("broadcast", zero, axis=0, out_lens=emit.static(value, "an operand"))

    x_zero, w_zero = zeros
    if x_zero is not None:
        lowered = emit.add("quant_convolution", spread(x, x_zero), weights, **attributes)
        result = emit.common("sub", result, lowered)
    if w_zero is not None:
        lowered = emit.add("quant_convolution", x, spread(weights, w_zero), **attributes)
        result = emit.common("sub", result, lowered)
    if x_zero is not None and w_zero is not None:
        both = spread(x, x_zero), spread(weights, w_zero)
        result = emit.common("add", result, emit.add("quant_convolution", *both, **attributes))
    return result


def _attributes(
    emit: Emit,
    inputs: list[Instruction],
    auto_pad: str,
    paddings: Ints,
    strides: Ints,
    dilations: Ints,
    group: int,
    padding_mode: PaddingMode,
) -> dict[str, Any]:
    """The operation's attributes, completed for the input's number of spatial axes."""
    x, weights = (dims_of(i.shape)[2:] for i in inputs[:2])
    rank = len(x)
    if not rank or len(weights) != rank:
        shapes = f"{inputs[0].shape} and {inputs[1].shape}"
        raise emit.fail(f"{shapes}; expected at least one spatial axis, and equally many in both")
    strides = _list(emit, "strides", strides, (1,) * rank)
    dilations = _list(emit, "dilations", dilations, (1,) * rank)
    if paddings and len(paddings) not in (rank, 2 * rank):
        raise emit.fail(f"{len(paddings)} paddings {list(paddings)}; expected {rank} or {2 * rank}")
    paddings = paddings or (0,) * rank
    mode = _SAME.get(auto_pad.upper())
    if mode is None and auto_pad.upper() not in {"NOTSET", "VALID"}:
        raise emit.fail(f"auto_pad={auto_pad!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    if mode is not None and all(d.is_fixed for d in (*x, *weights)):
        span = [e * (k.max - 1) + 1 for k, e in zip(weights, dilations, strict=True)]
        begins, ends = same_padding(mode, [d.max for d in x], span, strides)
        paddings = begins + ends
    elif mode is not None:
        padding_mode = mode
    return {
        "stride": strides,
        "dilation": dilations,
        "padding": paddings,
        "group": group,
        "padding_mode": padding_mode,
    }


def _list(emit: Emit, what: str, given: Ints, default: Ints) -> Ints:
    if given and (len(given) != len(default) or min(given) < 1):
        raise emit.fail(f"{what} {list(given)}; expected {len(default)} positive numbers")
    return given or default


def _zero_point(emit: Emit, value: Instruction, given: list[Instruction]) -> Instruction | None:
    """The zero point, or None if a shift to int8 makes it 0; then a literal of its value is emitted."""
    type = value.shape.type
    middle = 128 if type is DType.UINT8 else 0
    if given and given[0].shape.type is not type:
        found = given[0].shape.type.type_name
        raise emit.fail(
            f"a zero point of {found}; expected {type.type_name}, the type of its operand"
        )
    if given and not (given[0].is_constant and bool(np.all(evaluate_constant(given[0]) == middle))):
        return given[0]
    emit.scalar(type, middle)
    return None


def _as_int8(
    emit: Emit, value: Instruction, zero: Instruction | None, shift: Instruction
) -> tuple[Instruction, Instruction | None]:
    if value.shape.type is not DType.UINT8:
        return value, zero
    value = shifted(emit, value, shift)
    return value, None if zero is None else shifted(emit, zero, shift)
