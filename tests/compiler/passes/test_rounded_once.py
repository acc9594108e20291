"""Stored values are rounded once: constants are folded in wider types, factors stay out of halves."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.run.reference import Interpreter

NARROW = (DType.HALF, DType.BF16)
WIDE = {DType.HALF: np.float32, DType.BF16: np.float32, DType.FLOAT: np.float64}


def drawn(lens, type, seed=0, low=0.5):
    values = np.random.default_rng(seed).uniform(low, 2, lens)
    return values.astype(np.float32).astype(type.numpy)


def names(program):
    return [i.name for i in program.main]


@pytest.mark.parametrize("type", WIDE)
def test_constants_are_rounded_when_all_of_their_arithmetic_is_done(type):
    program = Program()
    a, b, c = (drawn((200,), type, seed) for seed in range(3))
    x, y, z = (program.main.add_literal(v) for v in (a, b, c))
    program.main.add_return(program.main.add("mul", program.main.add("mul", x, y), z))
    run_pass(pass_named("propagate_constant"), program)
    wide = [v.astype(WIDE[type]) for v in (a, b, c)]
    np.testing.assert_array_equal(folded(program), (wide[0] * wide[1] * wide[2]).astype(type.numpy))


def folded(program):
    """The constant that a program's result becomes."""
    run_pass(pass_named("propagate_constant"), program)
    return program.main.outputs[0].literal.numpy()


@pytest.mark.parametrize(
    ("jump", "n"),
    [("floor", 49), ("mod", 49), ("fmod", 49), ("thresholded_relu", 3)],
)
def test_a_result_that_jumps_is_that_of_rounded_operands(jump, n):
    program = Program()
    m = program.main
    values = (n, np.float32(1) / np.float32(n), 1)
    given, inverse, one = (m.add_literal(np.full((1,), v, np.float32)) for v in values)
    product = m.add("mul", given, inverse)  # 1 in float, not quite in float64
    m.add_return(m.add(jump, product, *([one] if "mod" in jump else [])))
    wanted, exact = (Interpreter(program, wide).run()[0] for wide in (False, True))
    assert abs(wanted - exact) > 0.5
    np.testing.assert_array_equal(folded(program), wanted)


def test_a_constant_that_is_converted_to_half_and_back_has_the_digits_of_half():
    program = Program()
    m = program.main
    x = m.add("convert", m.add_literal(drawn((200,), DType.FLOAT)), target_type=DType.HALF)
    back = m.add("convert", x, target_type=DType.FLOAT)
    m.add_return(m.add("mul", back, m.add_literal(np.full((200,), 0.5, np.float32))))
    wanted = wb.compile(program, "ref").run({})[0]
    np.testing.assert_array_equal(folded(program), wanted)


@pytest.mark.parametrize("type", WIDE)
def test_a_constant_that_is_read_by_another_is_rounded_itself(type):
    program = Program()
    m = program.main
    a, b = (drawn((50,), type, seed) for seed in range(2))
    product = m.add("mul", m.add_literal(a), m.add_literal(b))
    m.add_return(product, m.add("mul", product, m.add_literal(b)))
    run_pass(pass_named("propagate_constant"), program)
    first, second = wb.compile(program, "ref").run({}).outputs
    wide = [v.astype(WIDE[type]) for v in (a, b)]
    np.testing.assert_array_equal(first, (wide[0] * wide[1]).astype(type.numpy))
    np.testing.assert_array_equal(second, (wide[0] * wide[1] * wide[1]).astype(type.numpy))


def test_the_weights_of_a_norm_are_rounded_once():
    program = Program()
    m = program.main
    weights, scale, variance = (
        drawn(lens, DType.FLOAT, seed) for seed, lens in enumerate([(8, 50), (8,), (8,)])
    )
    w, factor, v, eps = map(m.add_literal, (weights, scale, variance, np.full(8, 1e-5, np.float32)))
    for name, operands in (("add", [v, eps]), ("sqrt", []), ("recip", []), ("mul", [factor])):
        v = m.add(name, *(operands if name == "add" else [v, *operands]))
    m.add_return(m.add("mul", w, m.add("broadcast", v, axis=0, out_lens=(8, 50))))
    wide = scale / np.sqrt(variance.astype(np.float64) + np.float32(1e-5))
    half = 0.5 * np.spacing(weights * wide.astype(np.float32)[:, None])
    assert (np.abs(folded(program) - weights * wide[:, None]) <= half * (1 + 1e-6)).all()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.filterwarnings("error")
def test_constants_at_the_ends_of_the_range_are_folded_without_warnings(name: str, wide: bool):
    program = Program()
    m = program.main
    x = m.add_literal(np.array([3e38, -3e38, np.inf, np.nan, 1e-45], np.float32))
    y = np.array([3e38, 3e38, np.inf, 1, -np.inf], np.float32)
    first = m.add("mul", x, m.add_literal(np.ones(5, np.float32))) if wide else x
    m.add_return(m.add(name, first, m.add_literal(y)))
    wanted = wb.compile(program, "ref").run({})[0]
    np.testing.assert_array_equal(folded(program), wanted)


def test_a_constant_that_becomes_an_integer_is_rounded_first():
    program = Program()
    x = program.main.add_literal(np.full((1,), 1000, np.float16))
    y = program.main.add_literal(np.full((1,), 0.9995, np.float16))
    whole = program.main.add("convert", program.main.add("mul", x, y), target_type=DType.INT32)
    program.main.add_return(whole)
    wanted = wb.compile(program, "ref").run({})[0]
    run_pass(pass_named("propagate_constant"), program)
    (found,) = (i for i in program.main if i.literal is not None)
    np.testing.assert_array_equal(found.literal.numpy(), wanted)


def scaled(heart, type, factor):
    """A convolution or product with constant weights, and a factor for each channel or column."""
    program = Program()
    m = program.main
    if heart == "convolution":
        x = m.add_parameter("x", Shape(type, (1, 8, 6, 6)))
        y = m.add("convolution", x, m.add_literal(drawn((8, 8, 3, 3), type)))
        spread = m.add("broadcast", m.add_literal(factor), axis=1, out_lens=y.shape.lens)
    else:
        x = m.add_parameter("x", Shape(type, (6, 8)))
        y = m.add("dot", x, m.add_literal(drawn((8, 8), type)))
        spread = m.add("multibroadcast", m.add_literal(factor), out_lens=y.shape.lens)
    m.add_return(m.add("mul", y, spread))
    return program


@pytest.mark.parametrize("heart", ["convolution", "dot"])
@pytest.mark.parametrize(
    ("type", "factor", "folds"),
    [
        (DType.FLOAT, drawn((8,), DType.FLOAT), True),
        (DType.HALF, drawn((8,), DType.HALF), False),
        (DType.BF16, drawn((8,), DType.BF16), False),
        (DType.HALF, np.ldexp(1, np.arange(-4, 4)).astype(np.float16), True),
        (DType.HALF, np.zeros((8,), np.float16), False),
    ],
)
def test_weights_take_a_factor_where_that_rounds_nothing(heart, type, factor, folds):
    program = scaled(heart, type, factor)
    run_pass(pass_named("simplify_algebra"), program)
    run_pass(pass_named("propagate_constant"), program)
    assert ("mul" not in names(program)) == folds


@pytest.mark.parametrize(
    ("type", "count", "stays"),
    [
        (DType.HALF, 768, True),
        (DType.BF16, 3, True),
        (DType.HALF, 512, False),
        (DType.FLOAT, 3, False),
    ],
)
def test_a_division_stays_where_the_reciprocal_would_be_rounded(type, count, stays):
    program = Program()
    x = program.main.add_parameter("x", Shape(type, (4, 8)))
    n = program.main.add_literal(np.full((1,), count, type.numpy))
    spread = program.main.add("multibroadcast", n, out_lens=(4, 8))
    program.main.add_return(program.main.add("div", x, spread))
    run_pass(pass_named("simplify_algebra"), program)
    assert ("div" in names(program)) == stays


def network(program):
    """A convolution, its batch norm as a factor and a term for each channel, and an activation."""
    m, random = program.main, np.random.default_rng(3)
    lens = (1, 16, 12, 12)
    x = m.add_parameter("x", Shape("float", lens))
    weights = random.standard_normal((16, 16, 3, 3)).astype(np.float16).astype(np.float32)
    y = m.add("convolution", x, m.add_literal(weights), padding=(1, 1))
    for name in ("mul", "add"):
        vector = random.uniform(0.5, 2, 16).astype(np.float16).astype(np.float32)
        y = m.add(name, y, m.add("broadcast", m.add_literal(vector), axis=1, out_lens=lens))
    m.add_return(m.add("relu", y))
    return {"x": random.standard_normal(lens).astype(np.float16).astype(np.float32)}


def test_a_fused_convolution_is_as_exact_as_one_rounding():
    program = Program()
    inputs = network(program)
    exact = wb.compile(program, "ref").run(inputs, precision="float64")[0]
    build = wb.compile(program, target="gpu", device="opencl", precision="fp16")
    found = np.asarray(build.run(inputs)[0], np.float64)
    once = exact.astype(np.float16).astype(np.float64)
    assert np.linalg.norm(found - exact) < 1.05 * np.linalg.norm(once - exact)
