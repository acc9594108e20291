"""Scatters: updates of one place in the order of their indices, however many work items share them."""

import numpy as np
import pytest

from tests.gpu.emit.agreement import operands
from tests.gpu.harness import run_one
from workbench.compiler.ir.operation import Operation, all_operations
from workbench.compiler.ir.sampling import noise
from workbench.gpu.devices.base import Device

OPERATIONS = all_operations()

KINDS = ["none", "add", "mul", "min", "max"]


def expect_equal(kernels: int, device: Device, op: Operation, *arrays: np.ndarray) -> None:
    """As many kernels, no host step, and the reference's very bits: sums grow in its order."""
    (found,), plan = run_one(op, operands(*arrays), device)
    np.testing.assert_array_equal(found, op.compute(*arrays))
    assert (len(plan.kernels), plan.host) == (kernels, [])


def places(count: int, length: int) -> np.ndarray:
    return np.random.default_rng(count).integers(-length, length, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [5, 700])
def test_updates_of_one_place_happen_in_order(kind: str, count: int, device: Device):
    data, updates = noise(40), noise(count, seed=1)
    op = OPERATIONS[f"scatter_{kind}"]()
    expect_equal(2, device, op, data, places(count, 40), updates)
    op = OPERATIONS[f"scatternd_{kind}"]()
    index = np.stack([places(count, 5), places(count + 1, 4)[1:]], -1)
    rows = 2 if count == 5 else 3
    expect_equal(rows, device, op, noise(5, 4, 3), index, noise(count, 3, seed=1))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_updates_along_an_axis_stay_in_their_rows(axis: int, device: Device):
    lens = [4, 5, 6]
    lens[axis] = 100
    index = places(int(np.prod(lens)), 3).reshape(lens)
    op = OPERATIONS["scatter_add"](axis=axis)
    expect_equal(2, device, op, noise(5, 6, 7), index, noise(*lens))


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_sums_of_halves_are_rounded_once(kind: str, device: Device):
    data, updates = noise(9, type=np.float16), noise(300, type=np.float16)
    expect_equal(3, device, OPERATIONS[f"scatter_{kind}"](), data, places(300, 9), updates)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type", [np.bool_, np.int8, np.int64])
def test_integers_wrap_and_bools_are_joined(kind: str, type: type, device: Device):
    data, updates = (noise(9) * 100).astype(type), np.arange(30).astype(type)
    op = OPERATIONS[f"scatter_{kind}"]()
    expect_equal(2, device, op, data, places(30, 9), updates)


def test_the_bits_of_what_only_moves_stay(device: Device):
    odd = np.array([0x7E01, 0x7C00, 0xFE55, 0x0001, 0x8000], np.uint16).view(np.float16)
    op = OPERATIONS["scatter_none"]()
    (found,), _ = run_one(op, operands(odd[::-1].copy(), np.array([1, 3]), odd[:2]), device)
    wanted = op.compute(odd[::-1].copy(), np.array([1, 3]), odd[:2])
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


def test_an_empty_tuple_names_all_the_data(device: Device):
    index = np.zeros((70, 0), np.int64)
    expect_equal(2, device, OPERATIONS["scatternd_max"](), noise(3, 4), index, noise(70, 3, 4))


def test_no_updates_leave_a_copy(device: Device):
    op, index = OPERATIONS["scatternd_add"](), np.zeros((0, 1), np.int64)
    expect_equal(2, device, op, noise(3, 4), index, noise(0, 4))
