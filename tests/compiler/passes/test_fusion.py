"""Fusion: one kernel where one is enough, the same values bit for bit, and every id kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.written_programs import FUSED
from workbench.compiler.builds.build import compile
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.fuse.fuse_pointwise import FusePointwise
from workbench.compiler.passes.fuse.fuse_reduce import FuseReduce
from workbench.compiler.passes.fuse.kernels.pairs import LARGEST_BODY
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite.bodies import Body, parameter_name
from workbench.compiler.run.reference import run

LENS = (2, 3, 4)


class Builder:
    """Writes programs over floats of lens {2, 3, 4}."""

    def __init__(self) -> None:
        self.program = Program()
        self.main = self.program.main

    def parameter(self, name: str, lens: tuple[int, ...] = LENS) -> Instruction:
        return self.main.add_parameter(name, Shape("float", lens))

    def __call__(self, op: str, *inputs: Instruction, **attributes) -> Instruction:
        return self.main.add(op, *inputs, **attributes)

    def constant(self, value, lens: tuple[int, ...] = LENS) -> Instruction:
        return self.spread(self.main.add_literal(np.array(value, np.float32).reshape(-1)), lens)

    def spread(self, x: Instruction, lens: tuple[int, ...] = LENS) -> Instruction:
        return self("multibroadcast", x, out_lens=lens)

    def mean(self, x: Instruction) -> Instruction:
        return self("reduce_mean", x, axes=(2,))

    def finish(self, *results: Instruction) -> Program:
        self.main.add_return(*results)
        return self.program


def kernels(program: Program) -> list[str]:
    return [i.name for i in program.main if i.name in ("pointwise", "fused_reduce")]


def inputs_of(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        n: random.uniform(-3, 3, s.lens).astype(s.type.numpy) for n, s in program.parameters.items()
    }


def check(program: Program, *passes) -> None:
    """The passes change no result, in float32 and in float64, and keep every computing instruction."""
    inputs = inputs_of(program)
    before = [run(program, inputs, float64=wide) for wide in (False, True)]
    DeadCodeElimination().apply(program)
    ids = {i.id for i in program.main if i.op.pointwise or i.name.startswith("reduce_")}
    for one in passes:
        one.apply(program)
        validate(program)
    assert {i for i in ids if program.find(i) is None} == set()
    for wide in (False, True):
        for a, b in zip(before[wide], run(program, inputs, float64=wide), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.fixture
def b() -> Builder:
    return Builder()


# The printed form


def test_it_prints_as_migraphx_does(b: Builder):
    b.program.newest_first = True
    x, y, z = (b.parameter(n, (2, 3)) for n in "xyz")
    program = b.finish(b("add", b("add", x, y), z))
    FusePointwise().apply(program)
    assert str(program).rstrip() == FUSED.rstrip()


def test_names_of_reduce_bodies_join(b: Builder):
    x, y = b.parameter("x"), b.parameter("y")
    program = b.finish(b("reduce_sum", b("mul", x, y), axes=(2,)))
    check(program, FusePointwise(), FuseReduce())
    (fused,) = [i for i in program.main if i.name == "fused_reduce"]
    assert fused.modules[0].name == "main:pointwise0:main:reduce_sum0"
    assert [i.name for i in fused.modules[0]] == [
        "@param",
        "@param",
        "pointwise",
        "reduce_sum",
        "@return",
    ]


def test_names_after_both_sides_join(b: Builder):
    x = b.parameter("x")
    centred = b("sub", x, b.spread(b("reduce_sum", x, axes=(2,))))
    program = b.finish(b("sqrt", b("reduce_sum", centred, axes=(2,))))
    check(program, FusePointwise(), FuseReduce())
    (fused,) = [i for i in program.main if i.name == "fused_reduce"]
    parts = fused.modules[0].name.replace("main:", "").split(":")
    assert sorted(parts) == ["pointwise0", "pointwise1", "reduce_sum0", "reduce_sum1"]


# What becomes one kernel


def test_gelu_is_one_kernel(b: Builder):
    x = b("add", b.parameter("x"), b.spread(b.parameter("bias", (4,))))
    inner = b("add", b("erf", b("div", x, b.constant(1.4142135))), b.constant(1))
    program = b.finish(b("mul", b("mul", x, inner), b.constant(0.5)))
    check(program, FusePointwise())
    assert kernels(program) == ["pointwise"]
    assert sum(i.literal is not None for i in program.main) == 0


def layer_norm(b: Builder, x: Instruction) -> Instruction:
    centred = b("sub", x, b.spread(b.mean(x)))
    variance = b.mean(b("mul", centred, centred))
    scale = b("rsqrt", b("add", variance, b.constant(1e-5, (2, 3, 1))))
    normal = b("mul", centred, b.spread(scale))
    return b("add", b("mul", normal, b.constant([1, 2, 3, 4])), b.constant([4, 3, 2, 1]))


def test_layer_norm_is_one_kernel(b: Builder):
    program = b.finish(layer_norm(b, b("add", b.parameter("x"), b.parameter("residual"))))
    check(program, FusePointwise(), FuseReduce())
    assert kernels(program) == ["fused_reduce"]


def test_softmax_by_parts_is_one_kernel(b: Builder):
    x = b("mul", b.parameter("x"), b.constant(0.125))
    e = b("exp", b("sub", x, b.spread(b("reduce_max", x, axes=(2,)))))
    program = b.finish(b("div", e, b.spread(b("reduce_sum", e, axes=(2,)))))
    check(program, FusePointwise(), FuseReduce())
    assert kernels(program) == ["fused_reduce"]


def test_scaling_behind_a_transpose_joins_the_bias(b: Builder):
    x = b("add", b.parameter("x"), b.spread(b.parameter("bias", (4,))))
    heads = b("transpose", b("reshape", x, dims=(2, 3, 2, 2)), permutation=(0, 2, 1, 3))
    program = b.finish(b("mul", heads, b.constant(0.5, (2, 2, 3, 2))))
    check(program, FusePointwise())
    assert kernels(program) == ["pointwise"]


def test_without_rewrite_reshapes_it_does_not(b: Builder):
    x = b("neg", b.parameter("x"))
    program = b.finish(b("exp", b("reshape", x, dims=(24,))))
    FusePointwise(enable_rewrite_reshapes=False).apply(program)
    assert kernels(program) == ["pointwise", "pointwise"]


def test_two_operands_across_a_reshape(b: Builder):
    x = b("add", b.parameter("x"), b.spread(b.parameter("bias", (4,))))
    program = b.finish(b("mul", b("reshape", x, dims=(6, 4)), b.parameter("y", (6, 4))))
    check(program, FusePointwise())
    assert kernels(program) == ["pointwise"]


def test_rewrite_broadcasts(b: Builder):
    x = b("sigmoid", b.parameter("x", (4,)))
    program = b.finish(b("mul", b.spread(x), b.parameter("y")))
    check(program, FusePointwise(enable_rewrite_broadcasts=True))
    assert kernels(program) == ["pointwise"]


def test_more_than_ten_parameters_keep_their_order(b: Builder):
    total = b.parameter("p0")
    for i in range(1, 14):
        total = b("sub", b("div", total, b.parameter(f"p{i}")), b.parameter(f"q{i}"))
    program = b.finish(total)
    check(program, FusePointwise())
    (fused,) = [i for i in program.main if i.name == "pointwise"]
    assert list(fused.modules[0].parameters)[9:12] == ["x9", "x:00010", "x:00011"]
    assert parameter_name(12) == "x:00012"


# What does not


def misses(program: Program, *passes) -> dict[str, list[str]]:
    with Recording(program) as recording:
        for one in passes:
            one.apply(program)
    found: dict[str, list[str]] = {}
    for miss in recording.near_misses():
        found.setdefault(miss.rule, []).append(miss.reason)
    return found


def test_a_value_with_two_users_ends_a_kernel(b: Builder):
    x = b("exp", b.parameter("x"))
    program = b.finish(b("neg", x), b("abs", x))
    found = misses(program, FusePointwise())
    assert kernels(program) == ["pointwise"] * 3
    assert any("has other users: pointwise @" in r for r in found["fuse_chain"])


def test_a_returned_value_is_computed_once(b: Builder):
    x = b("exp", b.parameter("x"))
    program = b.finish(x, b("neg", x))
    found = misses(program, FusePointwise())
    assert kernels(program) == ["pointwise"] * 2
    assert "has other users: @return" in found["fuse_chain"][0]


def test_a_broadcast_between_is_named(b: Builder):
    program = b.finish(b("neg", b.spread(b("exp", b.parameter("x", (4,))))))
    found = misses(program, FusePointwise())
    assert "multibroadcast" in found["fuse_chain"][0]
    assert "[2, 3, 4]" in found["fuse_chain"][0]


def test_reductions_of_other_axes_do_not_join(b: Builder):
    rows = b("reduce_sum", b.parameter("x"), axes=(2,))
    program = b.finish(b("reduce_sum", rows, axes=(1,)))
    found = misses(program, FusePointwise(), FuseReduce())
    assert kernels(program) == ["fused_reduce"] * 2
    assert "reduces axes [2]; its user reduces [1]" in found["find_reduce_reduce"][0]


def test_a_broadcast_along_other_axes_does_not_join(b: Builder):
    column = b("reduce_sum", b.parameter("x", (1, 1, 4)), axes=(2,))
    program = b.finish(b("neg", b.spread(column)))
    found = misses(program, FusePointwise(), FuseReduce())
    assert "broadcasts fused_reduce" in found["find_reduce_pointwise"][0]
    assert "along axes [0, 1, 2]; the reduction is over [2]" in found["find_reduce_pointwise"][0]


def test_constants_are_folded_not_fused(b: Builder):
    program = b.finish(b("add", b.parameter("x"), b("exp", b.constant(2))))
    found = misses(program, FusePointwise())
    assert "folded" in found["wrap_pointwise"][0]
    assert kernels(program) == ["pointwise"]


# Recording


@pytest.mark.parametrize(
    ("stepwise", "rules"),
    [(True, ["wrap_pointwise", "wrap_pointwise", "fuse_chain"]), (False, ["wrap_chain"])],
)
def test_each_edit_has_its_law_and_equal_values_are_linked(
    b: Builder, stepwise: bool, rules: list[str]
):
    x = b.parameter("x")
    total = b("add", x, x)
    last = b("neg", total)
    program = b.finish(last)
    with Recording(program) as recording:
        FusePointwise(stepwise=stepwise).apply(program)
    edits = [e for s in recording.steps for e in s.edits]
    assert [e.rule for e in edits] == rules
    (fused,) = [i for i in program.main if i.name == "pointwise"]
    replaced = {old for e in edits for old, _ in e.replaced}
    assert [(old, new) for e in edits for old, new in e.replaced][-1] == (last.id, fused.id)
    assert replaced == ({total.id, last.id} if stepwise else {last.id})
    assert total.module is last.module is fused.modules[0]
    assert program.instruction(total.id) is total


def test_taking_what_is_in_the_body_already_is_refused(b: Builder):
    x = b("neg", b.parameter("x"))
    body = Body(b.main, [x.inputs[0]])
    with pytest.raises(GraphError, match="already"):
        body.stand_for(x, "pointwise")


# Random programs


UNARY = ["neg", "exp", "tanh", "sigmoid", "abs", "relu"]
BINARY = ["add", "sub", "mul", "max"]
SMALL = [(4,), (3, 1), (2, 1, 1), (1, 1, 4), (1,)]


def _full(draw: st.DrawFn, b: Builder, values: list[Instruction]) -> Instruction:
    """A value of lens {2, 3, 4}: one that is there, or a small one, broadcast."""
    small = [v for v in values if v.shape.lens != LENS]
    if small and draw(st.integers(0, 3)) == 0:
        return b.spread(draw(st.sampled_from(small)))
    return draw(st.sampled_from([v for v in values if v.shape.lens == LENS]))


@st.composite
def fusible(draw: st.DrawFn) -> Program:
    """Elementwise work and reductions over shared values, broadcasts, scalars, half and bool."""
    b = Builder()
    values = [b.parameter("x"), b.parameter("y")]
    values += [b.parameter("s", draw(st.sampled_from(SMALL)))]
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(
            st.sampled_from(["unary", "binary", "scalar", "reduce", "half", "where", "small"])
        )
        x = _full(draw, b, values)
        if kind == "unary":
            made = b(draw(st.sampled_from(UNARY)), x)
        elif kind == "binary":
            made = b(draw(st.sampled_from(BINARY)), x, _full(draw, b, values))
        elif kind == "scalar":
            made = b(
                draw(st.sampled_from(BINARY)), x, b.constant(draw(st.sampled_from([0.5, 2, -1])))
            )
        elif kind == "reduce":
            axes = draw(st.sampled_from([(2,), (1, 2), (0,)]))
            made = b(
                draw(st.sampled_from(["reduce_sum", "reduce_max", "reduce_mean"])), x, axes=axes
            )
        elif kind == "half":
            half = b("exp", b("convert", x, target_type=DType.HALF))
            made = b("convert", half, target_type=DType.FLOAT)
        elif kind == "where":
            other = _full(draw, b, values)
            made = b("where", b("less", x, other), other, x)
        else:
            made = b("neg", draw(st.sampled_from(values)))
        values.append(made)
    return b.finish(
        *draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3, unique=True))
    )


@given(fusible(), st.booleans(), st.booleans(), st.booleans())
def test_fusion_changes_no_bit(program: Program, reshapes: bool, broadcasts: bool, several: bool):
    pointwise = FusePointwise(
        enable_rewrite_reshapes=reshapes,
        enable_rewrite_broadcasts=broadcasts,
        enable_multi_output=several,
    )
    reduce = FuseReduce(enable_rewrite_reshapes=reshapes)
    check(program, pointwise, reduce)
    with Recording(program) as recording:
        pointwise.apply(program)
        reduce.apply(program)
    assert not any(s.changed for s in recording.steps)


def _written(program: Program, *passes: FusePointwise | FuseReduce) -> list[object]:
    """A copy of a program after some passes: its text, and the source nodes of each instruction."""
    work = program.clone()
    for one in passes:
        one.apply(work)
    validate(work)
    return [str(work), *[f"{i.name} {i.sources}" for m in work.reachable_modules() for i in m]]


@given(fusible(), st.booleans())
def test_one_edit_for_each_kernel_makes_what_many_would(program: Program, reshapes: bool):
    for place, instruction in enumerate(program.main):
        program.main.set_sources(instruction, [f"n{place}"])
    whole, steps = (
        [kind(enable_rewrite_reshapes=reshapes, stepwise=s) for kind in (FusePointwise, FuseReduce)]
        for s in (False, True)
    )
    assert _written(program, *whole) == _written(program, *steps)


def test_a_wide_sum_becomes_kernels_of_bounded_size():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 2)))
    total = x
    for i in range(300):
        with program.source(f"branch{i}"):
            total = program.main.add("add", total, program.main.add("tanh", x))
    program.main.add_return(total)
    build = compile(program, target="cpu")
    bodies = [i.modules[0] for i in build.program.main if i.name == "pointwise"]
    assert 1 < len(bodies) < 20
    assert max(map(len, bodies)) <= LARGEST_BODY
    assert any("at most" in m.reason for m in build.near_misses())
    assert {s for i in build.program.main if i.name == "pointwise" for s in i.sources} == {
        f"branch{i}" for i in range(300)
    }
    given = {"x": np.ones((2, 2), np.float32)}
    np.testing.assert_allclose(build.run(given)[0], 1 + 300 * np.tanh(1), rtol=1e-5)
