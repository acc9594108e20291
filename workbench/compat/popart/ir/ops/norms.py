"""Normalisation, and the loss of a classifier."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.dtypes import float32
from workbench.compat.popart.ir.factories import constant
from workbench.compat.popart.ir.op import record
from workbench.compat.popart.ir.ops.checks import check
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compat.popart.reductions import ReductionType
from workbench.compiler.expressions.value import Value


@api
def group_norm(
    t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5
) -> Tensor:
    """Values of each sample and group of channels with mean 0 and variance 1, then scaled and shifted.

    Args:
        t: A tensor (samples, channels, …).
        weight: The scale of each channel.
        bias: The shift of each channel.
        num_groups: The number of groups that channels are divided into.
        eps: Added to the variance.

    Raises:
        ValueError: The channels cannot be divided so.
    """
    return _normalised(t, weight, bias, num_groups, eps)


@api
def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Values of each sample with mean 0 and variance 1, then scaled and shifted by channel."""
    return _normalised(t, weight, bias, 1, eps)


def _normalised(t: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
    check(t=t, weight=weight, bias=bias)
    if t.rank < 2 or groups < 1 or t.shape[1] % groups:
        raise ValueError(f"group_norm: {t!r} has no axis of channels that {groups} groups divide")
    lens, rows = t.shape, t.shape[0] * groups
    channels = (1, lens[1], *(1 for _ in lens[2:]))

    def meaning(x: Value, scale: Value, shift: Value) -> tuple[Value, ...]:
        flat = x.reshape(rows, -1).astype("float")
        mean = flat.mean(1, keepdims=True)
        centred = flat - mean
        inverse = ((centred * centred).mean(1, keepdims=True) + eps).apply("rsqrt")
        found = (centred * inverse).reshape(lens).astype(x.dtype)
        shaped = found * scale.reshape(channels) + shift.reshape(channels)
        return shaped, mean.reshape(rows), inverse.reshape(rows)

    names = ["group_norm_out", "group_norm_mean", "group_norm_inv_std_dev"]
    attributes = {"num_groups": groups, "epsilon": eps}
    made = record(
        "GroupNormalization", [t, weight, bias], meaning, names=names, attributes=attributes
    )
    return made.outputs[0]


@api
def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: float | Tensor = 1,
    reduction: ReductionType = ReductionType.Mean,
    ignore_index: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The negative logarithm of each label's probability, and its gradient before the softmax.

    Args:
        probs: Probabilities, the results of a softmax along the last axis.
        labels: The number of the right class for each of them.
        loss_grad: The gradient of the loss; a number becomes a constant.
        reduction: The mean or the sum over all labels, or a loss for each.
        ignore_index: Labels of this number have neither loss nor gradient, and do not count for the mean.

    Returns:
        The loss, and the gradient of the softmax's input.
    """
    scale = loss_grad if isinstance(loss_grad, Tensor) else constant(loss_grad, float32)
    check(probs=probs, labels=labels, loss_grad=scale)
    if labels.shape != probs.shape[:-1]:
        raise ValueError(f"labels are {labels!r}; expected the shape {probs.shape[:-1]}")
    classes, count = probs.shape[-1], prod(labels.shape)

    def meaning(p: Value, given: Value, factor: Value) -> tuple[Value, ...]:
        target = given.astype("int64").apply("unsqueeze", axes=(given.ndim,))
        is_label = (target == np.arange(classes)).astype(p.dtype)
        kept = _kept(target, p, ignore_index)
        tiny = float(np.finfo(np.float32 if p.dtype.size > 2 else np.float16).tiny)
        loss = -((p * is_label).sum(-1, keepdims=True).maximum(tiny).apply("log")) * kept
        share: Any = 1.0
        if reduction is ReductionType.Mean:
            share = 1 / count if ignore_index is None else kept.sum().apply("recip")
        gradient = (p - is_label) * kept * share
        flat = loss.apply("squeeze", axes=(-1,))
        total = flat if reduction is ReductionType.NoReduction else flat.sum() * share
        return total.astype(p.dtype), (gradient * _factor(factor, p)).astype(p.dtype)

    names = ["loss", "dx"]
    attributes: dict[str, Any] = {"reduction": reduction.name, "ignore_index": ignore_index}
    made = record(
        "NlllWithSoftmaxGradDirect", [probs, labels, scale], meaning, names=names,
        attributes=attributes,
    )  # fmt: skip
    return made.outputs[0], made.outputs[1]


def _kept(target: Value, p: Value, ignored: int | None) -> Value:
    """1 for each label that counts, 0 for the others."""
    counts = target >= target.dtype.numpy.type(0).item() if ignored is None else target != ignored
    return counts.astype(p.dtype)


def _factor(given: Value, p: Value) -> Value:
    """The gradient of the loss, which is one number or one for each label."""
    value = given.astype(p.dtype)
    return value.apply("unsqueeze", axes=(value.ndim,)) if value.ndim else value
