"""Running sums, and the places of what is not zero: rows short and long, one block and several."""

import numpy as np
import pytest

from tests.compiler.variants import expect_close
from tests.gpu.emit.agreement import operands
from tests.gpu.harness import run_one
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ops.scan import PrefixScanProd, PrefixScanSum
from workbench.compiler.ops.select import NonZero
from workbench.gpu.devices.base import Device


def expect_agreement(kernels: int, device: Device, op: Operation, x: np.ndarray) -> None:
    (found,), plan = run_one(op, operands(x), device)
    wanted = op.compute(x)
    expect_close(found, wanted, wanted.dtype, str(op))
    assert (len(plan.kernels), plan.host) == (kernels, [])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lens", [(4, 3), (700, 3)])
def test_sums_run_along_either_axis_in_either_direction(
    exclusive: bool, reverse: bool, lens: tuple[int, ...], device: Device
):
    x = digits(*lens, low=-9, high=9).astype(np.float32)
    for given, axis in ((x, 0), (x.T, 1)):
        expect_agreement(1, device, PrefixScanSum(axis, exclusive, reverse), given)


@pytest.mark.parametrize("type", [np.int8, np.uint8, np.int64, np.float16, np.float64])
def test_sums_are_kept_in_a_wider_type(type: type, device: Device):
    x = np.abs(noise(2, 300) * 3).astype(type)
    expect_agreement(1, device, PrefixScanSum(axis=1), x)


def test_products_run_too(device: Device):
    expect_agreement(1, device, PrefixScanProd(axis=0), 1 + noise(1000) / 100)
    expect_agreement(1, device, PrefixScanProd(axis=0, exclusive=True), noise(5, 4))


@pytest.mark.parametrize("lens", [(5,), (3, 4, 5), (4096,), (9, 1000)])
@pytest.mark.parametrize("least", [-1, 1])
def test_places_of_nonzero_elements_stand_in_row_major_order(
    lens: tuple[int, ...], least: int, device: Device
):
    kernels = 2 if lens == (9, 1000) else 1
    x = digits(*lens, low=least, high=2).astype(np.float32)
    expect_agreement(kernels, device, NonZero(), x)
    expect_agreement(kernels, device, NonZero(), x * 0)
