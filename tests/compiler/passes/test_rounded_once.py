"""Half precision rounds what it stores once: constants are folded in float, factors stay out of weights."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import pass_named, run_pass

NARROW = (DType.HALF, DType.BF16)


def drawn(lens, type, seed=0, low=0.5):
    values = np.random.default_rng(seed).uniform(low, 2, lens)
    return values.astype(np.float32).astype(type.numpy)


def names(program):
    return [i.name for i in program.main]


@pytest.mark.parametrize("type", NARROW)
def test_constants_are_rounded_when_all_of_their_arithmetic_is_done(type):
    program = Program()
    a, b, c = (drawn((200,), type, seed) for seed in range(3))
    x, y, z = (program.main.add_literal(v) for v in (a, b, c))
    program.main.add_return(program.main.add("mul", program.main.add("mul", x, y), z))
    run_pass(pass_named("propagate_constant"), program)
    (found,) = (i for i in program.main if i.literal is not None)
    wide = [v.astype(np.float32) for v in (a, b, c)]
    np.testing.assert_array_equal(
        found.literal.numpy(), (wide[0] * wide[1] * wide[2]).astype(type.numpy)
    )


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
