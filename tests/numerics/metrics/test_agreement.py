"""MIGraphX's measure of agreement: its formula, tolerances and report."""

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.shape import Shape
from workbench.numerics.metrics.agreement import (
    FOUR_BITS,
    SIXTEEN_BITS,
    Tolerance,
    agree,
    float_equal,
    rms_range,
    tolerance_for,
    within_ulps,
)


def _of(type: str) -> wb.Program:
    program = wb.Program()
    program.main.add_return(program.main.add_parameter("x", Shape(type, [2])))
    return program


def test_tolerances_follow_the_types() -> None:
    assert tolerance_for(_of("float")) == Tolerance(1e-3, 1e-3, 1e-3)
    assert tolerance_for(_of("half")) == tolerance_for(_of("bf16")) == SIXTEEN_BITS
    assert tolerance_for(_of("float"), "fp16") == SIXTEEN_BITS
    assert tolerance_for(_of("fp4x2")) == FOUR_BITS
    assert tolerance_for(_of("half"), rms_tol=1.0, rtol=2.0) == Tolerance(1.0, 4e-2, 2.0)


def test_rms() -> None:
    assert rms_range([3.0, 0.0], [3.0, 4.0]) == pytest.approx(4 / (np.sqrt(2) * 4))
    assert rms_range([0.0], [0.0]) == 0
    assert rms_range([1.0], [1.0, 2.0]) == np.inf
    assert np.isnan(rms_range([np.nan], [1.0]))
    assert np.isnan(rms_range([np.inf], [np.inf]))


def test_within_ulps() -> None:
    gold = np.ones(4, np.float32)
    assert within_ulps(gold + np.float32(9e-6), gold)
    assert not within_ulps(gold + np.float32(2e-5), gold)
    assert not within_ulps(np.array([1, 2]), np.array([1, 3]))
    assert not within_ulps(np.full(1, np.nan, np.float32), gold[:1])


@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_neighbours_are_equal(type: type) -> None:
    eps = float(ml_dtypes.finfo(type).eps)
    a = np.array([1, 1, 1, np.nan, np.inf, 0.0], type)
    b = np.array([1 + eps, 1 + 2 * eps, 1, np.nan, np.inf, -0.0], type)
    assert float_equal(a, b).tolist() == [True, False, True, False, False, True]


def test_a_report_of_failure() -> None:
    value = np.array([1, 0, np.inf], np.float32)
    found = agree("x", value, np.array([1, 2, 3], np.float32))
    assert not found.passed
    assert [line for _, line in found.lines] == [
        "FAILED: x",
        "RMS Error: nan",
        "ref:1, 2, 3",
        "target:1, 0, inf",
        "Max diff: inf",
        "Mismatch at 1: 2 != 0",
        "Non finite number found in target at 2: inf",
    ]
    assert {level for level, _ in found.lines} == {"error"}


def test_large_values_are_printed_on_request() -> None:
    many = np.zeros(32, np.float32)
    lines = [line for _, line in agree("x", many, many + 1).lines]
    assert lines == [
        "FAILED: x",
        "RMS Error: 1",
        "Target data is all zeros",
        "Max diff: 1",
        "Mismatch at 0: 1 != 0",
    ]
    assert len(agree("x", many, many + 1, dump=True).lines) == 7


def test_warnings_of_success() -> None:
    zeros = np.zeros(2, np.float32)
    found = agree("x", zeros, zeros)
    assert found.passed
    assert found.lines == (
        ("warn", "Ref data is all zeros"),
        ("warn", "Target data is all zeros"),
    )


def test_elements_are_held_to_bounds_on_request() -> None:
    reference = np.array([1000, 0], np.float32)
    value = np.array([1000, 0.1], np.float32)
    assert agree("x", value, reference).passed
    strict = agree("x", value, reference, allclose=True)
    assert (strict.passed, strict.outside) == (False, 1)


def test_other_shapes_fail() -> None:
    found = agree("x", np.zeros(2, np.float32), np.zeros(3, np.float32))
    assert found.lines[1] == ("error", "Shape mismatch {float32[3]} != {float32[2]}")
    assert found.to_json()["lines"][0] == "FAILED: x"


def test_equal_nans_are_left_out_on_request() -> None:
    odd = np.array([np.nan, np.inf, 1, 2], np.float32)
    assert not agree("x", odd, odd).passed
    assert agree("x", odd, odd, equal_nan=True).passed
    other = np.array([np.nan, -np.inf, 1, 2], np.float32)
    found = agree("x", other, odd, equal_nan=True)
    assert (found.passed, found.mismatch) == (False, 1)
