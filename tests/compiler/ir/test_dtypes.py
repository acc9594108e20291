"""Element types: the record of each says what NumPy, ml_dtypes and ONNX have of it, code by code."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from workbench.compiler.ir.dtypes import FP8, HELD, HELD_FORMATS, DType, Format, NaN

FORMATS = [t.format for t in DType if t.format.packed == 1] + [*HELD_FORMATS]
every_float = pytest.mark.parametrize(
    "format", [f for f in FORMATS if f.kind == "float"], ids=lambda f: str(f.numpy)
)


def codes_of(format: Format) -> np.ndarray:
    """All codes, or those of wide formats that differ in their first and last bits."""
    width = 8 * format.numpy.itemsize
    if format.bits <= 16:
        return np.arange(1 << format.bits).astype(f"u{width // 8}")
    first = np.arange(1 << 16).astype(f"u{width // 8}") << (width - 16)
    return np.concatenate([first, first | 1, first | ((1 << (width - 16)) - 1)])


def value_of(format: Format, code: int) -> float:
    """The number that a code stands for, by the record alone."""
    sign = 1 << (format.bits - 1)
    magnitude = code & (sign - 1)
    if format.nan is NaN.FNUZ and code == sign:
        return np.nan
    if format.nan in (NaN.IEEE, NaN.FN) and magnitude >= format.first_nan:
        return np.nan
    infinite = format.infinity and magnitude == format.infinity
    value = np.inf if infinite else format.value(magnitude)
    return -value if code & sign else value


@every_float
def test_every_code_of_a_float_is_the_number_that_its_record_says(format: Format):
    codes = codes_of(format)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        found = codes.view(format.numpy).astype(np.float64)
    wanted = np.array([value_of(format, int(c)) for c in codes])
    np.testing.assert_array_equal(found, wanted)
    sure = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[sure], np.signbit(wanted)[sure])


@every_float
def test_the_limits_of_a_float_are_those_of_numpy(format: Format):
    info: Any = ml_dtypes.finfo(format.numpy)
    assert format.limits == (float(info.min), float(info.max))
    assert format.epsilon == float(info.eps)
    assert (format.mantissa, format.exponent) == (info.nmant, info.bits - 1 - info.nmant)
    assert format.bits == info.bits
    assert format.value(1) == float(info.smallest_subnormal)


@every_float
def test_conversions_make_the_nan_and_the_infinity_of_the_record(format: Format):
    made = np.array([np.nan, np.inf], np.float32).astype(format.numpy)
    nan, infinity = made.view(f"u{format.numpy.itemsize}")
    if format.nan is not NaN.NONE:
        assert nan == format.quiet_nan
    if format.infinity:
        assert infinity == format.infinity


@pytest.mark.parametrize(
    "format", [f for f in FORMATS if f.kind in ("signed", "unsigned")], ids=lambda f: str(f.numpy)
)
def test_the_limits_of_integers_are_those_of_numpy(format: Format):
    info: Any = ml_dtypes.iinfo(format.numpy)
    assert (format.limits, format.bits) == ((info.min, info.max), info.bits)


@pytest.mark.parametrize("format", [f for f in FORMATS if f.onnx], ids=lambda f: str(f.numpy))
def test_onnx_has_the_same_type_by_that_code(format: Format):
    assert onnx.helper.tensor_dtype_to_np_dtype(format.onnx) == format.numpy


@pytest.mark.parametrize("type", [t for t in DType if t.format.packed == 1 and t.size], ids=str)
def test_a_type_is_found_by_each_of_its_names(type: DType):
    for name in (
        type,
        int(type),
        type.type_name,
        type.name.lower(),
        type.numpy,
        *type.format.names,
    ):
        assert DType.of(name) is type
    assert 8 * type.size == max(8, type.format.bits)


def test_wider_types_hold_every_value():
    for dtype, wider in HELD.items():
        codes = np.arange(256, dtype=np.uint8)
        values = codes.view(dtype).astype(np.float64)
        np.testing.assert_array_equal(
            codes.view(dtype).astype(wider.numpy).astype(np.float64), values
        )


def test_floats_of_8_bits_are_told_from_the_rest():
    assert {t.name for t in FP8} == {t.name for t in DType if t.name.startswith("FP8")}
    assert all(t.is_narrow_float and t.is_float and not t.is_integral for t in FP8)
    assert not DType.FP4X2.is_narrow_float
    assert (DType.TUPLE.size, DType.TUPLE.is_integral, DType.TUPLE.is_float) == (0, False, False)
