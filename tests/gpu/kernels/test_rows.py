"""Products of few rows: on CPUs without tiles; the rows of many matrices that share an operand, as one."""

import numpy as np
import pytest

from tests.gpu.harness import run_program
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import OPENCL
from workbench.gpu.lowering.lower import lower


def whole(type: str, *lens: int, seed: int) -> np.ndarray:
    """Small whole numbers, whose products and sums are exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, lens).astype(DType.of(type).numpy)


def product(
    type: str, m: int, k: int, n: int, batch: tuple[int, ...], turned: bool, shared: bool = False
) -> tuple[Program, dict[str, np.ndarray]]:
    """The tanh of a product plus a vector; the large operand may lie transposed, or be one for all."""
    program = Program()
    main = program.main
    lens = (n, k) if turned else (k, n)
    inputs = {
        "a": whole(type, *batch, m, k, seed=1),
        "b": whole(type, *(() if shared else batch), *lens, seed=2),
        "c": whole(type, n, seed=3),
    }
    a, b, c = (main.add_parameter(x, Shape(type, v.shape)) for x, v in inputs.items())
    if turned:
        axes = (*range(b.shape.ndim - 2), b.shape.ndim - 1, b.shape.ndim - 2)
        b = main.add("transpose", b, permutation=axes)
    if shared:
        b = main.add("multibroadcast", b, out_lens=(*batch, k, n))
    made = main.add("dot", a, b)
    wide = main.add("multibroadcast", c, out_lens=made.shape.lens)
    main.add_return(main.add("add", made, wide))
    return program, inputs


CASES = [
    ("float", 1, 16, 1, (), True),
    ("float", 1, 37, 48, (), True),
    ("float", 3, 33, 20, (2,), True),
    ("float", 2, 300, 521, (), True),
    ("float", 1, 5, 16, (), False),
    ("float", 2, 40, 96, (3, 2), False),
    ("float", 4, 7, 1040, (), False),
    ("half", 2, 24, 32, (), True),
    ("double", 1, 19, 64, (2,), False),
    ("int32", 3, 17, 33, (), True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_few_rows(case: tuple, device: Device):
    program, inputs = product(*case)
    ran = run_program(program, inputs, device)
    np.testing.assert_array_equal(ran.values[0], run(program, inputs)[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_cpu_copies_no_tiles_for_few_rows(case: tuple):
    (heart, _) = lower(product(*case)[0], OPENCL).kernels
    assert OPENCL.machine.is_cpu
    assert "SHARED" not in heart.launch.kernel.source
    assert heart.launch.kernel.block == (1, 1, 1)


@pytest.mark.parametrize(("m", "turned"), [(1, True), (2, False), (8, True), (3, False)])
def test_rows_of_matrices_that_share_an_operand_are_one_product(
    m: int, turned: bool, device: Device
):
    program, inputs = product("float", m, 20, 24, (3, 5), turned, shared=True)
    ran = run_program(program, inputs, device)
    np.testing.assert_array_equal(ran.values[0], run(program, inputs)[0])
    heart = next(s for s in ran.plan.kernels if s.instruction.name == "dot")
    assert heart.launch.problem.startswith(f"dot float {15 * m}x20x24,")
    if device.dialect.machine.is_cpu:
        assert heart.launch.kernel.grid[0] < 15  # not one block for each matrix
