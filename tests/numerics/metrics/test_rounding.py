"""Bounds of local errors: real rounding stays below them, and not far below."""

import numpy as np
import pytest

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.metrics.rounding import is_narrow, precision_bound, rounding_bound, terms


def added(op: str, *shapes: Shape, **attributes: object) -> Instruction:
    main = Program().main
    inputs = [main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    return main.add(op, *inputs, **attributes)


@pytest.mark.parametrize("n", [1, 16, 1024, 65536])
def test_sums_of_floats_stay_within_the_bound(n: int):
    random = np.random.default_rng(n)
    a, b = (random.standard_normal((64, n)).astype(np.float32) for _ in range(2))
    exact = np.einsum("ij,ij->i", a.astype(np.float64), b)
    found = np.zeros(64, np.float32)
    for k in range(n):  # the worst order: one after the other
        found += a[:, k] * b[:, k]
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    bound = rounding_bound(added("dot", Shape("float", (64, n)), Shape("float", (n, 1))))
    assert error < bound < 1000 * max(error, 6e-8)


def test_the_narrowest_type_and_the_longest_sum_decide():
    half, single = (added("dot", Shape(t, (2, 256)), Shape(t, (256, 3))) for t in ("half", "float"))
    assert terms(half) == 512  # a multiplication and an addition for each
    assert rounding_bound(half) > 100 * rounding_bound(single)
    assert precision_bound(half) > rounding_bound(half)
    longer = added("dot", Shape("float", (2, 4096)), Shape("float", (4096, 3)))
    assert rounding_bound(longer) > rounding_bound(single)


def test_bounds_of_other_values():
    integers = added("add", Shape("int32", (2,)), Shape("int32", (2,)))
    assert rounding_bound(integers) == precision_bound(integers) == 0
    rounded = added("convert", Shape("float", (2,)), target_type=DType.INT8)
    assert is_narrow(rounded)
    assert precision_bound(rounded) > 0.05
    scalar = added("exp", Shape("float", ()))
    assert terms(scalar) == 1
    assert not is_narrow(scalar)
    summed = added("reduce_sum", Shape("float", (3, 0)), axes=(1,))
    assert terms(summed) >= 1
