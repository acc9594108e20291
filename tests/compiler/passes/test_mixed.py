"""Random programs of many operations and types: what is optimised computes what was written."""

import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.compiler.mixed_programs import mixed_inputs, mixed_programs
from tests.compiler.variants import parts
from tests.gpu.harness import as_built
from tests.profiles import IS_DEEP
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device

KERNELS = 1000 if IS_DEEP else 10
"""Programs whose kernels are compiled."""


def outputs(build: Build, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """The results of a build in float64; None where an operation refuses the values."""
    try:
        return list(build.run(inputs, precision="float64").outputs)
    except EvaluationError:
        return None


def folding_tolerance(program: Program) -> float:
    """Two roundings of the narrowest float: constants are folded in their own types."""
    types = {i.shape.type for m in program.modules.values() for i in m if i.shape.is_tensor}
    infos: list[Any] = [ml_dtypes.finfo(t.numpy) for t in types if t.is_narrow_float]
    return max((2 * float(info.eps) for info in infos), default=1e-5)


def agrees(program: Program) -> None:
    inputs = mixed_inputs(program)
    with np.errstate(all="ignore"):
        wanted = outputs(compile(program, target="ref"), inputs)
        found = outputs(compile(program, target="cpu", check=True), inputs)
    assert (wanted is None) == (found is None)
    tolerance = folding_tolerance(program)
    for a, b in zip(wanted or [], found or [], strict=True):
        assert a.dtype == b.dtype
        scale = np.abs(a[np.isfinite(a)]).max(initial=1) if a.dtype.kind == "f" else 0
        np.testing.assert_allclose(b, a, tolerance, tolerance * float(scale))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(mixed_programs())
def test_the_optimised_program_computes_the_same(program: Program):
    agrees(program)


def typed_outputs(build: Build, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """The results of a build in the types as written; None where an operation refuses the values."""
    try:
        return [p for v in build.run(inputs).outputs for p in parts(v)]
    except EvaluationError:
        return None


def expect_as_precise(found: np.ndarray, typed: np.ndarray, exact: np.ndarray, limit: float):
    """Equal, or for floats about as near to the exact result as what NumPy computes as typed."""
    assert (found.dtype, found.shape) == (typed.dtype, typed.shape)
    if not DType.of(found.dtype).is_float:
        np.testing.assert_array_equal(found, typed)
        return
    a, b, c = (x.astype(np.float64) for x in (found, typed, exact))
    known = np.isfinite(b) & np.isfinite(c)  # beyond its type, a value may be anything
    scale = np.abs(c[known]).max(initial=1)
    error = np.abs(b - c)[known].max(initial=0)
    np.testing.assert_allclose(a[known], c[known], limit, limit * float(scale) + 16 * float(error))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=KERNELS, suppress_health_check=list(HealthCheck))
@given(mixed_programs())
def test_kernels_compute_the_same(program: Program):
    inputs = mixed_inputs(program)
    with np.errstate(all="ignore"):
        plain = compile(program, target="ref")
        exact, typed = outputs(plain, inputs), typed_outputs(plain, inputs)
        assume(exact is not None and typed is not None)
        build = compile(program, target="gpu")
        found = typed_outputs(as_built(build, device(os.environ.get("WORKBENCH_DEVICE"))), inputs)
    assert found is not None
    limit = 8 * folding_tolerance(program)
    for a, b, c in zip(found, typed, exact, strict=True):
        expect_as_precise(a, b, c, limit)


def of(*shapes: Shape) -> tuple[Program, list[Instruction]]:
    """A program with these parameters."""
    program = Program()
    return program, [program.main.add_parameter(f"x{i}", s) for i, s in enumerate(shapes)]


def test_a_difference_of_bools_is_no_sum():
    program, (x,) = of(Shape("bool", (2, 2)))
    one = program.main.add_literal(np.array([[True, False], [True, True]]))
    program.main.add_return(program.main.add("sub", x, one))
    agrees(program)


@pytest.mark.parametrize("names", [("exp", "log"), ("sqrt", "recip")])
def test_what_cancels_for_floats_does_not_for_integers(names: tuple[str, str]):
    program, (x,) = of(Shape("int32", (4,)))
    y = program.main.add("max", x, program.main.add_literal(np.full(4, 2, np.int32)))
    inner = program.main.add(names[0], y)
    program.main.add_return(program.main.add(names[1], inner), y)
    agrees(program)


@pytest.mark.parametrize("exponent", [2, 3])
def test_powers_of_small_integers_saturate(exponent: int):
    program, (x,) = of(Shape("uint8", (4,)))
    wide = program.main.add("add", x, program.main.add_literal(np.full(4, 200, np.uint8)))
    n = program.main.add_literal(np.full(4, exponent, np.uint8))
    program.main.add_return(program.main.add("pow", wide, n))
    agrees(program)


def test_broadcasts_along_one_axis_of_values_of_different_rank():
    program, (x,) = of(Shape("float", (2, 2, 3)))
    lens = (2, 2, 3, 3)
    row = program.main.add_literal(np.array([-1, 0], np.float32))
    sides = [program.main.add("broadcast", v, axis=0, out_lens=lens) for v in (row, x)]
    program.main.add_return(program.main.add("add", *sides))
    agrees(program)


def test_two_views_of_one_value_come_to_rest():
    """A reshape is not moved from one operand to the other for ever."""
    program, (x,) = of(Shape("float", (2, 3)))
    cut = program.main.add("slice", x, axes=[1], starts=[1], ends=[3])
    view = program.main.add("convert", cut, target_type="half")
    copy = program.main.add("reshape", view, dims=(2, 2))
    program.main.add_return(
        program.main.add("softmax", view, axis=0), program.main.add("div", view, copy)
    )
    agrees(program)


def test_a_transform_between_kernels_comes_to_rest():
    """Moved below one kernel, it must not be moved back by the next before the two are one."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("int8", (2, 1, 2)))
    y = main.add_parameter("y", Shape("half", (2, 2)))
    first = main.add("squeeze", main.add("abs", x), axes=[1])
    main.add_return(main.add("max", y, main.add("convert", first, target_type="half")))
    build = compile(program)
    assert [i.name for i in build.program.main].count("pointwise") == 1
