"""Regions of interest: wherever they lie, and whatever their numbers are."""

import numpy as np
import pytest

from tests.gpu.emit.agreement import expect_agreement, operands
from tests.gpu.harness import run_one
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.ops.regions import MaxRoiPool
from workbench.compiler.ops.resize import RoiAlign
from workbench.gpu.devices.base import Device

REGIONS = np.array(
    [[0, 0, 4, 3], [1.5, 2, 6.5, 5], [-3, -2, 9, 11], [5, 4, 1, 1], [2, 2, 2, 2], [20, 20, 30, 30]],
    np.float32,
)
BATCH = np.array([0, 1, -1, 0, -2, 1])


@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", [PoolingMode.AVERAGE, PoolingMode.MAX])
@pytest.mark.parametrize("ratio", [0, 2])
def test_aligned_regions_agree_with_the_reference(
    place: str, mode: PoolingMode, ratio: int, device: Device
):
    op = RoiAlign(place, mode, 2, 3, ratio, 0.75)
    expect_agreement(device, op, noise(2, 3, 6, 7), REGIONS, BATCH)


@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64])
def test_regions_of_whole_elements_agree_with_the_reference(type: type, device: Device):
    regions = np.concatenate([BATCH[:, None], REGIONS], axis=1)
    expect_agreement(
        device, MaxRoiPool((2, 3), 0.5), noise(2, 3, 6, 7, type=type), regions.astype(type)
    )


def test_regions_and_batches_out_of_any_bounds_read_nothing_beyond_the_image(device: Device):
    odd = [np.nan, np.inf, -np.inf, 1e30, -1e30]
    regions = np.array([[v, 0, w, 2] for v in odd for w in odd], np.float32)
    x, batch = noise(2, 1, 4, 4), np.full(len(regions), 1 << 40)
    batch[::2] = -(1 << 40)
    values = run_one(RoiAlign(sampling_ratio=2), operands(x, regions, batch), device).values
    assert values[0].shape == (25, 1, 1, 1)
    whole = np.concatenate([regions[:, :1], regions], axis=1)
    values = run_one(MaxRoiPool((1, 1)), operands(x, whole), device).values
    assert np.isin(values[0], [0, *x.reshape(-1)]).all()
