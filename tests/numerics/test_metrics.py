"""Metrics: known answers, and what holds for any two arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workbench.numerics.metrics import compare_arrays

FLOATS = arrays(np.float32, st.integers(1, 20), elements=st.floats(-100, 100, width=32))


@given(FLOATS)
def test_a_value_equals_itself(x):
    found = compare_arrays(x, x)
    assert (found.max_abs, found.max_rel, found.rms) == (0, 0, 0)
    assert found.cosine == pytest.approx(1)
    assert found.is_sane


@given(FLOATS, st.floats(0.001, 10))
def test_rms_is_relative_to_the_largest_element(x, offset):
    x = x.astype(np.float64)
    found = compare_arrays(x + offset, x)
    largest = max(np.abs(x + offset).max(), np.abs(x).max())
    assert found.max_abs == pytest.approx(offset)
    assert found.rms == pytest.approx(offset / largest)


def test_known_values():
    found = compare_arrays(np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 4.0]))
    assert found.max_abs == 2
    assert found.max_rel == 0.5
    assert found.rms == pytest.approx(np.sqrt(4) / (np.sqrt(3) * 4))
    assert found.cosine == pytest.approx(13 / (3 * np.sqrt(21)))


def test_nan_and_inf_of_its_own_are_counted_apart():
    value = np.array([np.nan, np.inf, np.inf, np.nan, 1, -np.inf])
    reference = np.array([1, np.inf, 2, np.nan, 1, np.inf])
    found = compare_arrays(value, reference)
    assert (found.nan, found.inf) == (1, 2)
    assert (found.reference_nan, found.reference_inf) == (1, 2)
    assert not found.is_sane
    assert found.max_abs == 0


def test_nothing_finite_is_no_distance():
    found = compare_arrays(np.array([np.nan]), np.array([np.nan]))
    assert (found.max_abs, found.nan) == (0, 0)


def test_zero_vectors():
    zero, one = np.zeros(3), np.ones(3)
    assert compare_arrays(zero, zero).cosine == 1
    assert compare_arrays(one, zero).cosine == 0
    assert compare_arrays(one, zero).max_rel == 0


def test_small_types_are_measured_in_float64():
    import ml_dtypes

    value = np.array([1.0, 3.0], ml_dtypes.bfloat16)
    assert compare_arrays(value, np.array([1.0, 3.5])).max_abs == 0.5
