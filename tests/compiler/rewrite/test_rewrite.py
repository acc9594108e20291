"""Patterns, rules and the driver: what matches, what nearly does, and what comes to rest."""

# ruff: noqa: ARG001, ARG005  # a rule takes a builder, whether it builds or not

import numpy as np
import pytest

from workbench.compiler.errors import RewriteError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import open_modules
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import (
    Decline,
    change,
    constant,
    drive,
    either,
    law,
    literal,
    op,
    pointwise,
    rule,
    var,
)

FLOAT = Shape(DType.FLOAT, (2,))


@rule(op("neg", op("neg", var("x"))))
def double_neg(b, x):
    """neg(neg(x)) → x"""
    return x


@rule(op("add", var("x"), op("neg", var("y")).once))
def add_neg(b, x, y):
    """add(x, neg(y)) → sub(x, y)"""
    return b("sub", x, y)


def started(*names: str):
    program = Program()
    return program, *[program.main.add_parameter(n, FLOAT) for n in names]


def names(program: Program) -> list[str]:
    return [i.name for i in program.main if i.parameter is None]


# Patterns


def test_one_name_is_one_instruction():
    program, x, y = started("x", "y")
    same, other = program.main.add("sub", x, x), program.main.add("sub", x, y)

    @rule(op("sub", var("x"), var("x")))
    def nothing(b, x):
        """sub(x, x) → 0"""
        return x

    assert nothing.match(same) == {"x": x}
    assert nothing.match(other) is None


def test_operands_of_commutative_operations_match_either_way():
    program, x, y = started("x", "y")
    n = program.main.add("neg", y)
    assert add_neg.match(program.main.add("add", n, x)) == {"x": x, "y": y}
    assert double_neg.match(program.main.add("sub", n, x)) is None


def test_a_way_without_a_near_miss_is_preferred():
    program, x, y = started("x", "y")
    shared, own = program.main.add("neg", x), program.main.add("neg", y)
    program.main.add("exp", shared)
    assert add_neg.match(program.main.add("add", own, shared)) == {"x": shared, "y": y}


def test_the_number_of_inputs_counts():
    program, x = started("x")
    assert add_neg.match(program.main.add("neg", x)) is None


def test_choices_are_tried_in_order():
    program, x, y = started("x", "y")

    @rule(
        either(
            op("mul", op("exp", var("a")), var("c")),
            op("mul", var("a"), op("exp", var("c"))),
            op("abs", var("a")),
        )
    )
    def some(b, a):
        """f(a) → a"""
        return a

    assert some.roots == {"mul", "abs"}
    product = program.main.add("mul", x, program.main.add("exp", y))
    assert some.match(product) == {"a": y, "c": x}
    assert some.match(program.main.add("abs", y)) == {"a": y}
    assert some.match(program.main.add("mul", x, y)) is None


def test_literals_are_seen_behind_broadcasts():
    program, x = started("x")
    two = program.main.add_literal(np.float32(2))
    spread = program.main.add("multibroadcast", two, out_lens=(2,))

    @rule(op("pow", var("x"), literal("n", lambda i: float(i.literal.numpy()) == 2)))
    def square(b, x):
        """pow(x, 2) → mul(x, x)"""
        return b("mul", x, x)

    assert square.match(program.main.add("pow", x, spread)) == {"x": x, "n": spread}
    assert square.match(program.main.add("pow", spread, x)) is None


def test_constants_are_what_does_not_depend_on_parameters():
    program, x = started("x")
    c = program.main.add_literal(np.ones(2, np.float32))
    made = program.main.add("exp", program.main.add("add", c, c))
    assert made.is_constant
    assert not program.main.add("add", made, x).is_constant
    assert constant("c").structure(made)
    assert pointwise().may_be(type(made.op))


def test_constness_follows_edits():
    program, x = started("x")
    c = program.main.add_literal(np.ones(2, np.float32))
    a = program.main.add("exp", x)
    b = program.main.add("neg", a)
    program.main.add_return(b)
    program.main.set_inputs(a, [c])
    assert b.is_constant
    program.main.set_inputs(a, [x])
    assert not b.is_constant
    validate(program)


# Rules


def test_a_rule_needs_a_law_and_known_names():
    with pytest.raises(RewriteError, match="state its law"):
        rule(op("neg", var("x")))(lambda b, x: x)
    with pytest.raises(RewriteError, match="pattern binds \\['x'\\], not 'y'"):
        rule(op("neg", var("x")))(lambda b, y: y)


def test_a_rule_knows_its_place_and_law():
    assert double_neg.name == "double_neg"
    assert double_neg.law == "neg(neg(x)) → x"
    assert double_neg.file.endswith("test_rewrite.py")
    assert repr(double_neg) == "<Rule double_neg: neg(neg(x)) → x>"


def test_a_rule_applies_at_one_instruction():
    program, x = started("x")
    outer = program.main.add("neg", program.main.add("neg", x))
    program.main.add_return(outer)
    assert double_neg.apply_at(x) is None
    assert double_neg.apply_at(outer) is x
    assert program.outputs == (x,)
    assert names(program) == ["@return"]


def test_new_instructions_come_from_the_nodes_of_what_matched():
    program, x, y = started("x", "y")
    with program.source("first"):
        n = program.main.add("neg", y)
    with program.source("second"):
        program.main.add_return(program.main.add("add", x, n))
    drive(program, [add_neg])
    assert program.outputs[0].sources == ("first", "second")


def test_a_rule_that_raises_is_named():
    @rule(op("neg", var("x")))
    def wrong(b, x):
        """neg(x) → reshape(x)"""
        return b("reshape", x, dims=(7,))

    program, x = started("x")
    program.main.add("neg", x)
    with pytest.raises(RewriteError, match=r"rule wrong \(.*test_rewrite.py:\d+\) at #1 neg"):
        drive(program, [wrong])


def test_a_rule_must_return_an_instruction():
    @rule(op("neg", var("x")))
    def silent(b, x):
        """neg(x) → ?"""

    program, x = started("x")
    program.main.add("neg", x)
    with pytest.raises(RewriteError, match="returned None; expected an instruction or a Decline"):
        drive(program, [silent])


def test_dynamic_shapes_are_for_rules_that_say_so():
    program = Program()
    x = program.main.add_parameter("x", Shape.dynamic(DType.FLOAT, (Dim(1, 4), 3)))
    program.main.add_return(program.main.add("neg", program.main.add("neg", x)))
    assert drive(program, [double_neg]) == 0
    free = rule(op("neg", op("neg", var("x"))), dynamic=True)(double_neg.function)
    assert drive(program, [free]) == 1


# Near misses


def misses(program: Program, *rules) -> list[tuple[str, str]]:
    with Recording(program) as recording:
        drive(program, rules)
    return [(m.rule, m.reason) for m in recording.near_misses()]


def test_a_failed_condition_is_a_near_miss():
    program, x, y = started("x", "y")
    n = program.main.add("neg", y)
    program.main.add_return(program.main.add("add", x, n), n)
    assert misses(program, add_neg) == [("add_neg", "neg @2: its value has other users")]


def test_another_structure_is_not():
    program, x, y = started("x", "y")
    program.main.add_return(program.main.add("add", x, y))
    assert misses(program, add_neg) == []


def test_a_declined_rule_lets_the_next_one_try():
    @rule(op("neg", op("neg", var("x"))))
    def never(b, x):
        """neg(neg(x)) → x"""
        return Decline("never")

    program, x = started("x")
    program.main.add_return(program.main.add("neg", program.main.add("neg", x)))
    assert misses(program, never, double_neg) == [("never", "never")]
    assert names(program) == ["@return"]


# The driver


def test_what_an_edit_makes_possible_is_found():
    program, x = started("x")
    value = x
    for _ in range(9):
        value = program.main.add("neg", value)
    program.main.add_return(value)
    assert drive(program, [double_neg]) == 4
    assert names(program) == ["neg", "@return"]


def test_a_value_that_lost_its_other_users_is_looked_at_again():
    program, x, y = started("x", "y")
    n = program.main.add("neg", y)
    total = program.main.add("add", x, n)
    back = program.main.add("neg", n)
    program.main.add_return(total, program.main.add("exp", back))
    assert drive(program, [add_neg, double_neg]) == 2
    assert names(program) == ["sub", "exp", "@return"]
    validate(program)


def test_rules_that_chase_each_other_are_named():
    @rule(op("neg", var("x")))
    def there(b, x):
        """neg(x) → abs(x)"""
        return b("abs", x)

    @rule(op("abs", var("x")))
    def back(b, x):
        """abs(x) → neg(x)"""
        return b("neg", x)

    program, x = started("x")
    program.main.add_return(program.main.add("neg", x))
    with pytest.raises(
        RewriteError, match=r"no end after 10 edits.*there \(6 times\), back \(5 times\)"
    ):
        drive(program, [there, back], max_edits=10)


def test_fused_bodies_are_left_alone():
    program, x = started("x")
    body = program.create_module("body", bypass=True)
    y = body.add_parameter("y", FLOAT)
    body.add_return(body.add("neg", body.add("neg", y)))
    program.main.add_return(program.main.add("pointwise", x, modules=(body,)))
    assert open_modules(program) == [program.main]
    assert drive(program, [double_neg]) == 0


def test_the_order_of_the_module_stays_valid():
    program, x, y = started("x", "y")
    values = [program.main.add("add", x, program.main.add("neg", y)) for _ in range(20)]
    program.main.add_return(*values)
    drive(program, [add_neg])
    validate(program)
    assert names(program) == ["sub"] * 20 + ["@return"]


# Edits by hand


def test_a_change_is_one_edit_with_its_law():
    @change
    def drop(instruction):
        """f(x) → x"""
        instruction.module.replace(instruction, instruction.inputs[0])

    program, x = started("x")
    n = program.main.add("neg", x)
    program.main.add_return(n)
    with Recording(program) as recording:
        drop(n)
    (edit,) = recording[0].edits
    assert (edit.rule, edit.law, edit.removed) == ("drop", "f(x) → x", (n.id,))


def test_a_law_names_an_edit():
    @law
    def rename():
        """a module → a module by another name"""

    program, _ = started("x")
    with Recording(program) as recording, program.edit(rename, None):
        program.main.program.create_module("other")
    assert recording[0].edits[0].rule == "rename"
    with pytest.raises(RewriteError, match="state its law"):
        change(lambda i: i)


@pytest.mark.parametrize("wrong", ["reshape", "convert"])
def test_an_answer_of_another_shape_or_type_is_refused(wrong):
    @rule(op("relu", var("x")))
    def misfit(b, x):
        """relu(x) → something else."""
        return b(wrong, x, **({"dims": (2, 1)} if wrong == "reshape" else {"target_type": "half"}))

    program = Program()
    program.main.add_return(program.main.add("relu", program.main.add_parameter("x", FLOAT)))
    with pytest.raises(RewriteError, match=r"misfit \(.*:\d+\).*expected float_type, \[2\]"):
        drive(program, [misfit])


def test_a_rule_that_raises_is_named_with_its_place():
    @rule(op("relu", var("x")))
    def broken(b, x):
        """relu(x) → never."""
        return 1 // 0

    program = Program()
    program.main.add_return(program.main.add("relu", program.main.add_parameter("x", FLOAT)))
    with pytest.raises(
        RewriteError, match=r"rule broken \(.*test_rewrite.py:\d+\).*ZeroDivisionError"
    ):
        drive(program, [broken])


def test_what_stands_for_any_value_is_no_source():
    @rule(op("relu", op("neg", var("x"))))
    def both(b, x):
        """relu(neg(x)) → abs(x)."""
        return b("abs", x)

    program = Program()
    main = program.main
    value = main.add_parameter("x", FLOAT)
    for name in ("tanh", "neg", "relu"):
        with program.source(name):
            value = main.add(name, value)
    main.add_return(value)
    drive(program, [both])
    assert program.outputs[0].sources == ("neg", "relu")
