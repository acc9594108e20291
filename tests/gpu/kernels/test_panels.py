"""Products on CPUs: sums in registers, operands in place or in panels; vectors of adjacent matrices."""

from dataclasses import replace

import numpy as np
import pytest

from tests.gpu.harness import Ran, run_plan
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import OPENCL
from workbench.gpu.kernels.operands import packed
from workbench.gpu.lowering.lower import lower

REGISTERS = ((64, 32), (32, 16))
"""The bytes of a vector register and their number: of AVX-512, and of AVX2."""
LAST, FILTERS_LAST = (0, 2, 3, 1), (1, 2, 3, 0)


def whole(*lens: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, lens).astype(np.float32)


def agreed(program: Program, inputs: dict, device: Device, registers: tuple[int, int]) -> Ran:
    """The run, whose results are those of the reference."""
    if not device.dialect.machine.is_cpu:
        pytest.skip("kernels for CPUs")
    vector, count = registers
    machine = replace(device.dialect.machine, vector=vector, registers=count)
    ran = run_plan(lower(program, replace(device.dialect, machine=machine)), inputs, device)
    wanted = run(program, inputs)
    for found, expected in zip(ran.values, wanted, strict=True):
        assert np.array_equal(found, np.asarray(expected))
    return ran


def result(program: Program, product: Instruction) -> None:
    """Return a product, with work after it."""
    program.main.add_return(program.main.add("relu", product))


@pytest.mark.parametrize("registers", REGISTERS, ids=str)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_products_at_the_edges_of_tiles(
    turned: bool, constant: bool, registers: tuple[int, int], device: Device
):
    for m, k, n in ((13, 40, 200), (25, 65, 47), (70, 600, 5)):
        program = Program()
        main, b = program.main, whole(*((n, k) if turned else (k, n)), seed=1)
        inputs = {"a": whole(m, k)}
        x = main.add_parameter("a", Shape(DType.FLOAT, (m, k)))
        if constant:
            y = main.add_literal(b)
        else:
            inputs["b"] = b
            y = main.add_parameter("b", Shape(DType.FLOAT, b.shape))
        y = main.add("transpose", y, permutation=(1, 0)) if turned else y
        result(program, main.add("dot", x, y))
        ran = agreed(program, inputs, device, registers)
        copies = [s for s in ran.plan.kernels if "panels" in s.launch.kernel.name]
        assert len(copies) <= (not constant)
        assert constant or not turned or copies


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("channels", "filters", "size", "group", "stride"),
    [
        (5, 24, 3, 1, 2),
        (40, 33, 1, 1, 1),
        (24, 24, 3, 24, 1),
        (20, 20, 5, 20, 2),
        (12, 24, 3, 2, 1),
    ],
)
def test_convolutions_with_padding(
    channels: int, filters: int, size: int, group: int, stride: int, last: bool, device: Device
):
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape(DType.FLOAT, (2, channels, 9, 11)))
    w = main.add_literal(whole(filters, channels // group, size, size, seed=1))
    if last:
        x = main.add("layout", x, permutation=LAST)
        w = main.add("layout", w, permutation=FILTERS_LAST if group == channels else LAST)
    options = {"padding": (size // 2,) * 2, "stride": (stride, stride), "group": group}
    result(program, main.add("convolution", x, w, **options))
    agreed(program, {"x": whole(2, channels, 9, 11)}, device, REGISTERS[0])


@pytest.mark.parametrize(
    ("channels", "size", "lens", "options"),
    [
        (20, 3, (1, 8), {"padding": (1, 1)}),  # one line, a vector that overlaps another
        (32, 3, (3, 29), {"padding": (0, 2, 1, 0)}),  # uneven padding, strips that overlap
        (16, 5, (7, 7), {"padding": (2, 2)}),  # every strip is at an end of its line
        (8, 3, (9, 40), {"padding": (2, 2), "dilation": (2, 2), "stride": (1, 1)}),
        (24, 3, (16, 33), {"padding": (1, 1), "stride": (2, 2)}),
        (16, 7, (5, 4), {"padding": (3, 3)}),  # windows larger than the image
    ],
)
def test_strips_of_depthwise_convolutions(
    channels: int, size: int, lens: tuple[int, int], options: dict, device: Device
):
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape(DType.FLOAT, (2, channels, *lens)))
    w = main.add_literal(whole(channels, 1, size, size, seed=1))
    x, w = (main.add("layout", i, permutation=p) for i, p in ((x, LAST), (w, FILTERS_LAST)))
    result(program, main.add("convolution", x, w, group=channels, **options))
    ran = agreed(program, {"x": whole(2, channels, *lens)}, device, REGISTERS[0])
    assert any("ALIGN(64) f32 p[" in s.launch.kernel.source for s in ran.plan.kernels)


def test_a_window_larger_than_the_input_along_its_terms(device: Device):
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape(DType.FLOAT, (1, 64, 2)))
    w = main.add_literal(whole(64, 64, 3, seed=1))
    options = {"padding": (1,), "stride": (2,), "dilation": (1,)}
    result(program, main.add("convolution", x, w, **options))
    agreed(program, {"x": whole(1, 64, 2)}, device, REGISTERS[0])


def test_the_last_panel_overlaps_the_one_before():
    array = whole(2, 3, 10)
    found = packed(array, 4)
    assert found.shape == (2, 3, 3, 4)
    for panel, start in enumerate((0, 4, 6)):
        assert np.array_equal(found[:, panel], array[:, :, start : start + 4])
    assert np.array_equal(packed(array, 16)[:, 0, :, :10], array)


def test_plans_for_a_cpu_do_not_depend_on_this_machine():
    program = Program()
    x, y = (program.main.add_parameter(n, Shape(DType.FLOAT, (64, 64))) for n in "xy")
    result(program, program.main.add("dot", x, y))
    texts = [[s.launch.kernel.source for s in lower(program, OPENCL).kernels] for _ in range(2)]
    assert texts[0] == texts[1]
    assert "ext_vector_type(8)" in texts[0][0]
