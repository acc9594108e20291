"""Reordering for memory: valid orders that never keep more alive, the same results, views and captures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.validate import validate
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.passes.memory.reorder_for_memory import ReorderForMemory, peak


def moving(program: wb.Program) -> list[wb.Instruction]:
    return [i for i in program.main if i.literal is None and i.name not in ("@param", "@return")]


def reordered(program: wb.Program) -> tuple[int, int]:
    """The peaks before and after; the program stays valid, with the same results."""
    inputs = generated_inputs(program)
    before = wb.compile(program, target="ref", record=False).run(inputs).outputs
    first = peak(program.main, moving(program))
    ReorderForMemory().run(program)
    validate(program)
    after = wb.compile(program, target="ref", record=False).run(inputs).outputs
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    return first, peak(program.main, moving(program))


@given(
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=12),
    picks=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=12),
)
@settings(max_examples=25, deadline=None)
def test_a_drawn_program_never_takes_more(widths, picks):
    b = wb.Builder()
    values = [b.input(f"x{k}", (n, 4)) for k, n in enumerate(widths)]
    for i, j in picks:
        x, y = values[i % len(values)], values[j % len(values)]
        values += [x.tanh(), x.T @ x if i % 2 else x + y.sum(axis=0)]
    found = [v for v in values[len(widths) :] if not v.instruction.is_used]
    first, then = reordered(b.program(*found))
    assert then <= first


def test_the_small_one_comes_before_two_large_ones():
    b = wb.Builder()
    big, small = b.input("big", (64, 64)), b.input("small", (2, 2))
    kept = [big + 1.0, big * 2.0]
    a = small * 3.0
    program = b.program(a, *[k.sum() for k in kept])
    first, then = reordered(program)
    assert then < 0.6 * first
    names = [i.name for i in moving(program) if i.name in ("mul", "add")]
    assert names.index("add") > 0


@pytest.mark.parametrize("name", ["small_encoder", "small_branches", "small_loop"])
def test_models_keep_their_results(name):
    first, then = reordered(parse_onnx(MODELS[name].path))
    assert then <= first


def test_the_gradient_of_a_network_can_be_reordered():
    def network(x, w):
        for _ in range(4):
            x = (x @ w).tanh()
        return (x * x).mean()

    made = wb.gradient(wb.trace(network, x=(16, 8), w=(8, 8)), wrt="w")
    first, then = reordered(made)
    assert then <= first
