"""Pairs of kernels: why two are not one; kernels with several results in runs and comparisons."""

import numpy as np
import pytest

from tests.compiler.rule_samples import written_out
from workbench.compiler.builds.build import compile
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.passes.fuse.conditions import obstacle
from workbench.compiler.text.printing import parse
from workbench.numerics.compare.compare import compare

X = "x = @param:x -> float{2, 3}\n"
SQUARE = "x = @param:x -> float{3, 3}\n"


def fused(text: str) -> Program:
    """A program with its operations in kernels, none of which are joined."""
    program = parse(written_out(text))
    for name, rule in (("fuse_pointwise", "wrap_pointwise"), ("fuse_reduce", "wrap_reduce")):
        pass_ = pass_named(name)
        others = tuple(r.name for r in pass_.rules if r.name != rule)
        run_pass(pass_named(name, without=others), program)
    return program


def found(text: str, first: int = 0, second: int = 1) -> str:
    """The obstacle between two kernels of a program."""
    program = fused(text)
    kernels = [i for i in program.main if i.modules or i.name == "dot"]
    return obstacle(kernels[first], kernels[second])


@pytest.mark.parametrize(
    "text",
    [
        X + "a = exp(x)\nb = neg(a)\nr = @return(b)",
        X + "a = exp(x)\nb = reduce_sum[axes={1}](a)\nr = @return(b)",
        X + "a = reduce_sum[axes={1}](x)\nb = neg(a)\nr = @return(b)",
        X + "a = reduce_sum[axes={1}](x)\nb = reduce_max[axes={1}](a)\nr = @return(b)",
        X + "a = exp(x)\ns = reshape[dims={3, 2}](a)\nb = neg(s)\nr = @return(b)",
        X
        + "a = exp(x)\ns = transpose[permutation={1, 0}](a)\nb = reduce_sum[axes={0}](s)\nr = @return(b)",
        X + "a = exp(x)\nb = neg(x)\nr = @return(a,b)",
    ],
)
def test_nothing_stands_between(text: str):
    assert found(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (X + "a = exp(x)\nb = neg(a)\nr = @return(b,a)", "has other users: @return #"),
        (
            X + "a = reduce_sum[axes={1}](x)\nb = reduce_sum[axes={0}](a)\nr = @return(b)",
            "reduces axes [1]; its user reduces [0]",
        ),
        (
            (
                "x = @param:x -> float{3}\na = exp(x)\nw = multibroadcast[out_lens={2, 3}](a)\n"
                "b = neg(w)\nr = @return(b)"
            ),
            "has lens [3], and multibroadcast #",
        ),
        (
            (
                "x = @param:x -> float{6, 35}\na = exp(x)\ns = reshape[dims={3, 7, 2, 5}](a)\n"
                "y = @param:y -> float{3, 7, 2, 5}\nb = mul(s,y)\nr = @return(b)"
            ),
            "goes from [6, 35] to [3, 7, 2, 5]: no common dimensions",
        ),
        (X + "a = reduce_sum[axes={1}](x)\nb = neg(x)\nr = @return(a,b)", "sharing only an input"),
        (
            X + "y = @param:y -> float{2}\na = exp(x)\nb = neg(y)\nr = @return(a,b)",
            "nor shares an input with it",
        ),
        (
            SQUARE + "a = exp(x)\nd = dot(a,a)\nr = @return(d)",
            "dot #2 is neither elementwise work nor",
        ),
    ],
)
def test_what_stands_between_is_named(text: str, reason: str):
    assert reason in found(text)


def test_what_lies_between_and_the_wrong_way_round():
    text = SQUARE + "a = exp(x)\nd = dot(a,a)\nb = neg(d)\nr = @return(b)"
    assert "through dot #" in found(text, 0, 2)
    assert "comes before" in found(text, 2, 0)


def test_what_is_no_kernel_of_its_own_is_named():
    program = fused(
        X + "c = @literal{2} -> float_type, {1}, {0}\na = exp(x)\nn = neg(c)\nr = @return(a,n)"
    )
    (kernel,) = [i for i in program.main if i.modules]
    inside = kernel.modules[0].outputs[0]
    assert "is already in the body 'main:pointwise0'" in obstacle(inside, kernel)
    (constant,) = [i for i in program.main if i.name == "neg"]
    assert "it is constant, and will be folded" in obstacle(constant, kernel)


def several() -> Program:
    """Two results of one kernel, of which a product takes one."""
    program = Program()
    main = program.main
    x, y = (main.add_parameter(n, Shape("float", (3, 3))) for n in "xy")
    total = main.add("add", x, y)
    main.add_return(main.add("exp", x), main.add("dot", total, y), total)
    return program


def test_several_results_are_compared_and_timed_one_by_one():
    build = compile(several(), passes=[("fuse_pointwise", {"enable_multi_output": True})])
    inputs = {n: np.full((3, 3), 0.5, np.float32) for n in "xy"}
    result = build.run(inputs)
    np.testing.assert_allclose(result[0], np.exp(np.float32(0.5)) * np.ones((3, 3)), rtol=1e-6)
    np.testing.assert_array_equal(result[2], np.ones((3, 3)))
    report = compare(build, inputs)
    names = {row.kernel for row in report.rows}
    assert {"add · exp [0]", "add · exp [1]", "dot"} <= names
    assert all(row.metrics.max_abs < 1e-6 for row in report.rows)


def test_the_values_that_became_results_are_known_as_equal():
    program = several()
    total = next(i.id for i in program.main if i.name == "add")
    build = compile(program, passes=[("fuse_pointwise", {"enable_multi_output": True})])
    last = build.program.outputs[2]
    assert last.name == "get_tuple_elem"
    assert last.id in build.recording.lineage(total).equals
