"""Gradients of chains of a few smooth operations, by differences; and each pipeline keeps them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.gradients.differences import check_gradient
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import Interpreter

EXAMPLES = max(60, settings.default.max_examples if settings.default else 0)
Link = Callable[[Value, Callable[[int], int]], Value]
"""The next value of a chain; the function draws a number below another."""


def _with(x: Value, pick: Callable[[int], int]) -> Value:
    """A product or a difference with part of itself, broadcast."""
    part = x[:, pick(x.shape[1])].reshape(x.shape[0], 1)
    return x * part if pick(2) else part - x


def _convolved(x: Value, pick: Callable[[int], int]) -> Value:
    weights = np.random.default_rng(1).standard_normal((2, 1, 2)) * 0.5
    image = x.reshape(1, 1, -1)
    made = image.convolution(weights, paddings=(1,), strides=(pick(2) + 1,), dilations=(1,))
    return made.reshape(2, -1)


LINKS: dict[str, Link] = {
    "sin": lambda x, _: x.sin(),
    "tanh": lambda x, _: x.tanh(),
    "sigmoid": lambda x, _: x.sigmoid() * 2.0,
    "softmax": lambda x, pick: x.softmax(axis=pick(2)) * 3.0,
    "square root": lambda x, _: (x * x + 1.0).sqrt(),
    "itself": _with,
    "product": lambda x, _: (x @ x.T) @ x * 0.2,
    "transpose": lambda x, _: x.T,
    "reshape": lambda x, _: x.reshape(x.shape[1], x.shape[0]),
    "norm": lambda x, _: x / ((x * x).mean(1, keepdims=True) + 1.0).sqrt(),
    "sum": lambda x, pick: x - x.sum(pick(2), keepdims=True),
    "join": lambda x, pick: x.concat(x.reverse(axes=[pick(2)]), axis=pick(2))[:4, :4],
    "slice": lambda x, _: x[:, max(x.shape[1] - 3, 0) :] if x.shape[1] > 1 else x,
    "gather": lambda x, pick: x.gather(np.array([0, -1, 0]), axis=pick(2)),
    "pad": lambda x, pick: x.pad(pads=(0, pick(2), 0, 0))[:, :4],
    "scan": lambda x, pick: x.prefix_scan_sum(axis=pick(2), exclusive=bool(pick(2))),
    "convolution": _convolved,
}


@st.composite
def chains(draw: st.DrawFn) -> Program:
    pick = lambda n: draw(st.integers(0, n - 1))  # noqa: E731
    b = wb.Builder()
    x = b.input("x", (2, 3), "double")
    made = [x * b.input("w", (2, 3), "double")]
    for _ in range(pick(5) + 1):
        made.append(LINKS[draw(st.sampled_from(sorted(LINKS)))](made[-1], pick))
    return b.program(made[-1], *([made[pick(len(made))]] if pick(2) else []))


def inputs_of(program: Program) -> dict[str, Any]:
    random = np.random.default_rng(2)
    return {n: random.uniform(-1.5, 1.5, s.lens) for n, s in program.parameters.items()}


@settings(max_examples=EXAMPLES)
@given(chains())
def test_chains(program: Program):
    check_gradient(program, inputs_of(program))


@settings(max_examples=EXAMPLES // 3)
@given(chains())
def test_pipelines_keep_gradients(program: Program):
    made = wb.gradient(program)
    inputs = inputs_of(made)
    wanted = Interpreter(made).run(inputs)
    for name in ("optimize", "gpu"):
        work = made.clone()
        PIPELINES[name].run(work)
        for a, b in zip(Interpreter(work).run(inputs), wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-6, 1e-9, err_msg=name)
