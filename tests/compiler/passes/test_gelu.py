"""GELU in half: found behind conversions, computed with one exponential, and how far from the definition."""

from math import erf, sqrt

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

LENS = (4, 8)


def gelu(form: str) -> Program:
    """GELU of floats, with scalars repeated as ONNX's importer repeats them."""
    program = Program()
    add = program.main.add
    x = program.main.add_parameter("x", Shape("float", LENS))

    def of(value: float):
        scalar = program.main.add_literal(np.array(value, np.float32))
        return add("multibroadcast", scalar, out_lens=LENS)

    if form == "tanh":
        cube = add("mul", add("pow", x, of(3)), of(0.044715))
        inner = add("tanh", add("mul", add("add", x, cube), of(0.7978845608)))
    else:
        inner = add("erf", add("div", x, of(sqrt(2))))
    half = add("mul", x, of(0.5))
    program.main.add_return(add("mul", half, add("add", inner, of(1))))
    return program


@pytest.mark.parametrize("form", ["tanh", "erf"])
def test_it_is_found_in_a_program_that_is_converted_to_half(form: str):
    build = wb.compile(gelu(form), "cpu", passes="gpu", precision="fp16", record=False)
    names = [i.name for i in build.program.instructions]
    assert names.count("exp") == 1
    assert form not in names


def test_the_erf_form_is_within_its_bound_at_every_half():
    build = wb.compile(gelu("erf"), "cpu", passes="gpu", precision="fp16", record=False)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)].astype(np.float64)
    literals = [i.literal.numpy() for i in build.program.instructions if i.literal is not None]
    numbers = sorted(float(v) for one in literals for v in np.ravel(one))
    c0, c1, c2, one, most = numbers
    assert (one, most) == (1, 16)
    square = np.minimum(x * x, most)
    with np.errstate(over="ignore"):
        found = x / (one + np.exp(x * ((c2 * square + c1) * square + c0)))
    wanted = x * 0.5 * (1 + np.vectorize(erf)(x / sqrt(2)))
    assert np.abs(found - wanted).max() < 7e-5


@pytest.mark.parametrize("form", ["tanh", "erf"])
def test_ends_of_the_range_are_those_of_the_definition(form: str):
    build = wb.compile(gelu(form), "cpu", passes="gpu", precision="fp16", record=False)
    ends = [0.0, -0.0, 65504, -65504, np.inf, -np.inf, np.nan, 6e-8]
    x = np.resize(np.array(ends, np.float32), LENS)
    found = np.asarray(build.run({"x": x})[0])[0]
    assert np.array_equal(found[:5], [0, 0, 65504, 0, np.inf])
    assert np.isnan(found[5:7]).all()  # -inf times 0, as by the definition
    assert abs(found[7]) < 1e-7
