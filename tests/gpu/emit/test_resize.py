"""Resizing: every way to place and to choose, and where positions are no simple fractions."""

from itertools import product

import numpy as np
import pytest

from tests.compiler.variants import Operand, computed, expect_close
from tests.gpu.emit.agreement import expect_agreement
from tests.gpu.harness import program_of, run_program
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ops.resize import Resize
from workbench.gpu.devices.base import Device
from workbench.gpu.emit.resize import axes_of, nearest, position

PLACES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"]
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
LENGTHS = [(5, 9), (9, 4), (4, 8), (6, 1), (1, 5)]
SCALES = [(5, 1.7), (7, 0.43), (4, 2.0), (3, float(np.float32(2.6)))]


def expect_all_agree(device: Device, ops: list[Resize], lens: list[int]) -> None:
    """Each op on rows of one of the lengths, all in one program."""
    program, arrays, wanted = Program(), {}, []
    outputs = []
    for k, (op, n) in enumerate(zip(ops, lens, strict=True)):
        x = noise(2, n, seed=k)
        arrays[f"x{k}"] = x
        one = program.main.add_parameter(f"x{k}", Operand(x, DType.FLOAT).shape)
        outputs.append(program.main.add(op, one))
        wanted += computed(op, [Operand(x, DType.FLOAT)])
    program.main.add_return(*outputs)
    values, plan = run_program(program, arrays, device)
    assert not plan.host
    for op, n, found, one in zip(ops, lens, values, wanted, strict=True):
        expect_close(found, one, np.float32, f"{op} of {n}")


@pytest.mark.parametrize("place", PLACES)
def test_every_rounding_takes_the_references_element(place: str, device: Device):
    common = {"coordinate_transformation_mode": place}
    ops = [
        (Resize(sizes=(2, m), nearest_mode=r, **common), n)
        for (n, m), r in product(LENGTHS, ROUNDINGS)
    ] + [
        (Resize(scales=(1.0, s), nearest_mode=r, **common), n)
        for (n, s), r in product(SCALES, ROUNDINGS)
    ]
    expect_all_agree(device, [op for op, _ in ops], [n for _, n in ops])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_weights_are_the_references(mode: str, device: Device):
    ops = [
        (Resize(sizes=(2, m), mode=mode, coordinate_transformation_mode=p), n)
        for (n, m), p in product(LENGTHS, PLACES)
    ] + [
        (Resize(scales=(1.0, s), mode=mode, coordinate_transformation_mode=p), n)
        for (n, s), p in product(SCALES, PLACES)
    ]
    expect_all_agree(device, [op for op, _ in ops], [n for _, n in ops])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("type", [DType.HALF, DType.DOUBLE, DType.UINT8])
def test_images_of_other_types_are_resized_along_two_axes(mode: str, type: DType, device: Device):
    x = (np.abs(noise(2, 1, 4, 5)) * 40).astype(type.numpy).transpose(0, 1, 3, 2)
    op = Resize(sizes=(2, 1, 7, 3), mode=mode, coordinate_transformation_mode="half_pixel")
    expect_agreement(device, op, x)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("place", ["half_pixel", "asymmetric", "tf_half_pixel_for_nn"])
def test_positions_that_are_no_simple_fractions_are_computed_in_doubles(
    mode: str, place: str, device: Device
):
    op = Resize(scales=(1.0, 1.2345678912345), mode=mode, coordinate_transformation_mode=place)
    x = noise(2, 900)
    instruction = program_of(op, [Operand(x, DType.FLOAT)]).main.outputs[0]
    assert [position(axis) for axis in axes_of(instruction)] == [None]
    expect_agreement(device, op, x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("place", ["half_pixel", "asymmetric", "tf_half_pixel_for_nn"])
def test_nearest_elements_at_scales_that_are_no_simple_fractions_are_the_references(
    rounding: str, place: str, device: Device
):
    op = Resize((1.0, 1.2345678912345), (), rounding, coordinate_transformation_mode=place)
    x = noise(2, 900)
    instruction = program_of(op, [Operand(x, DType.FLOAT)]).main.outputs[0]
    assert [nearest(axis) for axis in axes_of(instruction)] == [None]
    expect_agreement(device, op, x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_corners_that_rounding_moves_a_little_stay_the_references(rounding: str, device: Device):
    op = Resize(
        sizes=(2, 50), nearest_mode=rounding, coordinate_transformation_mode="align_corners"
    )
    expect_agreement(device, op, noise(2, 99))


def test_whole_factors_are_plain_divisions(device: Device):
    op = Resize(scales=(1.0, 2.0), coordinate_transformation_mode="asymmetric")
    x = noise(2, 6)
    ran = run_program(program_of(op, [Operand(x, DType.FLOAT)]), {"x0": x}, device)
    assert "f64" not in ran.plan.kernels[0].launch.kernel.source
    np.testing.assert_array_equal(ran.values[0], np.repeat(x, 2, axis=1))
