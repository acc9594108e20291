"""Rounding of narrow floats: once, to nearest, ties to even; and the wider types used meanwhile.

The yardstick is a table of every value of a type, searched with exact fractions.
"""

from fractions import Fraction
from functools import cache
from math import isfinite
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.special import erf
from workbench.compiler.run.reference import Interpreter

NARROW = [t for t in DType if t.is_narrow_float]
INTEGERS = [t for t in DType if t.is_integral and t is not DType.BOOL]
quick = settings(max_examples=25, deadline=None, derandomize=True)
every_narrow = pytest.mark.parametrize("type", NARROW, ids=lambda t: t.name)


@cache
def table(type: DType) -> np.ndarray:
    """Every finite value from 0 on, in the order of their codes, which is ascending."""
    codes = np.arange(1 << (8 * type.size - 1)).astype(f"u{type.size}")
    with np.errstate(all="ignore"):
        values = codes.view(type.numpy).astype(np.float64)
    return values[np.isfinite(values)]


def nearest(exact: Fraction | float, type: DType) -> float:
    """The value of a type that is nearest to a number; of two, the one with an even code."""
    if not isfinite(exact):
        wide = np.array([exact])
        largest = float(table(type)[-1])
        return float((np.clip(wide, -largest, largest) if type in FP8 else wide)[0])
    exact = Fraction(exact)
    values = table(type)
    size = abs(exact)
    last, step = Fraction(values[-1]), Fraction(values[-1]) - Fraction(values[-2])
    if size >= last + step / 2:
        found = float(last) if type in FP8 else float("inf")
    elif size >= last:
        found = float(last)
    else:
        found = between(values, size)
    return -found if exact < 0 else found


def between(values: np.ndarray, size: Fraction) -> float:
    after = int(np.searchsorted(values, float(size), "left"))
    after = next(i for i in range(max(after - 1, 1), len(values)) if Fraction(values[i]) >= size)
    low, high = Fraction(values[after - 1]), Fraction(values[after])
    middle = (low + high) / 2
    down = size < middle or (size == middle and (after - 1) % 2 == 0)
    return float(low if down else high)


def elements(type: DType) -> st.SearchStrategy[float]:
    """Finite values of a type, small and large ones, and 0."""
    values = table(type)
    at = st.integers(0, len(values) - 1)
    return st.builds(lambda i, s: s * float(values[i]), at, st.sampled_from([1, -1]))


def apply(name: str, type: DType, *operands: Any, **attributes: Any) -> np.ndarray:
    arrays = [np.atleast_1d(np.asarray(x, np.float64)).astype(type.numpy) for x in operands]
    return make(name, **attributes).compute(*arrays)


def single(name: str, type: DType, *operands: float) -> float:
    return float(apply(name, type, *operands)[0])


def expect_equal(found: float, wanted: float) -> None:
    np.testing.assert_array_equal(found, wanted)


# Conversions


@every_narrow
@quick
@given(data=st.data())
def test_doubles_and_floats_convert_to_the_nearest(type: DType, data: st.DataObject):
    near = data.draw(elements(type))
    factor = data.draw(st.sampled_from([1.0, 1 + 2**-9, 1 - 2**-9, 1 + 2**-4, 1.0625, 1.125]))
    wide = near * factor + data.draw(st.sampled_from([0.0, 2.0**-60, -(2.0**-60), 1e-30]))
    for source in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            x = np.array([wide], source)
        found = make("convert", target_type=type).compute(x)
        expect_equal(float(found[0]), nearest(float(x[0]), type))


@every_narrow
def test_doubles_beside_a_tie_are_not_rounded_twice(type: DType):
    values = table(type)
    some = values[:: max(1, len(values) // 300)]
    following = values[1:][:: max(1, len(values) // 300)][: len(some)]
    middle = (some[: len(following)] + following) / 2
    for wide in (np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), middle):
        found = make("convert", target_type=type).compute(wide).astype(np.float64)
        np.testing.assert_array_equal(found, [nearest(float(x), type) for x in wide])


@every_narrow
@quick
@given(value=st.integers(-(2**63), 2**63 - 1), shift=st.integers(0, 62))
def test_integers_convert_to_the_nearest(type: DType, value: int, shift: int):
    for source in (np.int64, np.int32, np.uint64):
        x = (np.array([value], np.int64) >> shift).astype(source)
        found = make("convert", target_type=type).compute(x)
        expect_equal(float(found[0]), nearest(Fraction(int(x[0])), type))


@pytest.mark.parametrize("type", INTEGERS, ids=lambda t: t.name)
@quick
@given(value=st.floats(width=32))
def test_floats_convert_to_integers_by_cutting_and_saturating(type: DType, value: float):
    info = np.iinfo(type.numpy)
    wanted = 0 if np.isnan(value) else value
    wanted = int(min(max(wanted, info.min), info.max)) if isfinite(wanted) else (
        info.max if wanted > 0 else info.min
    )  # fmt: skip
    for source in (np.float32, np.float64):
        found = make("convert", target_type=type).compute(np.array([value], source))
        assert int(found[0]) == wanted


@pytest.mark.parametrize("type", FP8, ids=lambda t: t.name)
def test_fp8_saturates(type: DType):
    largest = float(table(type)[-1])
    x = np.array([1e30, -1e30, np.inf, -np.inf, largest * 1.5], np.float32)
    found = make("convert", target_type=type).compute(x).astype(np.float64)
    np.testing.assert_array_equal(found, np.array([1, -1, 1, -1, 1]) * largest)
    assert single("mul", type, largest, largest) == largest
    assert single("add", type, largest, largest) == largest
    assert apply("reduce_sum", type, [largest, largest], axes=[0])[0] == largest
    square = np.full((2, 2), largest, np.float64).astype(type.numpy)
    assert (make("dot").compute(square, square).astype(np.float64) == largest).all()


# Arithmetic

EXACT = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__,
         "div": Fraction.__truediv__}  # fmt: skip


@every_narrow
@pytest.mark.parametrize("name", EXACT)
@quick
@given(data=st.data())
def test_arithmetic_is_correctly_rounded(name: str, type: DType, data: st.DataObject):
    x, y = data.draw(elements(type)), data.draw(elements(type))
    if name == "div" and not y:
        return
    exact = EXACT[name](Fraction(x), Fraction(y))
    if 0 < abs(exact) < Fraction(2) ** -126:  # float32, in which it is done, has fewer bits there
        return
    expect_equal(single(name, type, x, y), nearest(exact, type))


@every_narrow
@pytest.mark.parametrize(
    ("name", "function"),
    [("exp", np.exp), ("tanh", np.tanh), ("sin", np.sin), ("erf", erf), ("sqrt", np.sqrt),
     ("log", np.log)],
)  # fmt: skip
@quick
@given(data=st.data())
def test_functions_round_what_float32_gives(name: str, function: Any, type: DType, data: Any):
    x = data.draw(elements(type))
    x = abs(x) if name in {"sqrt", "log"} else x
    with np.errstate(all="ignore"):
        wide = float(function(np.array([x], np.float32))[0])
    expect_equal(single(name, type, x), nearest(wide, type))


# Sums, which are kept in float32 at least


def bounds(terms: list[Fraction], type: DType) -> tuple[float, float]:
    """The values that a sum in float32 may round to: the exact one, off by one float32 rounding per term."""
    total = sum(terms, Fraction(0))
    slack = sum(map(abs, terms), Fraction(0)) * len(terms) / 2**24
    return nearest(total - slack, type), nearest(total + slack, type)


@every_narrow
@quick
@given(data=st.data())
def test_sums_are_rounded_once(type: DType, data: st.DataObject):
    xs = data.draw(st.lists(elements(type), min_size=1, max_size=40))
    low, high = bounds([Fraction(x) for x in xs], type)
    assert low <= float(apply("reduce_sum", type, xs, axes=[0])[0]) <= high
    running = apply("prefix_scan_sum", type, xs, axis=0)
    assert low <= float(running[-1]) <= high


@every_narrow
@quick
@given(data=st.data())
def test_products_of_matrices_are_rounded_once(type: DType, data: st.DataObject):
    pairs = data.draw(st.lists(st.tuples(elements(type), elements(type)), min_size=1, max_size=24))
    largest = float(np.finfo(np.float32).max)
    if sum(abs(a * b) for a, b in pairs) > largest:
        return
    low, high = bounds([Fraction(a) * Fraction(b) for a, b in pairs], type)
    a, b = (np.array(v, np.float64).astype(type.numpy) for v in zip(*pairs, strict=True))
    found = make("dot").compute(a[None, :], b[:, None])
    tiny = 2.0**-126
    assert low - tiny <= float(found[0, 0]) <= high + tiny
    weights = b[None, None, :]
    convolved = make("convolution", padding=[0], stride=[1], dilation=[1])
    assert low - tiny <= float(convolved.compute(a[None, None, :], weights)[0, 0, 0]) <= high + tiny


@pytest.mark.parametrize("type", [DType.HALF, DType.BF16], ids=lambda t: t.name)
def test_long_sums_do_not_stall(type: DType):
    ones = np.ones((1, 4096), np.float32).astype(type.numpy)
    assert float(make("reduce_sum", axes=(1,)).compute(ones)[0, 0]) == 4096
    assert float(make("reduce_mean", axes=(1,)).compute(ones)[0, 0]) == 1
    assert float(make("dot").compute(ones, ones.T)[0, 0]) == 4096
    assert float(make("softmax", axis=1).compute(ones)[0, 0]) == 2**-12


# Quantization

scales = st.sampled_from([0.05, 0.1, 0.5, 1.0, 3.0, 1e-3])


@pytest.mark.parametrize("type", [t for t in INTEGERS if t.size < 4], ids=lambda t: t.name)
@quick
@given(x=st.floats(-1e6, 1e6, width=32), scale=scales, zero=st.integers(0, 9))
def test_quantized_values_round_to_even_and_saturate(
    type: DType, x: float, scale: float, zero: int
):
    info = np.iinfo(type.numpy)
    quotient = float(np.float32(x) / np.float32(scale))
    wanted = min(max(round(quotient) + zero, info.min), info.max)
    operands = [np.array([x], np.float32), np.array([scale], np.float32)]
    point = np.array([zero], type.numpy)
    assert int(make("quantizelinear").compute(*operands, point)[0]) == wanted
    back = make("dequantizelinear").compute(np.array([wanted], type.numpy), operands[1], point)
    assert back[0] == np.float32(wanted - zero) * np.float32(scale)


@quick
@given(x=st.integers(-(2**31), 2**31 - 1), zero=st.integers(-(2**31), 2**31 - 1))
def test_wide_integers_are_dequantized_without_a_loss(x: int, zero: int):
    operands = [np.array([v], t) for v, t in ((x, np.int32), (0.1, np.float32), (zero, np.int32))]
    wanted = np.float32(np.float64(x - zero) * np.float64(np.float32(0.1)))
    assert make("dequantizelinear").compute(*operands)[0] == wanted
    large = np.array([3.0], np.float32), np.array([1.0], np.float32), np.array([zero], np.int32)
    assert make("quantizelinear").compute(*large)[0] == min(zero + 3, 2**31 - 1)


@pytest.mark.parametrize("type", FP8, ids=lambda t: t.name)
def test_fp8_quantization_rounds_and_saturates(type: DType):
    x = np.linspace(-70000, 70000, 301).astype(np.float32)
    found = make("quantizelinear", out_type=type).compute(x, np.full_like(x, 3))
    wanted = [nearest(float(v), type) for v in x / np.float32(3)]
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


def test_4_bit_packing_is_undone_by_unpacking():
    codes = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for type in (np.int8, np.uint8):
        whole = make("unpack_int4").compute(codes.view(type))
        np.testing.assert_array_equal(make("pack_int4").compute(whole), codes.view(type))
    floats = make("unpack_fp4").compute(codes)
    np.testing.assert_array_equal(make("pack_fp4").compute(floats), codes)


# Random numbers


@pytest.mark.parametrize(
    "type", [t for t in DType if t not in {DType.TUPLE, DType.FP4X2}], ids=lambda t: t.name
)
def test_random_numbers_follow_from_their_seed(type: DType):
    like, seeds = np.zeros((40, 50), type.numpy), [np.array([s], np.uint64) for s in (7, 7, 8)]
    first, again, other = [make("random_uniform").compute(seed, like) for seed in seeds]
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert first.dtype == type.numpy
    if type.is_float:
        assert (first.astype(np.float64) >= 0).all()
        assert (first.astype(np.float64) < 1).all()
        assert abs(first.astype(np.float64).mean() - 0.5) < 0.05


def test_a_program_of_random_numbers_repeats_itself():
    program = Program()
    like = program.main.add_parameter("like", Shape("float", (3, 5)))
    sums = program.main.add_parameter("sums", Shape("float", (3, 4)))
    seed = program.main.add("random_seed")
    drawn = program.main.add("random_uniform", seed, like)
    program.main.add_return(drawn, program.main.add("multinomial", sums, drawn))
    inputs = {"like": np.zeros((3, 5), np.float32),
              "sums": np.cumsum(np.ones((3, 4), np.float32), 1)}  # fmt: skip
    first, again = Interpreter(program).run(inputs), Interpreter(program).run(inputs)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    wanted = np.minimum(np.floor(first[0] * 4), 3)
    np.testing.assert_array_equal(first[1], wanted.astype(np.int32))


def test_numbers_for_a_repeated_element_differ():
    """A constant drawn for a broadcast scalar had its layout, in which all elements are one."""
    program = Program()
    seed, zero = (program.main.add_literal(a) for a in (np.uint64([5]), np.zeros((), np.float32)))
    like = program.main.add("multibroadcast", zero, out_lens=(64,))
    drawn = program.main.add("random_uniform", seed, like)
    x = program.main.add_parameter("x", Shape("float", (64,)))
    program.main.add_return(program.main.add("mul", drawn, x))
    (found,) = wb.compile(program, "cpu").run({"x": np.ones(64, np.float32)}).values()
    assert len(set(found)) == 64
