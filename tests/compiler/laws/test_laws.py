"""check_rule: right rules pass on programs made for them, wrong ones are caught with a program."""

import re

import numpy as np
import pytest

import workbench as wb
from tests.compiler.passes.test_rules import RULES
from tests.compiler.rule_samples import samples
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.rewrite import Rewriter, Rule, constant, either, literal, op, pointwise, var
from workbench.compiler.run.reference import Interpreter

X = wb.Instruction


def test_a_right_rule_passes():
    @wb.rule(op("neg", op("neg", var("x")).once))
    def cancel(b: Rewriter, x: X) -> X:  # noqa: ARG001
        """neg(neg(x)) → x"""
        return x

    report = wb.check_rule(cancel, count=30)
    assert report.passed
    assert report.fired == 30
    assert any("other users" in reason for reason in report.declined)
    assert "the law holds" in str(report)


def test_a_wrong_rule_is_caught_with_a_program_that_shows_it():
    @wb.rule(op("sub", var("x"), var("y")))
    def swap(b: Rewriter, x: X, y: X) -> X:
        """sub(x, y) → sub(y, x)"""
        return b("sub", y, x)

    report = wb.check_rule(swap)
    assert not report
    assert "no end after" in report.failure or "output 0" in report.failure

    @wb.rule(op("sub", var("x"), var("y")))
    def plus(b: Rewriter, x: X, y: X) -> X:
        """sub(x, y) → add(x, y)"""
        return b("add", x, y)

    report = wb.check_rule(plus)
    assert "output 0" in report.failure
    assert report.before is not None
    assert report.after is not None
    one, other = (Interpreter(p).run(report.inputs)[0] for p in (report.before, report.after))
    assert not np.array_equal(one, other)


def test_what_is_wrong_for_some_types_only():
    @wb.rule(op("log", op("exp", var("x"))))
    def careless(b: Rewriter, x: X) -> X:  # noqa: ARG001
        """log(exp(x)) → x"""
        return x

    report = wb.check_rule(careless)
    assert not report
    assert report.before is not None
    assert not report.before.main.outputs[0].shape.type.is_float


def narrowing(within: set[DType]) -> Rule:
    """A rule that takes a conversion and back for nothing, which is right for small numbers."""
    chain = op("convert", op("convert", var("x"), name="inner"))

    def is_back(i: X) -> bool:
        types = {i.inputs[0].shape.type, i.shape.type}
        return types <= within and i.inputs[0].inputs[0].shape.type is i.shape.type

    @wb.rule(chain.when(is_back))
    def back(b: Rewriter, x: X) -> X:  # noqa: ARG001
        """convert(convert(x)) → x"""
        return x

    return back


@wb.rule(op("sub", var("x"), var("x")))
def nothing(b: Rewriter, x: X) -> X:
    """sub(x, x) → 0"""
    return b("multibroadcast", b.scalar(0, x.shape.type), out_lens=x.shape.lens)


@wb.rule(op("relu", var("x")).when(lambda i: i.shape.type.is_float))
def by_count(b: Rewriter, x: X) -> X:
    """relu(x) → max(x, 0), with a number that nothing empty has"""
    zero = b.scalar(0 // x.shape.elements, x.shape.type)
    return b("max", x, b("multibroadcast", zero, out_lens=x.shape.lens))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (nothing, "at NaN|at infinities"),
        (narrowing({DType.HALF, DType.FLOAT, DType.DOUBLE}), "at the largest numbers"),
        (narrowing({DType.INT32, DType.INT64, DType.INT8}), "at the ends of integers"),
        (by_count, ".*ZeroDivisionError"),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_what_is_wrong_at_an_edge_only(rule: Rule, says: str):
    assert re.match(says, wb.check_rule(rule, count=60).failure)


def test_a_rule_names_the_edges_that_it_excepts():
    @wb.rule(nothing.pattern, except_at={Edge.NAN, Edge.INFINITE})
    def known(b: Rewriter, x: X) -> X:
        """sub(x, x) → 0, but for NaN and infinities"""
        return b("multibroadcast", b.scalar(0, x.shape.type), out_lens=x.shape.lens)

    assert wb.check_rule(known, count=60)


def test_a_rule_that_raises_or_returns_another_shape():
    @wb.rule(op("relu", var("x")))
    def raises(b: Rewriter, x: X) -> X:  # noqa: ARG001
        """relu(x) → nothing"""
        raise KeyError("oh")

    assert "KeyError" in wb.check_rule(raises).failure

    @wb.rule(op("reduce_sum", var("x")))
    def reshaped(b: Rewriter, x: X) -> X:  # noqa: ARG001
        """reduce_sum(x) → x"""
        return x

    assert "another type or lens" in wb.check_rule(reshaped).failure


def test_what_is_no_rule_is_refused():
    with pytest.raises(wb.WorkbenchError, match="3 is not a rule"):
        wb.check_rule(3)


def test_a_rule_that_is_never_met_says_so():
    @wb.rule(op("relu", var("x").when(lambda i: i.shape.ndim == 17)))
    def never(b: Rewriter, x: X) -> X:  # noqa: ARG001
        """relu(x) → x, in 17 dimensions"""
        return x

    assert "tries matched its pattern" in wb.check_rule(never).failure


def test_a_program_of_ones_own():
    @wb.rule(op("relu", op("relu", var("x").when(lambda i: i.shape.lens == (7, 7)))))
    def rare(b: Rewriter, x: X) -> X:
        """relu(relu(x)) → relu(x), for 7 × 7"""
        return b("relu", x)

    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (7, 7)))
    program.main.add("relu", program.main.add("relu", x))
    text = str(program)
    assert wb.check_rule(rare, [program])
    assert str(program) == text


@pytest.mark.parametrize(
    "pattern",
    [
        op("mul", var("x"), constant("c")),
        op("add", literal("n", lambda i: i.literal is not None), var("x")),
        either(op("neg", var("x")), op("abs", var("x"))),
        pointwise(),
        op("dot", op("mul", var("x"), var("y")).once, constant("c")),
        op("convolution", var("x"), constant("w")),
        op("transpose", op("transpose", var("x"))),
        op("concat"),
        op("gather", var("x"), var("i")),
    ],
)
def test_programs_are_found_for_patterns(pattern):
    met = []

    @wb.rule(pattern)
    def same(b: Rewriter) -> wb.Decline:
        """x → x"""
        met.append(b.root)
        if len(met) > 5:
            raise LookupError("enough")
        return wb.Decline("met")

    assert "enough" in wb.check_rule(same, count=5).failure


APPROXIMATE = {"find_erf_gelu": 2e-3, "find_tanh_gelu": 2e-3, "find_tanh_gelu_half": 2e-3}


GIVEN_ONLY = {"find_resize": "a weight of 0 makes NaN of a neighbour that is NaN"}
"""Rules that are tried on their samples alone, and why."""


@pytest.mark.parametrize("name", RULES)
def test_the_law_of_every_rule_holds(name: str):
    """On programs made for its pattern, and on its samples."""
    own = [s.program() for s in samples() if s.rule == name]
    count = 0 if name in GIVEN_ONLY else 25
    report = wb.check_rule(RULES[name], own, count=count, tolerance=APPROXIMATE.get(name, 1e-6))
    assert report, str(report)
