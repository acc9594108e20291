"""Comparisons: aligned by lineage through fusion and precision changes; the first wrong value is named."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given

from tests.compiler.programs import inputs_for, programs
from workbench.compiler.builds.build import compile
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import RewritePass
from workbench.compiler.rewrite import Rule, op, rule, var
from workbench.numerics.compare.compare import compare


def network() -> Program:
    """Two layers with a softmax: dot, add, tanh, dot, softmax."""
    random = np.random.default_rng(0)
    program = Program("network")
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 8)))
    for i in range(2):
        weight = main.add_literal(random.standard_normal((8, 8), np.float32))
        with program.source(f"layer{i}"):
            x = main.add("dot", x, weight)
            x = main.add("tanh", main.add("add", x, main.add("mul", x, x)))
    main.add_return(main.add("softmax", x, axis=1))
    return program


def test_an_optimised_build_agrees_with_the_reference():
    build = compile(network(), target="cpu")
    report = compare(build, {"x": np.ones((4, 8), np.float32)})
    assert report.passed
    assert report.first_divergence() is None
    assert {"dot", "softmax"} <= set(report.table()["kernel"])
    assert report.table()["rms"].between(0, 1e-6).all()


def test_fused_kernels_are_compared_by_their_result():
    report = compare(compile(network(), target="cpu"))
    fused = [r for r in report.rows if "tanh" in r.kernel and "·" in r.kernel]
    assert len(fused) == 2
    assert fused[0].sources == ("layer0",)


def test_half_precision_has_larger_errors():
    program = network()
    single, half = (compare(compile(program, target="cpu", precision=p)) for p in (None, "fp16"))
    assert half.tolerance > single.tolerance
    assert half.table()["rms"].max() > 50 * single.table()["rms"].max()
    assert len(half.rows) >= len(single.rows) // 2


def test_the_first_wrong_value_is_named():
    @rule(op("tanh", var("x")))
    def wrong(b, x):
        """tanh(x) → sigmoid(x), which is not so."""
        return b("sigmoid", x)

    class Wrong(RewritePass):
        """Break every tanh."""

        name: ClassVar[str] = "wrong"
        rules: ClassVar[tuple[Rule, ...]] = (wrong,)

    report = compare(compile(network(), passes=[Wrong()]))
    first = report.first_divergence()
    assert first is not None
    assert first.kernel == "sigmoid"
    assert first.sources == ("layer0",)
    assert "sigmoid" in report.summary
    assert report.table()["wrong"].any()


def test_a_nan_is_a_divergence():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2,)))
    program.main.add_return(program.main.add("exp", x))
    half = compile(program, target="cpu", precision="fp16")
    report = compare(half, {"x": np.array([1, 30], np.float32)})
    first = report.first_divergence()
    assert first is not None
    assert first.metrics.inf == 1


@given(programs())
def test_any_program_agrees_with_itself(program: Program):
    report = compare(compile(program, target="cpu"), inputs_for(program))
    assert report.passed


def test_two_builds_of_one_source_compare():
    program = network()
    ref = compile(program, target="ref")
    report = compare(compile(program, target="cpu"), reference=ref, reference_precision="float32")
    assert report.passed
    assert compare(compile(network(), target="cpu"), reference=ref).passed


def test_wrong_inputs_are_refused():
    with pytest.raises(InputError, match="'y'"):
        compare(compile(network(), target="cpu"), {"y": np.ones(3)})


def test_the_plot_draws_on_the_axes_it_is_given():
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    report = compare(compile(network(), target="cpu"))
    figure, ax = plt.subplots()
    assert report.plot(ax) is ax
    assert ax.get_yscale() == "log"
    assert len(ax.lines[0].get_xdata()) == len(report.rows)
    plt.close(figure)


def test_values_of_other_lens_are_wrong_and_unknown_precisions_refused():
    program = network()
    build = compile(program, target="cpu", passes=[])
    assert compare(build).passed
    root = build.program.outputs[0]
    root.shape = Shape("float", (8, 4))
    assert compare(build).first_divergence().id == root.id
    with pytest.raises(OperationError, match="float16"):
        compare(build, reference_precision="float16")
