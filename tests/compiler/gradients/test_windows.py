"""Gradients of convolutions and poolings with drawn strides, dilations, paddings and groups."""

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.gradients.differences import check_gradient
from tests.compiler.ops.test_contractions import windows
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.run.reference import Interpreter

EXAMPLES = max(40, settings.default.max_examples if settings.default else 0)


def check(op: Operation, *operands: np.ndarray) -> None:
    program, inputs = Program(), {f"x{k}": x for k, x in enumerate(operands)}
    found = [program.main.add_parameter(n, wb.Argument.of(x).shape) for n, x in inputs.items()]
    program.main.add_return(program.main.add(op, *found))
    check_gradient(program, inputs)


def noise(*lens: int) -> np.ndarray:
    return np.random.default_rng(sum(lens)).standard_normal(lens)


def fits(w: dict[str, Any]) -> bool:
    spans = [(k - 1) * d + 1 for k, d in zip(w["size"], w["dilation"], strict=True)]
    sides = zip(w["lens"], w["begin"], w["end"], spans, strict=True)
    return all(n + b + e >= k for n, b, e, k in sides)


@settings(max_examples=EXAMPLES)
@given(windows(), st.sampled_from([(1, 1, 1), (1, 3, 2), (2, 2, 1), (3, 1, 2)]), st.integers(1, 2))
def test_convolution(w: dict[str, Any], groups: tuple[int, int, int], batch: int):
    assume(fits(w))
    group, channels, each = groups
    places = {"stride": w["stride"], "dilation": w["dilation"], "group": group}
    op = make("convolution", padding=w["begin"] + w["end"], **places)
    weights = noise(group * each, channels, *w["size"])
    check(op, noise(batch, group * channels, *w["lens"]), weights)


@settings(max_examples=EXAMPLES)
@given(windows(), st.sampled_from([(1, 1, 1), (1, 3, 2), (2, 2, 1), (3, 1, 2)]))
def test_convolution_backwards(w: dict[str, Any], groups: tuple[int, int, int]):
    group, channels, each = groups
    reach = zip(w["lens"], w["size"], w["begin"], w["stride"], w["dilation"], strict=True)
    assume(all(s * (n - 1) + (k - 1) * d + 1 > 2 * p for n, k, p, s, d in reach))
    places = {"stride": w["stride"], "dilation": w["dilation"], "group": group}
    op = make("convolution_backwards", padding=w["begin"], **places)
    weights = noise(group * each, channels, *w["size"])
    check(op, noise(2, group * each, *w["lens"]), weights)


@settings(max_examples=EXAMPLES)
@given(windows(), st.sampled_from(PoolingMode), st.booleans(), st.booleans(), st.integers(1, 3))
def test_pooling(
    w: dict[str, Any], mode: PoolingMode, ceil_mode: bool, count_include_pad: bool, lp_order: int
):
    assume(fits(w))
    op = make(
        "pooling", mode=mode, lengths=w["size"], padding=w["begin"] + w["end"], stride=w["stride"],
        dilations=w["dilation"], ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        lp_order=lp_order,
    )  # fmt: skip
    x = noise(2, 2, *w["lens"])
    assume(np.isfinite(op.compute(x)).all())  # windows of padding alone have the maximum -inf
    check(op, x)


def test_a_maximum_of_padding_alone_has_gradient_0():
    b = wb.Builder()
    x = b.input("x", (1, 1, 3), "double")
    window = {"lengths": (1,), "padding": (1,), "stride": (1,), "dilations": (1,)}
    made = wb.gradient(b.program(x.pooling(mode=PoolingMode.MAX, **window)))
    given = {"x": noise(1, 1, 3), "grad_output0": np.arange(1.0, 6.0).reshape(1, 1, 5)}
    np.testing.assert_array_equal(Interpreter(made).run(given)[1], [[[2, 3, 4]]])
