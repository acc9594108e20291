"""Softmax and normalisations, computed in float32 at least."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compat.aitemplate.frontend.lengths import IntVar, as_length
from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops.func_enum import swish
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType


class softmax(Operator):  # noqa: N801 - AITemplate's name
    """Exponentials along an axis, divided by their sum."""

    def __call__(self, x: Tensor, dim: int = -1) -> Tensor:
        """The softmax along an axis.

        Raises:
            ValueError: There is no such axis.
        """
        self._attrs["dim"] = dim
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The softmax."""
        return values[0].apply("softmax", axis=self._attrs["dim"])


class layernorm(Operator):  # noqa: N801 - AITemplate's name
    """Values with mean 0 and variance 1 over the last axes, then scaled and shifted."""

    ending = ""

    def __init__(self, normalized_shape: Sequence[int | IntVar] | None = None) -> None:
        """Over as many axes as these lengths, which a call may give instead."""
        super().__init__(normalized_shape=normalized_shape)

    def __call__(
        self,
        x: Tensor,
        gamma: Tensor | None = None,
        beta: Tensor | None = None,
        normalized_shape: Sequence[int | IntVar] | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        """Normalise a tensor.

        Args:
            x: The tensor.
            gamma: The scale; 1 by default.
            beta: The shift; 0 by default.
            normalized_shape: The lengths of the last axes, over which the mean is taken.
            eps: Added to the variance.

        Raises:
            ValueError: The lengths are not those of the last axes.
        """
        given = (
            normalized_shape if normalized_shape is not None else self._attrs["normalized_shape"]
        )
        lens = [as_length(n) for n in given or ()]
        last = x.shape()[len(x.shape()) - len(lens) :]
        if not lens or [n.dim for n in lens] != [n.dim for n in last]:
            raise self.fail(
                f"normalized_shape {given} of {x}; expected the lengths of its last axes"
            )
        self._attrs.update(normalized_shape=lens, eps=eps, gamma=gamma, beta=beta)
        return self.record(x, *[t for t in (gamma, beta) if t is not None])

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The normalisation, and what the name says after it."""
        x, rest = values[0], iter(values[1:])
        axes = tuple(range(x.ndim - len(self._attrs["normalized_shape"]), x.ndim))
        found = normalised(x, axes, self._attrs["eps"])
        found = found if self._attrs["gamma"] is None else found * next(rest).astype(DType.FLOAT)
        found = found if self._attrs["beta"] is None else found + next(rest).astype(DType.FLOAT)
        if self.ending:
            found = found.apply("sigmoid") * x.astype(DType.FLOAT)
        return found.astype(x.dtype)


class layernorm_sigmoid_mul(layernorm):  # noqa: N801 - AITemplate's name
    """``sigmoid(layernorm(x)) * x``."""

    ending = "sigmoid_mul"


class group_norm(Operator):  # noqa: N801 - AITemplate's name
    """Values of each sample and group of channels with mean 0 and variance 1; channels are the last axis."""

    ending = ""

    def __init__(self, num_groups: int, num_channels: int) -> None:
        """With so many groups.

        Raises:
            ValueError: They do not divide the channels.
        """
        super().__init__(num_groups=num_groups, num_channels=num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise self.fail(
                f"num_channels should be divisible by num_groups; got {num_channels} and {num_groups}"
            )

    def __call__(
        self, x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, eps: float = 1e-5
    ) -> Tensor:
        """Normalise images ``[N, …, C]``.

        Raises:
            ValueError: The last axis has another length.
        """
        channels = x.shape()[-1]
        if channels.dim.min != self._attrs["num_channels"] or not channels.is_fixed:
            raise self.fail(
                f"the input is {x}; expected {self._attrs['num_channels']} channels, the last axis"
            )
        self._attrs.update(eps=eps, gamma=gamma, beta=beta)
        return self.record(x, *[t for t in (gamma, beta) if t is not None])

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The normalisation of channels divided into two axes."""
        x, rest = values[0], iter(values[1:])
        groups, channels = self._attrs["num_groups"], self._attrs["num_channels"]
        split = [groups, channels // groups]
        parts = _last_axes(x, split)
        axes = (*range(1, x.ndim - 1), x.ndim)
        found = normalised(parts, axes, self._attrs["eps"])
        for given, name in (("gamma", "mul"), ("beta", "add")):
            if self._attrs[given] is not None:
                found = found.apply(name, next(rest).astype(DType.FLOAT).reshape(split))
        found = _last_axes(found, [channels], 2)
        return (swish(found) if self.ending else found).astype(x.dtype)


class group_norm_swish(group_norm):  # noqa: N801 - AITemplate's name
    """``y * sigmoid(y)`` of a group norm."""

    ending = "swish"


def _last_axes(x: Value, lens: list[int], taken: int = 1) -> Value:
    """The value with its last axes of other lengths."""
    return x.apply("reshape", dims=(*[0] * (x.ndim - taken), *lens))


def normalised(x: Value, axes: tuple[int, ...], eps: float) -> Value:
    """The value with mean 0 and variance 1 over some axes, in float32."""
    wide = x.astype(DType.FLOAT)
    centred = wide - wide.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    return centred * (variance + eps).apply("rsqrt")


NORMS: dict[str, type[Operator]] = {
    c.__name__: c for c in (softmax, layernorm, layernorm_sigmoid_mul, group_norm, group_norm_swish)
}
"""All normalisations by name."""
