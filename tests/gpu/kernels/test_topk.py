"""The best of each row: ties, NaN and signed zeros in the order of a stable sort, rows of any length."""

import numpy as np
import pytest

from tests.gpu.emit.agreement import operands
from tests.gpu.harness import run_one
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ops.select import TopK
from workbench.gpu.devices.base import Device


def expect_equal(kernels: int, device: Device, op: TopK, *arrays: np.ndarray) -> None:
    """As many kernels, no host step, the reference's values and places."""
    values, plan = run_one(op, operands(*arrays), device)
    for found, wanted in zip(values, op.compute(*arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (len(plan.kernels), plan.host) == (kernels, [])


def with_ties(*lens: int) -> np.ndarray:
    """Whole numbers, of which many are equal, NaN, and zeros of both signs."""
    x = np.round(noise(*lens))
    flat = x.reshape(-1)
    flat[::7], flat[::5], flat[::10], flat[::33] = np.nan, 0.0, -0.0, np.inf
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64])
def test_equal_elements_stand_in_the_order_of_their_places(
    largest: bool, type: type, device: Device
):
    x = with_ties(3, 50).astype(type)
    expect_equal(1, device, TopK(50, 1, largest), x)
    expect_equal(1, device, TopK(2, 0, largest), x)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("type", [np.bool_, np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_integers_are_compared_as_such(largest: bool, type: type, device: Device):
    bits = np.random.default_rng(0).integers(0, 256, (2, 20 * np.dtype(type).itemsize), np.uint8)
    x = bits.view(type) if type is not np.bool_ else bits > 99
    expect_equal(1, device, TopK(7, 1, largest), x)


def test_short_rows_share_a_block(device: Device):
    x = with_ties(1000, 8)
    expect_equal(1, device, TopK(2, 1), x)
    (step,) = run_one(TopK(2, 1), operands(x), device).plan.kernels
    assert step.launch.kernel.grid == (16, 1, 1)


@pytest.mark.parametrize("largest", [True, False])
def test_long_rows_are_sorted_in_parts(largest: bool, device: Device):
    expect_equal(2, device, TopK(20, 1, largest), with_ties(2, 9001))
    expect_equal(2, device, TopK(20, 0, largest), with_ties(9001, 2))
    expect_equal(3, device, TopK(1500, 0, largest), with_ties(9001).astype(np.float32))


def test_many_of_a_long_row_are_left_to_the_host(device: Device):
    plan = run_one(TopK(4000, 0), operands(with_ties(9000)), device).plan
    assert [i.name for i in plan.host] == ["topk"]


@pytest.mark.parametrize("type", [np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("length", [60, 4100])
def test_given_places_decide_between_equal_elements(length: int, type: type, device: Device):
    x = with_ties(2, length)
    given = np.random.default_rng(1).permutation(2 * length).reshape(x.shape)
    kernels = 1 if length == 60 else 2
    expect_equal(kernels, device, TopK(20, 1), x, given.astype(type))
    repeated = (given // 50 - (0 if type is np.uint16 else 40)).astype(type)
    expect_equal(kernels, device, TopK(20, 1, False), x.astype(np.float64), repeated)
