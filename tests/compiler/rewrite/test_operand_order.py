"""The orders in which the operands of a commutative operation are matched, and the tests made for them."""

from collections import Counter

import numpy as np
import pytest

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.rewrite import Pattern, candidates, constant, op, rule, var

FLOAT = Shape(DType.FLOAT, (2,))


def total(*names: str) -> Instruction:
    """The sum of a value's results under operations of these names; each is an output, too."""
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    one, other = (program.main.add(name, x) for name in names)
    root = program.main.add("add", one, other)
    program.main.add_return(root, one, other)
    return root


def rule_of(pattern: Pattern):
    @rule(pattern)
    def first(b, x):  # noqa: ARG001
        """add(f(x), g(y)) → x"""
        return x

    return first


def test_operands_that_match_alike_are_tried_in_one_order():
    tested = Counter[int]()

    def test(instruction: Instruction) -> bool:
        tested[instruction.id] += 1
        return True

    root = total("neg", "neg")
    x, y = (op("neg", var(name).when(test)).once for name in "xy")
    reason = rule_of(op("add", x, y)).match(root)
    assert reason == f"neg #{root.inputs[0].id}: its value has other users"
    assert tested == {root.inputs[0].inputs[0].id: 2}


@pytest.mark.parametrize("names", [("neg", "abs"), ("abs", "neg")])
def test_operands_that_fit_in_one_order_only_are_tried_in_that(names):
    root = total(*names)
    found = rule_of(op("add", op("abs", name="x"), op("neg", name="y"))).match(root)
    assert isinstance(found, dict)
    assert {name: value.name for name, value in found.items()} == {"x": "abs", "y": "neg"}


def test_a_name_that_is_bound_already_decides_the_order():
    """The operands of the sum differ in nothing but their names, one of which the first operand has bound."""
    program = Program()
    a, c = (program.main.add_parameter(name, FLOAT) for name in "ac")
    root = program.main.add("sub", program.main.add("neg", c), program.main.add("add", a, c))
    found = rule_of(op("sub", op("neg", var("x")), op("add", var("x"), var("y")))).match(root)
    assert found == {"x": c, "y": a}


def test_a_name_in_both_operands_binds_one_value():
    root = total("neg", "neg")
    either_way = op("add", op("neg", var("x")), op("neg", var("x")))
    assert rule_of(either_way).match(root) == {"x": root.inputs[0].inputs[0]}
    program = Program()
    a, c = (program.main.add_parameter(name, FLOAT) for name in "ac")
    other = program.main.add("add", program.main.add("neg", a), program.main.add("neg", c))
    assert rule_of(either_way).match(other) is None


def test_a_rule_about_each_operand_is_tried_where_all_are_of_its_kind():
    among = candidates((rule_of(Pattern(binding="x", each=frozenset({"neg"}))),))
    assert among.at(total("neg", "neg"))
    assert not among.at(total("neg", "abs"))
    pattern = Pattern(each=frozenset({"neg"}))
    assert pattern.suits(total("neg", "neg"))
    assert not pattern.suits(total("neg", "abs"))


def test_rules_are_chosen_again_after_an_operand_changes():
    among = candidates((rule_of(Pattern(binding="x", each=frozenset({"neg"}))),))
    root = total("neg", "abs")
    main, (one, other) = root.module, root.inputs
    assert not among.at(root)
    main.set_op(other, one.op)
    assert among.at(root)
    main.set_inputs(root, (one, one.inputs[0]))
    assert not among.at(root)


def test_rules_are_chosen_again_after_an_operand_becomes_constant():
    program = Program()
    x, y = (program.main.add_parameter(name, FLOAT) for name in "xy")
    inner = program.main.add("neg", x)
    root = program.main.add("add", inner, y)
    among = candidates((rule_of(op("add", constant("x"), var("y"))),))
    assert not among.at(root)
    program.main.set_inputs(inner, (program.main.add_literal(np.ones(2, np.float32)),))
    assert among.at(root)
