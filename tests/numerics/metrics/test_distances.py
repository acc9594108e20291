"""Detailed distances: known answers, every type, and what is not finite."""

from math import inf, log

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workbench.compiler.errors import InputError
from workbench.numerics.metrics.distances import BINS, detailed, steps_apart

TYPES = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
         ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz]  # fmt: skip


def test_known_distances():
    found = detailed(np.array([1.0, 2.0, 2.0, 0.5]), np.array([1.0, 2.0, 4.0, 0.0]))
    assert (found.max_abs, found.mean_abs, found.count) == (2, 0.625, 4)
    assert (found.max_rel, found.mean_rel) == (
        0.5,
        pytest.approx(0.5 / 3),
    )  # no error relative to 0
    assert found.relative_rms == pytest.approx(np.sqrt(4.25 / 21))
    assert found.snr == pytest.approx(10 * np.log10(21 / 4.25))
    assert found.psnr == pytest.approx(10 * np.log10(16 / (4.25 / 4)))
    assert found.quantiles == (0, 2, 2, 2)
    assert not found.not_finite


def test_quantiles_bound_the_errors_of_their_share():
    errors = np.arange(1, 1001) / 1000
    assert detailed(errors, np.zeros(1000)).quantiles == (0.5, 0.9, 0.99, 0.999)


@pytest.mark.parametrize("type", TYPES)
def test_neighbours_are_one_unit_apart_in_every_type(type):
    bits = ml_dtypes.finfo(type).bits
    codes = np.arange(
        1, 40, dtype=f"u{bits // 8}"
    )  # 0 is left out: its neighbours are on both sides
    up = codes.view(type)
    assert (steps_apart(up[1:], up[:-1].astype(np.float64)) == 1).all()
    assert (steps_apart(-up[1:], -up[:-1]) == 1).all()
    assert steps_apart(up[:1], -up[:1]).item() == 2  # the least number, and the least below 0
    assert steps_apart(np.array([-0.0], type), np.array([0.0])).item() == 0


def test_the_reference_is_rounded_before_units_are_counted():
    assert steps_apart(np.array([1.0], np.float16), np.array([1.0 + 2**-12])).item() == 0
    assert (
        steps_apart(np.array([65504.0], np.float16), np.array([1e9])).item() == 0
    )  # the largest half
    assert steps_apart(np.array([448.0], ml_dtypes.float8_e4m3fn), np.array([1e9])).item() == 0
    wide = np.array([np.finfo(np.float64).max])
    assert steps_apart(wide, -wide).item() == pytest.approx(2.0**64, rel=1e-3)


def test_integers_and_truth_values():
    found = detailed(np.array([1, -3], np.int8), np.array([1, 2], np.int64))
    assert (found.max_abs, found.max_ulp, found.mean_ulp) == (5, 5, 2.5)
    assert (
        detailed(np.array([1, 2], np.int32), np.array([1.4, 2.0])).max_ulp == 0
    )  # rounded from floats
    found = detailed(np.array([True, False]), np.array([True, True]))
    assert (found.max_abs, found.max_ulp) == (1, 1)


@pytest.mark.parametrize(
    ("value", "reference"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan), (1.0, -np.inf), (np.inf, -np.inf)]
)  # fmt: skip
def test_what_is_not_finite_on_one_side_is_the_worst(value: float, reference: float):
    a, b = np.arange(1.0, 2001), np.arange(1.0, 2001)
    a[7], b[7] = value, reference
    found = detailed(a, b)
    assert found.not_finite == 1
    assert {found.max_abs, found.mean_abs, found.max_rel, found.mean_rel, found.relative_rms, found.rms,
            found.max_ulp, found.mean_ulp, found.divergence} == {inf}  # fmt: skip
    assert {found.cosine, found.snr, found.psnr} == {-inf}
    assert found.quantiles == (0, 0, 0, 0)  # of 2,000 elements it is beyond 99.9 %
    assert found.finite_relative_rms == 0
    assert detailed(a[7:8], b[7:8]).quantiles == (inf,) * 4


def test_the_same_nan_and_infinities_are_equal():
    both = np.array([np.nan, np.inf, -np.inf, 1.0])
    found = detailed(both.astype(np.float32), both)
    assert (found.not_finite, found.nan, found.inf, found.reference_nan, found.reference_inf) == (
        0, 1, 2, 1, 2,
    )  # fmt: skip
    assert (found.max_abs, found.relative_rms, found.max_ulp, found.divergence) == (0, 0, 0, 0)
    nothing = detailed(np.full(3, np.nan), np.full(3, np.nan))
    assert (nothing.max_abs, nothing.cosine, nothing.arg_max, nothing.snr) == (0, 1, 1, inf)


@pytest.mark.parametrize("lens", [(), (0,), (3, 0), (1, 1)])
def test_equal_arrays_of_any_rank_have_no_distance(lens: tuple[int, ...]):
    found = detailed(np.full(lens, 2, np.float32), np.full(lens, 2.0))
    assert (found.max_abs, found.mean_abs, found.max_rel, found.mean_rel, found.max_ulp) == (0,) * 5
    assert (found.snr, found.psnr, found.cosine, found.arg_max, found.divergence) == (
        inf,
        inf,
        1,
        1,
        0,
    )


def test_a_reference_of_zeros():
    found = detailed(np.array([0.0, 1e-3]), np.zeros(2))
    assert (found.max_rel, found.snr, found.psnr) == (0, -inf, -inf)
    assert found.relative_rms > 1e20


def test_divergence_of_two_samples_by_hand():
    a, b = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0])
    whole = 4 + BINS / 2
    p, q = (np.array([1.5, 3.5]) / whole, np.array([2.5, 2.5]) / whole)
    assert detailed(a, b).divergence == pytest.approx(
        sum(x * log(x / y) for x, y in zip(p, q, strict=True))
    )
    assert detailed(np.sort(b)[::-1], b).divergence == pytest.approx(0)  # the order does not matter


def test_arg_max_agrees_where_the_classes_do():
    b = np.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5], [0.0, 1.0]])
    a = np.array([[0.4, 0.6], [0.3, 0.7], [0.1, 0.9], [np.nan, 1.0]])
    assert detailed(a, b).arg_max == 0.5  # right; wrong; a tie; a NaN


@example(np.zeros(24, np.float32), np.full(30, 3.67e307))
@given(arrays(np.float32, st.integers(1, 30), elements=st.floats(width=32)),
       arrays(np.float64, 30, elements=st.floats(width=64)))  # fmt: skip
def test_any_numbers_have_distances_in_order(a, b):
    found = detailed(a, b[: a.size])
    low, *_, high = found.quantiles
    assert 0 <= low <= high <= found.max_abs
    assert found.mean_abs <= found.max_abs * (1 + 1e-12) or found.mean_abs == inf  # its sum
    assert found.mean_ulp <= found.max_ulp * (1 + 1e-12)
    assert found.divergence >= 0
    assert 0 <= found.arg_max <= 1
    assert not np.isnan([v for v in found.table() if isinstance(v, float)]).any()


def test_other_lens_are_refused():
    with pytest.raises(InputError, match=r"\[2, 3\].*\[3, 2\].*expected equal lens"):
        detailed(np.zeros((2, 3)), np.zeros((3, 2)))
