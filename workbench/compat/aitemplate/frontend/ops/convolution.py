"""Convolutions and pooling of images whose channels are the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops import epilogues
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value

Pair = int | Sequence[int]
_EPILOGUES = (
    "", "bias", "bias_relu", "bias_sigmoid", "bias_hardswish", "bias_add", "bias_add_relu",
    "bias_add_hardswish",
)  # fmt: skip
_FEW = ("bias", "bias_relu", "bias_hardswish")


def _two(given: Pair) -> tuple[int, int]:
    return (given, given) if isinstance(given, int) else (int(given[0]), int(given[1]))


def _channels_first(x: Value) -> Value:
    return x.transpose(0, 3, 1, 2)


def _channels_last(x: Value) -> Value:
    return x.transpose(0, 2, 3, 1)


class Convolution(Operator):
    """A convolution, and what the rest of the name says is done to it.

    Images are ``[N, H, W, C]`` and weights ``[M, KH, KW, C / group]``.
    """

    prefix = "conv2d"

    def __init__(self, stride: Pair, pad: Pair, dilate: Pair = 1, group: int = 1) -> None:
        """With steps, zeros around the image, and distances between taps.

        Args:
            stride: The step along both axes, or along each.
            pad: The zeros at each side of both axes, or of each.
            dilate: The distance of taps.
            group: The number of groups that channels are divided into.
        """
        super().__init__(stride=stride, pad=pad, dilate=dilate, group=group)

    @property
    def epilogue(self) -> str:
        """The rest of the name."""
        return self.name.removeprefix(self.prefix).removesuffix("_few_channels")

    def __call__(self, x: Tensor, w: Tensor, *rest: Tensor) -> Tensor:
        """Convolve images with weights.

        Raises:
            ValueError: The operands are too few or too many, or do not fit.
        """
        expected = 2 + epilogues.operands(self.epilogue)
        if 2 + len(rest) != expected:
            raise self.fail(f"{2 + len(rest)} operands; expected {expected}")
        for k, t in enumerate((x, w)):
            if isinstance(t, Tensor) and len(t.shape()) != 4:  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                raise self.fail(f"operand {k} is {t}; expected rank 4")
        return self.record(x, w, *rest)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The convolution of channels that come first, and its epilogue."""
        x, w, *rest = values
        found = _channels_last(self.convolved(_channels_first(x), _channels_first(w)))
        return epilogues.applied_to(found, self.epilogue, iter(rest))

    def convolved(self, x: Value, w: Value) -> Value:
        """The convolution."""
        a = self._attrs
        return x.apply(
            "convolution", w, paddings=_two(a["pad"]), strides=_two(a["stride"]),
            dilations=_two(a["dilate"]), group=a["group"],
        )  # fmt: skip


class TransposedConvolution(Convolution):
    """A transposed convolution; weights are ``[C, KH, KW, M / group]``."""

    prefix = "transposed_conv2d"

    def convolved(self, x: Value, w: Value) -> Value:
        """The transposed convolution."""
        a = self._attrs
        return x.apply(
            "convolution_backwards", w, padding=_two(a["pad"]), stride=_two(a["stride"]),
            dilation=_two(a["dilate"]), group=a["group"],
        )  # fmt: skip


class Pool(Operator):
    """The mean or the maximum of windows."""

    mode = "average"

    def __init__(self, kernel_size: Pair, stride: Pair, pad: Pair) -> None:
        """With a window, a step and a padding, for both axes or for each."""
        super().__init__(kernel_size=kernel_size, stride=stride, pad=pad)

    def __call__(self, x: Tensor) -> Tensor:
        """Pool images ``[N, H, W, C]``.

        Raises:
            ValueError: The tensor is not of rank 4, or a window does not fit.
        """
        if isinstance(x, Tensor) and len(x.shape()) != 4:  # pyright: ignore[reportUnnecessaryIsInstance] - users err
            raise self.fail(f"the input is {x}; expected rank 4")
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The pooling of channels that come first; means count the padding."""
        a = self._attrs
        found = _channels_first(values[0]).apply(
            "pooling", mode=self.mode, lengths=_two(a["kernel_size"]), stride=_two(a["stride"]),
            padding=_two(a["pad"]), dilations=(1, 1), count_include_pad=self.mode == "average",
        )  # fmt: skip
        return _channels_last(found)


class avg_pool2d(Pool):  # noqa: N801 - AITemplate's name
    """The mean of each window; the zeros around the image count."""


class max_pool2d(Pool):  # noqa: N801 - AITemplate's name
    """The greatest element of each window."""

    mode = "max"


def _named(prefix: str, base: type[Operator], endings: Sequence[str]) -> dict[str, type[Operator]]:
    names = [f"{prefix}_{e}".rstrip("_") for e in endings]
    return {n: type(n, (base,), {"__doc__": f"``{n}``: see `{base.__name__}`."}) for n in names}


CONVOLUTIONS: dict[str, type[Operator]] = {
    **_named("conv2d", Convolution, (*_EPILOGUES, *(f"{e}_few_channels" for e in _FEW))),
    **_named("transposed_conv2d", TransposedConvolution, ("", "bias", "bias_relu")),
    "avg_pool2d": avg_pool2d,
    "max_pool2d": max_pool2d,
}
"""All convolutions and pools by name."""
