"""Programs of slices and concats: what is done on every part is done on the whole, with the same values."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.passes.test_rules import differing
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import to_text

UNARY = ("relu", "neg", "abs")


def cut(main: Module, x: Instruction, axis: int, bounds: list[int]) -> list[Instruction]:
    pairs = pairwise(bounds)
    return [main.add("slice", x, axes=(axis,), starts=(a,), ends=(b,)) for a, b in pairs]


def constant(draw, main: Module, lens: tuple[int, ...]) -> Instruction:
    """A literal, or one that is laid along these lens."""
    axis = draw(st.integers(0, len(lens) - 1))
    kind = draw(st.sampled_from(["full", "ones", "axis"]))
    held = {"full": lens, "ones": [n if i == axis else 1 for i, n in enumerate(lens)]}
    array = np.arange(1, 1 + np.prod(held.get(kind, lens[axis])), dtype=np.float32)
    if kind == "axis":
        return main.add("broadcast", main.add_literal(array), axis=axis, out_lens=lens)
    literal = main.add_literal(array.reshape(held[kind]))
    return literal if kind == "full" else main.add("multibroadcast", literal, out_lens=lens)


def work(draw, main: Module, x: Instruction, kind: str, order: list[int]) -> Instruction:
    lens = x.shape.lens
    if kind == "constant":
        operands = (x, constant(draw, main, lens))
        return main.add("sub", *(operands if draw(st.booleans()) else operands[::-1]))
    if kind == "reduce":
        return main.add("reduce_max", x, axes=(order[0],))
    if kind == "transpose":
        return main.add("transpose", x, permutation=order)
    if kind == "reshape":
        return main.add("reshape", main.add("contiguous", x), dims=(lens[0], -1))
    return main.add(kind, x)


@st.composite
def programs(draw) -> Program:
    """Values that are cut into parts, worked on part by part, and joined again, perhaps in another order."""
    program = Program()
    main = program.main
    values = [main.add_parameter("x", Shape("float", draw(st.sampled_from([(2, 6, 4), (4, 6)]))))]
    for _ in range(draw(st.integers(1, 3))):
        x = values[-1]
        axis = draw(st.integers(0, x.shape.ndim - 1))
        n = x.shape.lens[axis]
        inner = draw(st.lists(st.integers(1, max(1, n - 1)), max_size=3, unique=True))
        bounds = sorted({0, n, *inner} if n > 1 else {0, 1})
        order = draw(st.permutations(range(x.shape.ndim)))
        kind = draw(st.sampled_from([*UNARY, "constant", "reduce", "transpose", "reshape"]))
        parts = [work(draw, main, p, kind, order) for p in cut(main, x, axis, bounds)]
        values.append(draw(st.sampled_from(parts)))
        joined = draw(st.permutations(parts)) if draw(st.booleans()) else parts
        along = draw(st.integers(0, joined[0].shape.ndim - 1))
        if len({p.shape.lens[:along] + p.shape.lens[along + 1 :] for p in joined}) == 1:
            values.append(main.add("concat", *joined, axis=along))
    main.add_return(*values[1:])
    return program


@pytest.mark.parametrize("name", ["simplify_algebra", "simplify_reshapes"])
@given(programs())
def test_values_stay_and_the_rules_rest(name: str, program: Program):
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)
    run_pass(pass_named(name), program)
    validate(program)
    for one, other in zip(before, run(program, inputs), strict=True):
        assert differing(one, other) < 1e-5
    text = to_text(program)
    run_pass(pass_named(name), program)
    assert to_text(program) == text


def test_a_gather_beyond_the_end_stays():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (4,)))
    program.main.add("gather", x, program.main.add_literal(np.array([1, 4])), axis=0)
    with Recording(program) as recording:
        run_pass(pass_named("simplify_reshapes", enable_gather_rewrite=True), program)
    assert [m.reason for m in recording.near_misses()] == [
        "an index is out of the range of axis 0, 4"
    ]
