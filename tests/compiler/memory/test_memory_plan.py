"""Memory plans: buffers that are kept together do not overlap, offsets are aligned, and pictures show it."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings

import workbench as wb
from tests.compiler.mixed_programs import mixed_inputs, mixed_programs
from tests.compiler.programs import programs
from tests.models.small import SMALL, create
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.report.memory_plan import MemoryPlan, plan
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import parse


def check(made: MemoryPlan):
    for one in made.buffers:
        assert one.offset % made.alignment == 0
        for other in made.buffers[: one.index]:
            together = one.first <= other.last and other.first <= one.last
            apart = (
                one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
            )
            assert apart or not together, (one, other)
    assert max(made.live, default=0) <= made.peak <= made.total
    assert len(made.live) == len(made.steps)


@given(programs())
@settings(max_examples=150, deadline=None)
def test_plans_of_random_programs(program: Program):
    check(plan(program))


@given(mixed_programs())
@settings(max_examples=60, deadline=None)
def test_plans_of_mixed_programs(program: Program):
    check(plan(program))


@pytest.fixture(scope="module", params=sorted(SMALL))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Each of the small models, with a length of 2 where it leaves one open."""
    path = tmp_path_factory.mktemp("models") / f"{request.param}.onnx"
    create(request.param, path)
    return wb.parse_onnx(path, default_dim_value=2)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_plans_of_models(model: Program, target: str):
    check(plan(wb.compile(model, target).program))


CHAIN = """module: "main"
x = @param:x -> float_type, {8, 8}, {8, 1}
w = @literal{ ... } -> float_type, {8, 8}, {8, 1}
a = dot(x,w) -> float_type, {8, 8}, {8, 1}
b = exp(a) -> float_type, {8, 8}, {8, 1}
t = transpose[permutation={1, 0}](a) -> float_type, {8, 8}, {1, 8}
c = neg(b) -> float_type, {8, 8}, {8, 1}
d = dot(t,c) -> float_type, {8, 8}, {8, 1}
r = @return(d)
"""


def test_a_plan_says_what_is_kept_when():
    made = plan(parse(CHAIN, fill_seed=0))
    assert [(b.op, b.bytes, b.first, b.last) for b in made.buffers] == [
        ("dot", 256, 2, 6),
        ("exp", 256, 3, 5),
        ("neg", 256, 5, 6),
        ("dot", 256, 6, 7),
    ]
    assert made.live == (0, 0, 256, 512, 512, 768, 768, 256)
    assert (made.peak, made.total, made.busiest) == (768, 1024, 5)
    assert repr(made) == "<MemoryPlan of 4 buffers: 768 bytes, 1,024 without sharing>"


def test_the_table_names_instructions_and_sources():
    program = parse(CHAIN, fill_seed=0)
    program.outputs[0].sources = ("/layer/MatMul",)
    table = plan(program).table()
    assert list(table["instruction"]) == ["@2", "@3", "@5", "@6"]
    assert list(table["source nodes"]) == ["", "", "", "/layer/MatMul"]
    bundle = plan(program)._repr_mimebundle_()
    assert "/layer/MatMul" in bundle["text/html"]
    assert "&lt;MemoryPlan" in bundle["text/html"]


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_the_plot_shows_buffers_and_names_the_peak(style: str):
    with plt.style.context(style):
        made = plan(parse(CHAIN, fill_seed=0))
        ax = made.plot()
        assert len(ax.patches) == 4
        assert {p.get_y() for p in ax.patches} == {b.offset for b in made.buffers}
        assert ax.get_title() == "4 buffers share 768 of 1024 bytes"
        texts = [t.get_text() for t in ax.texts]
        assert "@5 neg: 768 bytes" in texts
        assert ax.get_lines()[0].get_color() == plt.rcParams["text.color"]
        plt.close("all")


def test_a_program_without_values_has_an_empty_plan():
    made = plan(parse('module: "main"\nx = @param:x -> float_type, {2}, {1}\n'))
    assert (made.buffers, made.peak, made.total, made.live) == ((), 0, 0, (0,))
    assert not made.plot().patches
    assert made.table().empty
    plt.close("all")


def test_ranges_count_at_their_largest_and_need_one():
    text = 'module: "main"\nx = @param:x -> dynamic, float_type, {%s, 3}\ny = exp(x)'
    text += " -> dynamic, float_type, {%s, 3}\n"
    assert plan(parse(text % ("[1..4]", "[1..4]"))).peak == 48
    with pytest.raises(OperationError, match="no maximum"):
        plan(parse(text % (Dim(0, (1 << 64) - 1), Dim(0, (1 << 64) - 1))))


# Passes on allocations, run with real memory: what overlaps wrongly gives wrong numbers


BACKENDS = [
    ["memory_coloring"],
    ["eliminate_allocation"],
    ["replace_allocate", "memory_coloring", "preallocate_param"],
    ["eliminate_concat", "adjust_allocation", "replace_allocate", "schedule", "memory_coloring"],
    ["schedule", "eliminate_concat", "promote_literals", "memory_coloring"],
]


def expect_same(program: Program, passes: list[str], inputs: dict[str, Any] | None = None):
    inputs = generated_inputs(program, 3) if inputs is None else inputs
    before = run(program, inputs)
    lowered = program.clone()
    for name in ["lowering", *passes]:
        run_pass(pass_named(name), lowered)
    random = np.random.default_rng(0)
    noise = {  # what is in memory at first must not matter
        name: random.integers(-99, 99, shape.lens).astype(shape.type.numpy)
        for name, shape in lowered.parameters.items()
    }
    given = {name: inputs.get(name, value) for name, value in noise.items()}
    for one, other in zip(before, run(lowered, given), strict=True):
        np.testing.assert_array_equal(comparable(one), comparable(other), err_msg=str(lowered))


def comparable(x: np.ndarray) -> np.ndarray:
    """Narrow floats in a type whose NaN are equal for NumPy."""
    return x.astype(np.float64) if DType.of(x.dtype).is_narrow_float else x


@pytest.mark.parametrize("passes", BACKENDS, ids="-".join)
@given(program=programs())
@settings(max_examples=40, deadline=None)
def test_random_programs_run_in_shared_memory(passes: list[str], program: Program):
    expect_same(program, passes)


@pytest.mark.parametrize("passes", BACKENDS, ids="-".join)
@given(program=mixed_programs())
@settings(max_examples=25, deadline=None)
def test_mixed_programs_run_in_shared_memory(passes: list[str], program: Program):
    expect_same(program, passes, mixed_inputs(program))


@pytest.mark.parametrize("passes", BACKENDS, ids="-".join)
@pytest.mark.parametrize("pipeline", ["ref", "optimize"])
def test_models_run_in_shared_memory(model: Program, pipeline: str, passes: list[str]):
    program = model.clone()
    run_pass(PIPELINES[pipeline], program)
    expect_same(program, passes)
