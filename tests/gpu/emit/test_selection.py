"""Indices that are data: from both ends, out of any bounds, of every type; tables and frequencies."""

import numpy as np
import pytest

from tests.gpu.emit.agreement import expect_agreement, operands
from tests.gpu.harness import run_one, run_program
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ops.attention import ConcatPastPresent, GqaRotaryEmbedding
from workbench.compiler.ops.index import Gather, GatherElements, GatherNd
from workbench.compiler.ops.random import Multinomial
from workbench.compiler.ops.scatter import ScatterNdNone, ScatterNone
from workbench.compiler.ops.select import OneHot
from workbench.compiler.ops.sequences import RnnVarSlLastOutput, RnnVarSlShiftSequence
from workbench.compiler.ops.spectral import Dft
from workbench.compiler.ops.tables import Lookup
from workbench.compiler.ops.view import DimensionsOf
from workbench.gpu.devices.base import Device

WILD = np.array([-(1 << 63), -(1 << 40), -6, 5, 1 << 31, (1 << 63) - 1])


@pytest.mark.parametrize("type", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_indices_of_every_type_name_the_same_elements(type: type, device: Device):
    places = np.array([4, 0, 2], type)
    expect_agreement(device, Gather(axis=1), noise(3, 5, 2), places)
    expect_agreement(device, GatherElements(axis=0), noise(5), places)
    expect_agreement(device, GatherNd(), noise(5, 2), places[:, None])


def test_indices_out_of_range_read_nothing_beyond_the_data(device: Device):
    data = noise(5)
    for index in (WILD, WILD.astype(np.uint64), WILD.astype(np.int32)):
        for op in (Gather(), GatherElements()):
            (values,), _ = run_one(op, operands(data, index), device)
            assert np.isin(values, data).all()
        (values,), _ = run_one(GatherNd(), operands(data, index[:, None]), device)
        assert np.isin(values, data).all()


def test_indices_out_of_range_write_nothing_beyond_the_data(device: Device):
    data, updates = noise(5), np.arange(6, dtype=np.float32)
    for op, index in ((ScatterNone(), WILD), (ScatterNdNone(), WILD[:, None])):
        (values,), _ = run_one(op, operands(data, index, updates), device)
        assert np.isin(values, [*data, *updates]).all()
    skipped = ScatterNone(skip_out_of_bounds=True)
    (values,), _ = run_one(skipped, operands(data, WILD, updates), device)
    np.testing.assert_array_equal(values, data)


def test_lengths_and_places_out_of_range_read_nothing_beyond_the_data(device: Device):
    x = noise(4, 6, 2)
    for op, given in ((RnnVarSlShiftSequence(), x), (RnnVarSlLastOutput(), x[:, None])):
        (values,), _ = run_one(op, operands(given, WILD), device)
        assert np.isin(values, [0, *x.reshape(-1)]).all()
    past, row, angles = noise(6, 1, 3, 4), noise(6, 1, 1, 4, seed=1), np.ones((3, 2), np.float32)
    (values,), _ = run_one(ConcatPastPresent(), operands(row, WILD, past), device)
    assert np.isin(values, [*past.reshape(-1), *row.reshape(-1)]).all()
    turned = operands(np.ones((6, 3, 1, 4), np.float32), WILD, angles, angles)
    (values,), _ = run_one(GqaRotaryEmbedding(), turned, device)
    assert np.isin(values, [0, 1, 2]).all()


def test_an_index_out_of_range_is_hot_nowhere(device: Device):
    values = np.array([0.5, 2], np.float32)
    expect_agreement(device, OneHot(axis=0, depth=3), WILD, values)
    expect_agreement(device, OneHot(depth=3), np.array([np.nan, 1.7, -1, 1e30], np.float32), values)


@pytest.mark.parametrize("count", [0, 1, 7, 5000])
def test_values_of_constant_sorted_keys_are_found_by_bisection(count: int, device: Device):
    program = Program()
    keys = np.arange(count, dtype=np.int64) * 3
    x = program.main.add_parameter("x", operands(np.arange(-5, 40))[0].shape)
    table = [program.main.add_literal(v) for v in (keys, keys * 2, np.array([-1]))]
    program.main.add_return(program.main.add(Lookup(), x, *table))
    given = np.concatenate([np.arange(-5, 39), [max(3 * count - 3, 0)]])
    (found,), plan = run_program(program, {"x": given}, device)
    known = (given % 3 == 0) & (given >= 0) & (given < 3 * count)
    np.testing.assert_array_equal(found, np.where(known, given * 2, -1))
    assert (len(plan.kernels), plan.host) == (1, [])


def test_of_equal_keys_the_first_one_counts_and_nan_is_a_key(device: Device):
    keys = np.array([2, np.nan, 2, -0.0], np.float32)
    values, default = np.array([1, 2, 3, 4]), np.array([9])
    x = np.array([np.nan, 2, 0, 3], np.float32)
    expect_agreement(device, Lookup(), x, keys, values, default)


def test_a_key_that_is_missing_without_a_default_is_the_hosts_to_refuse(device: Device):
    keys = np.array([1, 2])
    ran = run_one(Lookup(), operands(keys, keys, keys), device)
    assert [i.name for i in ran.plan.host] == ["lookup"]


def test_draws_fall_into_the_classes_that_the_reference_says(device: Device):
    sums = np.cumsum(np.abs(noise(3, 50)), axis=1)
    samples = np.linspace(0, 0.999, 200, dtype=np.float32)
    expect_agreement(device, Multinomial(), sums, samples)
    expect_agreement(device, Multinomial(), sums, np.stack([samples] * 3))


def test_lengths_are_constants(device: Device):
    expect_agreement(device, DimensionsOf(end=4), noise(2, 3, 4, 5))
    expect_agreement(device, DimensionsOf(start=2, end=3), noise(2, 3, 4, 5))


@pytest.mark.parametrize("length", [1, 5, 64])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
def test_frequencies_agree_with_the_reference(
    length: int, parts: int, inverse: bool, onesided: bool, device: Device
):
    type = np.float64 if length == 5 else np.float32
    x = noise(2, 40, parts, type=np.dtype(type))
    expect_agreement(device, Dft(1, length, inverse, onesided), x)


def test_frequencies_that_cancel_are_zero(device: Device):
    """Turns of halves and quarters are exact, so real signals have no imaginary part at half their length."""
    x = np.arange(8, dtype=np.float32).reshape(1, 8, 1)
    found = run_one(Dft(1), operands(x), device).values[0]
    assert found[0, [0, 4], 1].tolist() == [0, 0]
    assert found[0, 2].tolist() == [-4, 4]
