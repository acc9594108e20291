"""Histograms of gradients by powers of two, computed where the program runs."""

from __future__ import annotations

from workbench.compiler.expressions.value import Value

PREFIX = "histogram_"
"""What the names of outputs that are histograms begin with."""
BINS = 64
LEAST = -40
"""The exponent of the first bin."""
_MANTISSA, _EXPONENT, _BIAS = 23, 0xFF, 127
"""Bits of an IEEE 754 float32's fraction, the mask of its exponent, and the exponent of 1."""


def histogram_of(x: Value) -> Value:
    """The number of elements by magnitude, as ``BINS`` int32.

    Bin k counts 2**(k - 40) ≤ |x| < 2**(k - 39); the first also what is smaller, and the last what is
    larger, infinite or NaN.

    Args:
        x: A value of any floating-point type and shape; float64 is rounded to float32.
    """
    bits = abs(x.reshape(-1)).astype("float").apply("bit_cast", target_type="int32")
    exponent = bits.apply("shift_right", _MANTISSA) & _EXPONENT
    index = (exponent - (_BIAS + LEAST)).apply("clip", 0, BINS - 1)
    ones = x.builder.value(1, "int32").broadcast_to(x.instruction.shape.elements)
    counts = x.builder.zeros((BINS,), "int32")
    return counts.apply("scatternd_add", index.apply("unsqueeze", axes=(1,)), ones)
