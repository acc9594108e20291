"""A reduction that only declares what it is: shapes, values, contracts, fusion and kernels follow."""

from collections.abc import Generator

import numpy as np
import pytest

from tests.compiler.ops import test_operations as contract
from tests.compiler.variants import cases, checked, computed, expect_close, retyped, said
from tests.gpu.harness import run_one, run_program
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import OPERATIONS, operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.structure import Monoid
from workbench.compiler.ops.accumulate import sum_type
from workbench.compiler.ops.reduce import Ints, Reduction, wrapping
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device


def declared() -> type[Reduction]:
    """The whole declaration of a reduction."""

    @operation
    class ReduceL2(Reduction):
        """The square root of the sum of the squares along the axes."""

        name = "l2_norm"
        monoid = Monoid("{0} + {1}", lambda _: 0, wrapping, "T({0}) * T({0})", "sqrt((f64){0})")

        def reduced(self, x: Array, axes: Ints) -> Array:
            """Squared and summed in float32 at least; integers in 64 bits."""
            wide = x.astype(sum_type(x.dtype))
            total = np.add.reduce(wide * wide, axes, keepdims=True)
            return np.sqrt(total.astype(np.float64))

    return ReduceL2


@pytest.fixture(autouse=True, scope="module")
def norm() -> Generator[type[Reduction]]:
    """The reduction, while the tests of this file run."""
    made = declared()
    yield made
    del OPERATIONS[made.name]


def test_it_keeps_the_contract_of_operations(norm: type[Reduction]):
    contract.test_it_is_described_and_its_attributes_are_a_value(norm.name)
    contract.test_the_shape_rule_agrees_with_the_value(norm.name)
    contract.test_it_prints_and_parses_back(norm.name)
    contract.test_float64_operands_give_close_float64_results(norm.name)
    contract.test_a_wrong_number_of_inputs_is_refused(norm.name)


def test_kernels_agree_with_the_reference(norm: type[Reduction], device: Device):
    for op, operands in cases(norm.name):
        if len(operands) > 1:  # its axes are an input
            continue
        ran = run_one(op, operands, device)
        wanted = computed(op, operands)[0]
        assert (len(ran.plan.kernels), ran.plan.host) == (1, [])
        expect_close(ran.values[0], wanted, wanted.dtype, said(op, operands))


def test_other_types_have_the_shapes_that_the_rule_says(norm: type[Reduction]):
    op, operands = cases(norm.name)[0]
    assert all(checked(op, other) is not None for _, other in retyped(operands))


def test_it_is_fused_with_the_work_around_it(norm: type[Reduction], device: Device):
    program, shape = Program(), Shape(DType.FLOAT, (6, 300))
    x = program.main.add_parameter("x", shape)
    length = program.main.add(norm(axes=(1,)), program.main.add("abs", x))
    wide = program.main.add("multibroadcast", length, out_lens=shape.lens)
    program.main.add_return(program.main.add("div", x, wide))
    inputs = {"x": np.random.default_rng(0).standard_normal(shape.lens, dtype=np.float32)}
    wanted = run(program, inputs)[0]
    PIPELINES["gpu"].run(program)
    ran = run_program(program, inputs, device)
    assert [i.name for i in program.main if i.inputs][:-1] == ["fused_reduce"]
    assert (len(ran.plan.kernels), ran.plan.host) == (1, [])
    expect_close(ran.values[0], np.asarray(wanted), np.float32, "x / l2_norm(x)")
