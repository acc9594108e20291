"""Limits: what counts as far, and by which type."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.arrays.metrics import Metric, type_tolerance
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.numerics.metrics.limits import Limits, limits_of, worst

LIMITS = Limits(Metric.RELATIVE_RMS, 1e-3)


@pytest.mark.parametrize(
    ("found", "wanted", "error", "within"),
    [
        (np.array([1.0005]), np.array([1.0]), 5e-4, True),
        (np.array([1.1]), np.array([1.0]), 0.1, False),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), 0, True),
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0]), np.inf, False),
        (np.array([np.inf]), np.array([-np.inf]), np.inf, False),
        (np.array(2.0), np.array(2.0), 0, True),
        (np.ones((2, 0)), np.ones((2, 0)), 0, True),
        (np.ones(2), np.ones((2, 1)), np.inf, False),
        (np.array([3]), np.array([3]), 0, True),
        (np.array([10001]), np.array([10000]), 1e-4, False),
        (np.array([101], np.uint8), np.array([100], np.uint8), 0.01, True),
        (np.array([110], np.uint8), np.array([100], np.uint8), 0.1, False),
        (np.array([False]), np.array([True]), 1, False),
        ((np.ones(1), np.zeros(1)), (np.ones(1), np.ones(1)), 1, False),
        ((np.ones(1),), (np.ones(1), np.ones(1)), np.inf, False),
        ([np.ones(1)], np.ones(1), np.inf, False),
        (None, np.ones(1), np.inf, False),
        (None, None, 0, True),
        ((), (), 0, True),
    ],
)
def test_distances(found: Any, wanted: Any, error: float, within: bool):
    distance = LIMITS.between(found, wanted)
    assert distance.error == pytest.approx(error, rel=1e-6)
    assert distance.within == within


def test_the_worst_is_farthest_in_units_of_its_own_limit():
    small = LIMITS.between(np.array([4]), np.array([1000]))  # an integer has to be equal
    large = LIMITS.between(np.array([0.0]), np.array([1.0]))
    assert worst([large, small]) is small
    assert worst([]).within


def test_a_cosine_is_an_error_by_what_it_lacks():
    cosine = Limits(Metric.COSINE, 0.1)
    a = np.array([1.0, 0.0])
    assert cosine.between(a, a).error == 0
    assert cosine.between(np.array([0.0, 1.0]), a).error == 1


def test_the_tolerance_is_of_the_narrowest_type_of_any_step():
    program = wb.Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    program.main.add_return(program.main.add("tanh", x))
    for precision, type in ((None, DType.FLOAT), ("fp16", DType.HALF), ("bf16", DType.BF16)):
        recording = wb.compile(program, "cpu", precision=precision).recording
        found = limits_of(Metric.RELATIVE_RMS, None, recording)
        assert (found.tolerance, found.given) == (type_tolerance(type), False)
    assert limits_of(Metric.MAX_ABS, 0, recording).tolerance == 0
