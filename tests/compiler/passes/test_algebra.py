"""Algebraic simplification where single samples do not say enough."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.passes.test_rules import differing
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run


def operand(draw: st.DrawFn, program: Program, lens: tuple[int, ...]) -> Instruction:
    """A parameter, broadcast to `lens` in one way or another, perhaps twice."""
    first = draw(st.integers(0, len(lens) - 1))
    own, name = lens[first:], f"p{len(program.parameters)}"
    if draw(st.booleans()):
        own = own[: draw(st.integers(1, len(own)))]
        value = program.main.add_parameter(name, Shape("float", own))
        return program.main.add("broadcast", value, axis=first, out_lens=lens)
    inner = tuple(draw(st.sampled_from((1, n))) for n in own)
    value = program.main.add_parameter(name, Shape("float", inner))
    if draw(st.booleans()):
        value = program.main.add("multibroadcast", value, out_lens=own)
    return program.main.add("multibroadcast", value, out_lens=lens)


@st.composite
def sums_of_broadcasts(draw: st.DrawFn) -> Program:
    """Sums, differences and bounds of values that are broadcast to common lens."""
    program = Program()
    lens = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 3)), min_size=1, max_size=4)))
    values = [operand(draw, program, lens) for _ in range(draw(st.integers(2, 4)))]
    for _ in range(draw(st.integers(1, 5))):
        name, count = draw(st.sampled_from((("add", 2), ("sub", 2), ("clip", 3), ("neg", 1))))
        chosen = [draw(st.sampled_from(values)) for _ in range(count)]
        values.append(program.main.add(name, *chosen))
    program.main.add_return(values[-1])
    run_pass(pass_named("dead_code_elimination"), program)
    return program


@given(sums_of_broadcasts())
def test_broadcast_operands_keep_their_values(program: Program):
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)
    run_pass(pass_named("simplify_algebra"), program)
    validate(program)
    for one, other in zip(before, run(program, inputs), strict=True):
        assert differing(one, other) < 1e-5, program
    with Recording(program) as recording:
        run_pass(pass_named("simplify_algebra"), program)
    assert [e.rule for s in recording.steps for e in s.edits] == []


def test_a_joined_dot_comes_from_all_that_it_stands_for():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 4)))
    dots: list[Instruction] = []
    for name in ("query", "key"):
        with program.source(name):
            weights = program.main.add_literal(np.ones((4, 3), np.float32))
            dots.append(program.main.add("dot", x, weights))
    program.main.add_return(*dots)
    run_pass(pass_named("simplify_algebra"), program)
    made = [i for i in program.main if i.name in ("concat", "dot", "slice")]
    assert [i.name for i in made] == ["concat", "dot", "slice", "slice"]
    assert all(set(i.sources) == {"query", "key"} for i in made)


def test_constants_move_before_the_input_only_where_their_users_allow():
    program = Program()
    a = program.main.add_literal(np.ones((4, 4), np.float32))
    b = program.main.add_literal(np.ones((4, 3), np.float32))
    p = program.main.add_parameter("p", Shape("float", (2, 4)))
    x = program.main.add("relu", program.main.add("dot", p, a))
    later = program.main.add("dot", a, b)
    program.main.add_return(program.main.add("dot", x, b), program.main.add("dot", x, later))
    run_pass(pass_named("simplify_algebra"), program)
    validate(program)
    names = [i.name for i in program.main if i.literal is None]
    assert names == ["@param", "dot", "dot", "concat", "relu", "dot", "slice", "slice", "@return"]


def test_work_in_common_dimensions_comes_from_its_own_nodes():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 6, 4)))
    z = program.main.add_parameter("z", Shape("float", (4, 2, 6)))
    with program.source("first"):
        first = program.main.add("tanh", x)
    with program.source("second"):
        there = program.main.add("transpose", first, permutation=(2, 0, 1))
        program.main.add_return(program.main.add("add", z, there))
    run_pass(pass_named("simplify_reshapes", enable_op_shape_transform_op=True), program)
    names = [i.name for i in program.main if i.parameter is None]
    assert names == ["transpose", "tanh", "add", "@return"]
    made = {i.name: i.sources for i in program.main if i.name in ("tanh", "add")}
    assert made == {"tanh": ("first",), "add": ("second",)}
