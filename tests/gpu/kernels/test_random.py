"""Random numbers: the reference's very own, whatever their type and number."""

import numpy as np
import pytest

from tests.gpu.emit.agreement import operands
from tests.gpu.harness import run_one
from workbench.compiler.ops.random import RandomUniform
from workbench.gpu.devices.base import Device

TYPES = [np.float16, np.float32, np.float64, np.bool_, np.int8, np.uint8, np.int16, np.int32]
TYPES += [np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("seed", [np.array([5489], np.uint64), np.array([-3]), np.array([1 << 40])])
def test_numbers_are_those_of_the_reference(type: type, seed: np.ndarray, device: Device):
    like = np.zeros((3, 700), type)
    (found,), plan = run_one(RandomUniform(), operands(seed, like), device)
    np.testing.assert_array_equal(found, RandomUniform().compute(seed, like))
    assert (len(plan.kernels), plan.host) == (2, [])
