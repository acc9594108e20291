"""Bounds on what rules and folding add to a program: what would double at every level stays as it is."""

from collections.abc import Callable

import numpy as np
import pytest

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import all_passes
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.passes.tidy import propagate_constant
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import Rewriter, drive, op, rule, worklist
from workbench.compiler.run.reference import run

LEVELS = 31
LENS = (1, 4, 4, 4)
Level = Callable[[Module, Instruction], Instruction]


def cut(m: Module, x: Instruction, start: int) -> Instruction:
    return m.add("slice", x, axes=(1,), starts=(start,), ends=(start + 4,))


def weights(m: Module, channels: int) -> Instruction:
    return m.add_literal(np.full((4, channels, 1, 1), 0.1, np.float32))


def joined(m: Module, x: Instruction) -> Instruction:
    return m.add("concat", x, x, axis=1)


def joined_work(m: Module, x: Instruction) -> Instruction:
    return cut(m, m.add("concat", *[m.add("relu", m.add("neg", x))] * 2, axis=1), 2)


def joined_convolution(m: Module, x: Instruction) -> Instruction:
    return m.add("convolution", joined(m, x), weights(m, 8))


def added_convolution(m: Module, x: Instruction) -> Instruction:
    done = m.add("convolution", x, weights(m, 4))
    return m.add("add", done, done)


def turned(m: Module, x: Instruction) -> Instruction:
    return m.add("add", m.add("transpose", x, permutation=(0, 1, 3, 2)), x)


def reduced(m: Module, x: Instruction) -> Instruction:
    total = m.add("reduce_sum", x, axes=(3,))
    return m.add("add", x, m.add("multibroadcast", total, out_lens=LENS))


def attended(m: Module, x: Instruction) -> Instruction:
    return m.add("dot", m.add("softmax", x, axis=3), x)


def doubled(m: Module, x: Instruction) -> Instruction:
    return m.add("add", x, x)


def chain(level: Level, levels: int = LEVELS) -> Program:
    program = Program()
    value = program.main.add_parameter("x", Shape(DType.FLOAT, LENS))
    for _ in range(levels):
        value = level(program.main, value)
    program.main.add_return(value)
    return program


def size(program: Program) -> int:
    return sum(1 + len(i.inputs) for m in program.modules.values() for i in m)


def elements(program: Program) -> int:
    return sum(i.shape.elements for m in program.modules.values() for i in m if i.shape.is_tensor)


@pytest.mark.parametrize("pipeline", ["optimize", "gpu"])
@pytest.mark.parametrize(
    "level",
    [
        joined_work,
        joined_convolution,
        added_convolution,
        turned,
        reduced,
        attended,
        doubled,
    ],
)
def test_a_value_that_is_used_twice_at_every_level_doubles_nothing(level: Level, pipeline: str):
    program = chain(level)
    before = size(program), elements(program)
    PIPELINES[pipeline].apply(program)
    assert size(program) <= 10 * before[0]
    assert elements(program) <= 8 * before[1]


@pytest.mark.parametrize("pipeline", ["optimize", "gpu"])
def test_concats_of_a_value_with_itself_stay_as_they_are(pipeline: str):
    program = chain(joined)
    before = size(program)
    PIPELINES[pipeline].apply(program)
    assert size(program) <= before


def test_what_is_left_as_it_is_keeps_its_value():
    program = chain(joined_work, 3)
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(LENS)
    (before,) = run(program, {"x": x})
    PIPELINES["optimize"].apply(program)
    np.testing.assert_array_equal(run(program, {"x": x})[0], before)


@rule(op("neg", name="root"))
def double_neg(b: Rewriter, root: Instruction) -> Instruction:
    """neg(x) → neg(neg(neg(x)))"""
    x = root.inputs[0]
    return b("neg", b("neg", b("neg", x)))


def test_rules_that_grow_without_end_are_stopped_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worklist, "MAX_GROWTH", 100)
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (2,)))
    program.main.add_return(program.main.add("neg", x))
    with Recording(program) as recording:
        drive(program, (double_neg,))
    assert 100 < size(program) < 120
    missed = recording.near_misses()
    assert missed
    assert all("grow to" in m.reason and "stays as it is" in m.reason for m in missed)


def test_a_network_of_very_many_steps_is_not_unrolled():
    program = Program()
    shapes = ((1 << 20, 1, 1), (1, 1, 1), (1, 1, 1))
    x, w, r = (
        program.main.add_parameter(n, Shape(DType.FLOAT, s))
        for n, s in zip("xwr", shapes, strict=True)
    )
    program.main.add_return(program.main.add("rnn", x, w, r, hidden_size=1))
    recording = all_passes()["rewrite_rnn"]().run(program)
    assert not recording[0].edits
    assert "1048576 steps" in recording.near_misses()[0].reason


# Folding


def literal_bytes(program: Program) -> int:
    return sum(i.literal.shape.bytes for i in program.main if i.literal)


def constants(*counts: int) -> Program:
    """A sum of concats of a constant with itself, one for each number of levels."""
    program = Program()
    results: list[Instruction] = []
    for start, count in enumerate(counts):
        value = program.main.add_literal(np.full(16, start + 1, np.float32))
        for _ in range(count):
            value = program.main.add("concat", value, value, axis=0)
        results.append(program.main.add("reduce_sum", value, axes=(0,)))
    program.main.add_return(*results)
    return program


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A bound that small programs reach."""
    monkeypatch.setattr(propagate_constant, "FREE_BYTES", 1 << 12)
    return 1 << 12


def test_concats_of_constants_are_folded_up_to_a_bound(small: int):
    program = constants(24)
    before = literal_bytes(program)
    with Recording(program) as recording:
        PIPELINES["optimize"].apply(program)
    assert before < literal_bytes(program) <= small + 8 * before
    (missed, *_) = [m for m in recording.near_misses() if m.rule == "fold"]
    assert "take more than" in missed.reason
    assert "64 before any were folded" in missed.reason


def test_the_bound_is_on_all_folds_of_a_program_together(small: int):
    program = Program()
    one = program.main.add_literal(np.ones((1, 1), np.float32))
    for n in range(2, 200):  # each is small by itself
        wide = program.main.add("multibroadcast", one, out_lens=(n, 8))
        program.main.add("neg", wide)
    program.main.add_return(*[i for i in program.main if i.name == "neg"])
    PIPELINES["optimize"].apply(program)
    for _ in range(3):  # what was folded gives no room for more
        PIPELINES["optimize"].apply(program)
    assert literal_bytes(program) <= small + 8 * 4


@pytest.mark.usefixtures("small")
def test_what_shrinks_is_folded_wherever_it_fits():
    program = constants(6, 6, 6, 24)
    all_passes()["propagate_constant"]().run(program)
    values = program.main.outputs
    assert [v.literal is not None for v in values] == [True, True, True, False]


@pytest.mark.usefixtures("small")
def test_large_weights_are_turned_and_widened():
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (4, 64)))
    w = program.main.add_literal(np.ones((64, 64), np.int8))
    wide = program.main.add("convert", w, target_type=int(DType.FLOAT))
    turned = program.main.add("transpose", wide, permutation=(1, 0))
    program.main.add_return(program.main.add("dot", x, program.main.add("neg", turned)))
    PIPELINES["optimize"].apply(program)
    assert [i.name for i in program.main] == ["@literal", "@param", "dot", "@return"]


# Work that meets itself again through chains of transforms


def outer_product(m: Module, x: Instruction) -> list[Instruction]:
    """The products of each pair of sums; both operands lead to the same reduction."""
    total = m.add("reduce_sum", m.add("tanh", x), axes=(2,))
    sides = [
        m.add("multibroadcast", m.add("transpose", total, permutation=order), out_lens=(3, 3, 2))
        for order in ((2, 0, 1), (0, 2, 1))
    ]
    product = m.add("mul", *sides)
    return [
        m.add("reduce_sum", product, axes=(1,)),
        m.add("transpose", product, permutation=(2, 1, 0)),
    ]


def sums_of_places(m: Module, x: Instruction) -> list[Instruction]:
    """Elementwise work between a vector and sums of it, each a scalar that is broadcast."""
    place = m.add(
        "squeeze", m.add("argmin", m.add("reduce_max", x, axes=(2,)), axis=0), axes=(0, 2)
    )

    def total(y: Instruction) -> Instruction:
        scalar = m.add("squeeze", m.add("reduce_sum", y, axes=(0,)), axes=(0,))
        return m.add("multibroadcast", scalar, out_lens=place.shape.lens)

    first = total(place)
    second = total(m.add("min", first, m.add("mul", first, place)))
    return [m.add("max", second, place)]


@pytest.mark.parametrize("made", [outer_product, sums_of_places])
def test_work_that_meets_itself_comes_to_rest(
    made: Callable[[Module, Instruction], list[Instruction]],
):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3, 2, 3)))
    program.main.add_return(*made(program.main, x))
    work = program.clone()
    with Recording(work) as recording:
        PIPELINES["gpu"].apply(work)
    assert sum(len(s.edits) for s in recording) < 60
    assert max(i.shape.ndim for i in work.instructions) <= 9
    array = np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 2, 3)
    for one, other in zip(run(program, {"x": array}), run(work, {"x": array}), strict=True):
        np.testing.assert_allclose(one, other, 1e-5)
