"""Roundings that kernels leave out: results are rounded once, and what a rounding hides may be fast."""

import numpy as np
import pytest

import workbench as wb
from tests.gpu.harness import run_program
from workbench.gpu.emit.roundings import hides_last_bits, is_only_computed_with

LENS = (64, 96)


def narrowed(main, type="half"):
    """A float, and the same converted to a narrower type."""
    x = main.add_parameter("x", wb.Shape("float", LENS))
    root = main.add("sqrt", x)
    return root, main.add("convert", root, target_type=wb.DType.of(f"{type}_type"))


def drawn(seed=0):
    return 1 + np.random.default_rng(seed).random(LENS, np.float32)


def fused(program):
    """One kernel for all elementwise work."""
    return wb.compile(program, passes=["fuse_pointwise", "dead_code_elimination"]).program


@pytest.mark.parametrize("type", ["half", "bf16"])
def test_a_value_that_is_only_computed_with_is_rounded_with_the_result(device, type):
    program = wb.Program()
    _, narrow = narrowed(program.main, type)
    w = program.main.add_parameter("w", wb.Shape(f"{type}_type", LENS))
    program.main.add_return(program.main.add("mul", narrow, w))
    x, kind = drawn(), wb.DType.of(f"{type}_type").numpy
    scale = drawn(1).astype(kind)
    (found,) = run_program(fused(program), {"x": x, "w": scale}, device).values
    once = (np.sqrt(x) * scale.astype(np.float32)).astype(kind)
    np.testing.assert_array_equal(np.asarray(found), once)


def test_a_value_that_goes_back_to_float_is_rounded(device):
    program = wb.Program()
    _, narrow = narrowed(program.main)
    wide = program.main.add("convert", narrow, target_type=wb.DType.FLOAT)
    program.main.add_return(program.main.add("neg", wide))
    x = drawn()
    (found,) = run_program(fused(program), {"x": x}, device).values
    np.testing.assert_array_equal(found, -np.sqrt(x).astype(np.float16).astype(np.float32))


def test_a_result_is_no_operand():
    program = wb.Program()
    _, narrow = narrowed(program.main)
    twice = program.main.add("add", narrow, narrow)
    assert is_only_computed_with(narrow)
    program.main.add_return(twice, narrow)
    assert not is_only_computed_with(narrow)
    assert not is_only_computed_with(twice)


def softmax(main, x, type):
    powers = main.add("exp", x)
    total = main.add("reduce_sum", powers, axes=(1,))
    spread = main.add("multibroadcast", total, out_lens=LENS)
    quotient = main.add("div", powers, spread)
    return powers, quotient, main.add("convert", quotient, target_type=type)


def test_a_later_rounding_hides_the_last_bits_of_what_is_scaled_and_added_up():
    for type, hidden in ((wb.DType.HALF, True), (wb.DType.BF16, True), (wb.DType.DOUBLE, False)):
        program = wb.Program()
        x = program.main.add_parameter("x", wb.Shape("float", LENS))
        powers, quotient, result = softmax(program.main, x, type)
        program.main.add_return(result)
        assert hides_last_bits(powers) == hides_last_bits(quotient) == hidden


def test_differences_and_results_in_float_show_the_last_bits():
    for shown in ("difference", "result"):
        program = wb.Program()
        x = program.main.add_parameter("x", wb.Shape("float", LENS))
        powers, quotient, result = softmax(program.main, x, wb.DType.HALF)
        more = program.main.add("sub", powers, x) if shown == "difference" else powers
        program.main.add_return(result, more)
        assert not hides_last_bits(powers)
        assert hides_last_bits(quotient)


@pytest.mark.parametrize(("type", "fast"), [("half", True), ("float", False)])
def test_a_softmax_of_halves_has_fast_functions(type, fast):
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape(type, LENS))
    program.main.add_return(program.main.add("softmax", x, axis=1))
    built = wb.compile(program, target="gpu", device="cuda:sm_90")
    (kernel,) = built.kernels()
    assert [word in kernel.body for word in ("FAST_EXP", "FAST_DIV")] == [fast, fast]
