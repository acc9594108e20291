"""Operations rewritten into others that later passes fold and fuse better."""

from __future__ import annotations

from dataclasses import replace
from math import pi, sqrt
from typing import ClassVar

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.ops.movement import Pad, PadMode
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import spread
from workbench.compiler.program import Program
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Rewriter,
    Rule,
    behind_broadcasts,
    drive,
    either,
    literal,
    op,
    rule,
    var,
)

# GELU


def about(value: float) -> Pattern:
    """A literal whose elements are ``value``, as well as the digits that models are written with tell."""

    def near(instruction: Instruction) -> bool:
        found = behind_broadcasts(instruction).literal
        if found is None or not found.shape.elements or not found.shape.type.is_float:
            return False
        return bool(np.all(np.abs(found.numpy().astype(np.float64) - value) <= 2e-3 * abs(value)))

    return literal(f"about_{value:g}", near)


def _product(*leaves: Pattern) -> Pattern:
    """The product of three values, in any order and grouping."""
    a, c, d = leaves
    return either(
        op("mul", op("mul", a, c).once, d),
        op("mul", op("mul", a, d).once, c),
        op("mul", op("mul", c, d).once, a),
    )


_CUBE = op("pow", var("x"), about(3)).once
_INNER = either(
    op("mul", op("add", var("x"), op("mul", _CUBE, about(0.044715))), about(sqrt(2 / pi))),
    op(
        "add",
        op("mul", var("x"), about(sqrt(2 / pi))),
        op("mul", _CUBE, about(0.044715 * sqrt(2 / pi))),
    ),
)
_TANH_PART = op("add", op("tanh", _INNER).once, about(1))
_ERF_PART = op(
    "add",
    op(
        "erf", either(op("mul", var("x"), about(sqrt(0.5))), op("div", var("x"), about(sqrt(2))))
    ).once,
    about(1),
).once


@rule(_product(var("x"), about(0.5), _TANH_PART))
def find_tanh_gelu(b: Rewriter, x: Instruction) -> Instruction:
    """x · 0.5 · (1 + tanh(√(2/π)(x + 0.044715 x³))) → x / (1 + exp(x (c₁ x² + c₀)))"""
    return _sigmoid_form(b, x)


@rule(_product(var("x"), about(0.5), _TANH_PART).when(lambda i: i.shape.type is DType.HALF))
def find_tanh_gelu_half(b: Rewriter, x: Instruction) -> Instruction:
    """x · 0.5 · (1 + tanh(√(2/π)(x + 0.044715 x³))) → x / (1 + exp(x (c₁ x² + c₀))), for half"""
    return _sigmoid_form(b, x)


@rule(_product(var("x"), about(0.5), _ERF_PART).when(lambda i: i.shape.type is DType.HALF))
def find_erf_gelu(b: Rewriter, x: Instruction) -> Instruction:
    """x · 0.5 · (1 + erf(x / √2)) → x / (1 + exp(x (c₁ x² + c₀))), within 5e-4, for half"""
    return _sigmoid_form(b, x)


def _sigmoid_form(b: Rewriter, x: Instruction) -> Instruction:
    def number(value: float) -> Instruction:
        return spread(b, b.literal(np.array([value]).astype(x.shape.type.numpy)), x.shape.lens)

    linear = -2 * sqrt(2 / pi)
    inner = b("add", b("mul", x, b("mul", x, number(0.044715 * linear))), number(linear))
    return b("div", x, b("add", number(1), b("exp", b("mul", x, inner))))


@register
class RewriteGelu(RewritePass):
    """GELU by one exponential instead of an error function or a hyperbolic tangent.

    The tanh form is rewritten without loss; the erf form only for half, whose rounding hides the difference.

    Attributes:
        fast_math: Only where the type is half; otherwise the tanh form in any type, and never the erf form.
    """

    name: ClassVar[str] = "rewrite_gelu"
    rules: ClassVar[tuple[Rule, ...]] = (find_tanh_gelu, find_tanh_gelu_half, find_erf_gelu)
    fast_math: bool = True

    def apply(self, program: Program) -> None:
        """Apply the rules that the option allows."""
        allowed = (find_tanh_gelu_half, find_erf_gelu) if self.fast_math else (find_tanh_gelu,)
        drive(program, allowed)


# Reductions


@rule(op("logsoftmax", var("x")))
def find_logsoftmax(b: Rewriter, x: Instruction) -> Instruction:
    """logsoftmax(x) → log(softmax(x))"""
    return b("log", b("softmax", x, axis=_axis(b.root)))


@rule(op("softmax", var("x")))
def find_softmax(b: Rewriter, x: Instruction) -> Instruction:
    """softmax(x) → div(exp(x - max(x)), sum(exp(x - max(x))))"""
    axes, lens = (_axis(b.root),), x.shape.lens
    powers = b("exp", b("sub", x, spread(b, b("reduce_max", x, axes=axes), lens)))
    return b("div", powers, spread(b, b("reduce_sum", powers, axes=axes), lens))


def _axis(instruction: Instruction) -> int:
    return int(instruction.op.attributes()["axis"]) % instruction.shape.ndim


@rule(op("reduce_mean", var("x")).when(lambda i: i.shape.type.is_float and len(i.inputs) == 1))
def find_reduce_mean(b: Rewriter, x: Instruction) -> Instruction:
    """reduce_mean(x) → reduce_sum(x / n), in float where the type is too narrow for the terms"""
    count = x.shape.elements // max(b.root.shape.elements, 1)
    kind = x.shape.type
    work = DType.FLOAT if kind.size == 1 or (kind is DType.HALF and count >= 65504 / 4) else kind
    wide = x if work is kind else b("convert", x, target_type=work)
    n = spread(b, b.literal(np.array([count]).astype(work.numpy)), x.shape.lens)
    total = b("reduce_sum", b("div", wide, n), axes=b.root.op.attributes()["axes"])
    return total if work is kind else b("convert", total, target_type=kind)


@register
class RewriteReduce(RewritePass):
    """Softmax and means as the sums, maxima and elementwise work that they are made of.

    A variance keeps its two passes over the data: mean(x²) - mean(x)² cancels where the mean is large.
    """

    name: ClassVar[str] = "rewrite_reduce"
    rules: ClassVar[tuple[Rule, ...]] = (find_logsoftmax, find_softmax, find_reduce_mean)


# Pooling

_GLOBAL_REDUCE = {"AVERAGE": "reduce_mean", "MAX": "reduce_max"}


@rule(op("pooling", var("x")))
def find_global_pooling(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """pooling(x) → reduce_mean(x) or reduce_max(x), for a window as large as the input"""
    pool = b.root.op.attributes()
    if pool["mode"].name not in _GLOBAL_REDUCE:
        return Decline(f"mode {pool['mode'].name.lower()} is neither average nor max")
    if pool["lengths"] != x.shape.lens[2:]:
        return Decline(f"the window {pool['lengths']} is not the whole input {x.shape.lens[2:]}")
    if any(pool["padding"]) or set(pool["dilations"]) != {1}:
        return Decline("the window is padded or dilated")
    return b(_GLOBAL_REDUCE[pool["mode"].name], x, axes=tuple(range(2, x.shape.ndim)))


@register
class RewritePooling(RewritePass):
    """Pooling over the whole input as a reduction."""

    name: ClassVar[str] = "rewrite_pooling"
    rules: ClassVar[tuple[Rule, ...]] = (find_global_pooling,)


# Padding


_PADDED = "convolution|quant_convolution|im2col"


@rule(op(_PADDED).when(lambda i: i.inputs[0].name == "pad"))
def find_pad(b: Rewriter) -> Instruction | Decline:
    """convolution(pad(x), w) → convolution[padding](x, w), for zeros around the spatial axes"""
    pad, kernel = b.root.inputs[0].op, b.root.op.attributes()
    assert isinstance(pad, Pad)
    if reason := _not_padding(pad, kernel["padding_mode"]):
        return Decline(reason)
    rank = len(pad.pads) // 2
    spatial = pad.pads[2:rank] + pad.pads[rank + 2 :]
    own = kernel["padding"] * (2 if len(kernel["padding"]) == rank - 2 else 1)
    padding = tuple(p + q for p, q in zip(own, spatial, strict=True))
    return b(replace(b.root.op, padding=padding), b.root.inputs[0].inputs[0], *b.root.inputs[1:])


def _not_padding(pad: Pad, padding_mode: int) -> str:
    """Why a pad cannot become the padding of a convolution."""
    rank = len(pad.pads) // 2
    if pad.mode is not PadMode.CONSTANT or pad.value != 0:
        return "the pad's value is not 0"
    if any(pad.pads[:2] + pad.pads[rank : rank + 2]):
        return "it pads the batch or the channels"
    if min(pad.pads) < 0:
        return "it crops"
    return "the convolution chooses its padding itself" if padding_mode else ""


@register
class EliminatePad(RewritePass):
    """Zeros around an input as the padding of the convolution that reads it."""

    name: ClassVar[str] = "eliminate_pad"
    rules: ClassVar[tuple[Rule, ...]] = (find_pad,)


def _is_uneven(instruction: Instruction) -> bool:
    padding = tuple(instruction.op.attributes()["padding"])
    rank = len(instruction.inputs[0].shape.lens) - 2
    return len(padding) == 2 * rank and padding[:rank] != padding[rank:]


@rule(op(_PADDED).when(_is_uneven))
def find_uneven_padding(b: Rewriter) -> Instruction:
    """convolution[padding](x, w) → convolution(pad(x), w), for ends padded unlike begins"""
    padding = tuple(b.root.op.attributes()["padding"])
    rank = len(padding) // 2
    pads = (0, 0, *padding[:rank], 0, 0, *padding[rank:])
    made = b(Pad(pads=pads), b.root.inputs[0])
    return b(replace(b.root.op, padding=(0,) * len(padding)), made, *b.root.inputs[1:])


@register
class InsertPad(RewritePass):
    """Uneven padding as a pad of its own, for kernels that pad evenly."""

    name: ClassVar[str] = "insert_pad"
    rules: ClassVar[tuple[Rule, ...]] = (find_uneven_padding,)
