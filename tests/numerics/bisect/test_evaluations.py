"""Evaluations: the values of the reference in float64, with work that was done before left out."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.programs import inputs_for, programs
from tests.models.registry import MODELS
from workbench.compiler.errors import EvaluationError, InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.bisect.evaluations import MOST_BYTES, Evaluations, digest_of


def _same(found: Sequence[object], wanted: Sequence[object]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, equal_nan=True)


@given(programs(), st.sampled_from([0, 64, MOST_BYTES]))
def test_values_are_the_references_whatever_is_kept(program: Program, most_bytes: int):
    inputs = inputs_for(program)
    shared = Evaluations(program, inputs, most_bytes)
    build = wb.compile(program, "cpu")
    for step in [s for s in build.recording if s.changed]:
        _same(shared.of(step.after).outputs, Interpreter(step.after, float64=True).run(inputs))


@pytest.mark.parametrize("name", ["small_encoder", "small_branches", "small_loop", "small_scan"])
@pytest.mark.parametrize("most_bytes", [0, MOST_BYTES])
def test_values_of_models_with_bodies_too(name: str, most_bytes: int):
    program, inputs = wb.parse_onnx(MODELS[name].path), MODELS[name].inputs()
    shared = Evaluations(program, inputs, most_bytes)
    compiled = wb.compile(program, "cpu").program
    for one in (program, compiled):
        _same(shared.of(one).outputs, Interpreter(one, float64=True).run(inputs))


def _chain(*names: str) -> Program:
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3,)))
    for name in names:
        x = program.main.add(name, x)
    program.main.add_return(x)
    return program


X = {"x": np.array([0.5, 1, 2], np.float32)}


def test_what_was_computed_is_not_computed_again():
    shared = Evaluations(_chain("tanh", "exp"), X)
    shared.of(_chain("tanh", "exp"))
    assert shared.evaluated == 2
    shared.of(_chain("tanh", "exp", "neg"))
    assert shared.evaluated == 3
    shared.of(_chain("exp", "tanh"))
    assert shared.evaluated == 5
    assert shared.runs == 3


def test_work_behind_an_equal_value_is_not_done_again():
    shared = Evaluations(_chain("abs", "exp"), X)
    shared.of(_chain("abs", "exp"))
    shared.of(_chain("relu", "exp"))  # of these elements, relu is abs
    assert shared.evaluated == 3


def test_values_that_were_dropped_are_computed_again():
    shared = Evaluations(_chain("tanh", "exp"), X, most_bytes=0)
    shared.of(_chain("tanh", "exp"))
    shared.of(_chain("tanh", "exp", "neg"))
    assert shared.evaluated == 5
    assert Evaluations(_chain("exp"), X, most_bytes=0).of(_chain("exp")).outputs[0].dtype == float


def test_attributes_that_python_calls_equal_are_told_apart():
    def power(zero: float) -> Program:
        program = Program()
        x = program.main.add_parameter("x", Shape("float", (3,)))
        leaky = program.main.add("leaky_relu", program.main.add("neg", x), alpha=zero)
        program.main.add_return(leaky)
        return program

    shared = Evaluations(power(0.0), X)
    plus, minus = (shared.of(power(zero)).outputs[0] for zero in (0.0, -0.0))
    assert np.signbit(plus).all()
    assert not np.signbit(minus).any()


def test_digests_tell_types_lens_and_bits_apart():
    values = [np.zeros(2), np.zeros((1, 2)), np.zeros(2, np.float32), -np.zeros(2), np.empty(0)]
    tuples = [(np.zeros(2),), (np.zeros(2), np.zeros(2)), ((np.zeros(2),),), ()]
    assert len({digest_of(v) for v in [*values, *tuples]}) == len(values) + len(tuples)
    nan = np.array([np.nan])
    assert digest_of(nan) == digest_of(nan.copy())


def test_buffers_are_written_in_their_own_type():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3,)))
    buffer = program.main.add("preallocate", shape=Shape("float", (3,)), id="b")
    program.main.add_return(program.main.add("copy", program.main.add("neg", x), buffer))
    shared = Evaluations(_chain("neg"), X)
    for _ in range(2):
        _same(shared.of(program).outputs, [-X["x"]])


def test_a_failing_instruction_is_named():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3,)))
    with program.source("layer/Gather"):
        got = program.main.add("gather", x, program.main.add_literal(np.int64(7)), axis=0)
    program.main.add_return(got)
    with pytest.raises(EvaluationError, match="from 'layer/Gather'") as caught:
        Evaluations(program, X).of(program)
    assert caught.value.instruction is got


def test_inputs_are_checked():
    with pytest.raises(InputError, match="'y'"):
        Evaluations(_chain("neg"), {"y": X["x"]})
