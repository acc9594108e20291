"""Metrics: known answers, and what holds for any two arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workbench.compiler.arrays.metrics import Metric, difference, program_tolerance, type_tolerance
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.metrics.metrics import compare_arrays
from workbench.numerics.metrics.tolerances import rounding_tolerance

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


@pytest.mark.parametrize("size", [2, 8191, 8193, 40_000])
@pytest.mark.parametrize("unit", [1e-24, 1.0, 1e37])
def test_long_arrays_have_the_metrics_of_their_definition(size, unit):
    rng = np.random.default_rng(size)
    reference = rng.standard_normal(size) * unit
    value = (reference * (1 + 1e-7 * rng.standard_normal(size))).astype(np.float32)
    reference[-1], value[-1] = 0, unit / 4  # an infinite relative error, which does not count
    found, x = compare_arrays(value, reference), value.astype(np.float64)
    for metric, measured in {
        Metric.MAX_ABS: found.max_abs,
        Metric.MAX_REL: found.max_rel,
        Metric.RMS: found.rms,
        Metric.COSINE: found.cosine,
    }.items():
        assert measured == pytest.approx(metric.of(x, reference), rel=1e-12)
    assert found.relative_rms == pytest.approx(
        np.linalg.norm(x - reference) / np.linalg.norm(reference)
    )


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


@given(FLOATS, st.sampled_from([1e-9, 1.0, 1e30, 1e200]))
def test_relative_rms_is_the_part_that_is_wrong_in_any_unit(x, unit):
    x = (np.abs(x.astype(np.float64)) + 1) * unit
    assert Metric.RELATIVE_RMS.of(x * 1.25, x) == pytest.approx(0.25)


def test_relative_rms_of_zeros():
    zero = np.zeros(3)
    assert Metric.RELATIVE_RMS.of(zero, zero) == 0
    assert Metric.RELATIVE_RMS.of(zero + 1, zero) > 1e20


@pytest.mark.parametrize("metric", Metric)
def test_equal_arrays_have_the_best_value_of_every_metric(metric):
    x = np.array([1.0, -2.0, 3.0])
    best, worse = metric.of(x, x), metric.of(x + 1, x)
    assert best == pytest.approx(0 if metric.lower_is_better else 1)
    assert worse > best if metric.lower_is_better else worse < best
    assert metric.of(x[:0], x[:0]) == best


def test_differences_of_large_doubles_are_seen():
    x = np.array([1e200, 2e200])
    assert "relative RMS 0.447" in difference(x, np.array([1e200, 3e200]), 1e-9)


@pytest.mark.parametrize(
    "type", [t for t in DType if t.is_float and t.size > 0 and t.format.packed == 1]
)
def test_a_rounding_is_within_the_tolerance_of_its_type_and_an_error_amid_its_bits_is_not(type):
    x = np.random.default_rng(0).standard_normal(1000)
    rounded = x.astype(type.numpy).astype(np.float64)
    assert Metric.RELATIVE_RMS.of(rounded, x) < type_tolerance(type) / 3
    half_way = 2.0 ** -(type.format.mantissa // 2)
    assert Metric.RELATIVE_RMS.of(x * (1 + half_way), x) > type_tolerance(type)


def test_integers_that_floats_are_rounded_to_count_in_comparisons():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (2,)))
    index = main.add_parameter("index", Shape("int8", (2,)))
    assert rounding_tolerance(program) == program_tolerance(program) == type_tolerance(DType.FLOAT)
    scale = main.add_literal(np.float32([1, 1]))
    main.add_return(main.add("quantizelinear", x, scale, out_type=DType.INT8), index)
    assert program_tolerance(program) == type_tolerance(DType.FLOAT)
    assert rounding_tolerance(program) == type_tolerance(DType.INT8) > type_tolerance(DType.FLOAT)
