"""Attempts of rules: the tests that they make, and what is made and heard on the way."""

from collections import Counter
from importlib import import_module

import numpy as np
import pytest

from workbench.compiler.ir import uses
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction, learn_constant
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.broadcasting import moving, unsteady
from workbench.compiler.passes.fuse.fuse_pointwise import FusePointwise
from workbench.compiler.passes.fuse.kernels.sweep import Sweeps, sweep
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    constant,
    drive,
    either,
    matched,
    op,
    rule,
    var,
)

FLOAT = Shape(DType.FLOAT, (2,))
COUNT = 5


def chain(name: str = "neg") -> Program:
    program = Program()
    value = program.main.add_parameter("x", FLOAT)
    for _ in range(COUNT):
        value = program.main.add(name, value)
    program.main.add_return(value)
    return program


def counting(name: str, tested: Counter[int], answer: bool):
    """A rule that turns an operation into ``abs`` where its test, which is counted, says so."""

    def test(instruction: Instruction) -> bool:
        tested[instruction.id] += 1
        return answer

    @rule(Pattern(frozenset({name}), binding="root", structure=test))
    def to_abs(b, root):
        """f(x) → abs(x)"""
        return b("abs", root.inputs[0])

    return to_abs


@pytest.mark.parametrize("apply", [drive, sweep])
@pytest.mark.parametrize("answer", [True, False])
def test_a_rule_tests_each_root_once(apply, answer):
    program, tested = chain(), Counter[int]()
    roots = {i.id for i in program.main if i.name == "neg"}
    edits = apply(program, [counting("neg", tested, answer)])
    assert edits == (COUNT if answer else 0)
    assert tested == dict.fromkeys(roots, 1)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [(constant("c"), True), (moving("c"), False), (unsteady("c"), False), (var("c"), None)],
)
def test_a_rule_is_no_candidate_where_an_operand_is_constant_that_must_not_be(
    pattern, wanted, is_constant
):
    program, tested = Program(), Counter[int]()
    x = program.main.add_parameter("x", FLOAT)
    value = program.main.add_literal(np.ones(2, np.float32)) if is_constant else x
    program.main.add_return(program.main.add("mul", program.main.add("neg", x), value))

    def test(instruction: Instruction) -> bool:
        tested[instruction.id] += 1
        return False

    @rule(op("mul", moving("x"), pattern).when(test))
    def never(b, x, c):  # noqa: ARG001
        """mul(x, c) → x"""
        return x

    assert drive(program, [never]) == 0
    assert bool(tested) == (wanted in (None, is_constant))


@pytest.mark.parametrize(("is_constant", "fits"), [(True, True), (False, False)])
def test_a_rule_may_look_for_constants_made_by_some_operations(is_constant, fits):
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    source = program.main.add_literal(np.ones(2, np.float32)) if is_constant else x
    root = program.main.add("add", x, program.main.add("convert", source, target_type=DType.FLOAT))
    pattern = op("add").reading(frozenset({"convert"}), constant=True)
    given = [(i.op.name, i.constant) for i in root.inputs]
    assert pattern.suits(root) == pattern.may_fit(type(root.op), given) == fits


def test_a_sweep_leaves_what_it_makes_to_the_next():
    program, tested = chain("abs"), Counter[int]()
    rules = [counting("abs", tested, answer=True)]
    assert sweep(program, rules) == COUNT
    assert set(tested.values()) == {1}
    assert sweep(program, rules) == COUNT


def test_a_sweep_does_not_look_where_no_operation_fits():
    tested = Counter[int]()
    assert sweep(chain(), [counting("relu", tested, answer=True)]) == 0
    assert not tested


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (op("mul", op("tanh", var("x")), var("y")), {"mul", "tanh"}),
        (op("mul|add", op("tanh", var("x")), var("y")), {"tanh"}),
        (either(op("neg", op("exp", var("x"))), op("exp", var("x"))), {"exp"}),
        (Pattern(), set()),
    ],
)
def test_a_pattern_needs_the_operations_of_every_match(pattern, needs):
    assert pattern.needs == needs


@pytest.mark.parametrize(("second", "visited"), [("tanh", False), ("abs", True)])
def test_a_drive_does_not_look_where_an_operation_is_missing(second, visited):
    tested = Counter[int]()

    def test(instruction: Instruction) -> bool:
        tested[instruction.id] += 1
        return False

    @rule(op("neg", either(op(second, var("x")), op(second, var("x")))).when(test))
    def never(b, x):  # noqa: ARG001
        """neg(f(x)) → x"""
        return x

    program = chain("abs")
    value = program.outputs[0]
    program.main.replace(value, program.main.insert(program.main.last, "neg", *value.inputs))
    assert drive(program, [never]) == 0
    assert bool(tested) == visited


@rule(op("neg", var("x"), name="root"))
def read_abs(b, root, x):  # noqa: ARG001
    """neg(x) → exp(abs(x))"""
    return b("exp", next(u for u in x.users if u.name == "abs"))


@rule(Pattern(binding="root", structure=lambda i: len(i.users) > 1))
def share_abs(b, root):
    """abs(x), abs(x)… → the first of them, where x has no other users"""
    first, *others = root.users
    if other := next((u for u in root.users if u.name != "abs"), None):
        return Decline(f"{other.name} uses it")
    for user in others:
        b.module.replace(user, first)
    return root


def test_a_rule_about_all_users_is_tried_again_when_one_is_gone():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    users = [program.main.add("abs", x) for _ in range(3)]
    program.main.add_return(*users, program.main.add("neg", x))
    assert drive(program, [share_abs, read_abs]) == 2
    assert [i.name for i in program.main] == ["@param", "abs", "exp", "@return"]


def test_a_rule_about_all_slices_is_tried_again_when_one_is_read_otherwise():
    """The root is one slice, the operation that changes reads another one."""

    @rule(op("slice", var("x"), name="root").when(lambda i: not i.op.starts[0]))
    def negate_first(b, root, x):
        """slices of x that are all negated → slices of neg(x)"""
        if not all(u.name == "neg" for s in x.users for u in s.users):
            return Decline("one is not negated")
        slices = x.users
        b.before = x.following
        whole = b("neg", x)
        for one in slices:
            b.before = one
            b.module.replace(one.users[0], b(one.op, whole))
        return root

    @rule(op("abs", op("abs", var("x"))))
    def negate(b, x):
        """abs(abs(x)) → neg(x)"""
        return b("neg", x)

    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    value = program.main.add("exp", x)
    ends = [
        program.main.add("slice", value, axes=(0,), starts=(i,), ends=(i + 1,)) for i in range(2)
    ]
    first = program.main.add("neg", ends[0])
    second = program.main.add("abs", program.main.add("abs", ends[1]))
    program.main.add_return(first, second)
    assert drive(program, [negate_first, negate]) == 2
    assert [i.name for i in program.main].count("neg") == 1


def test_a_failed_test_makes_no_match(monkeypatch):
    made: list[object] = []
    rules = import_module("workbench.compiler.rewrite.rule")
    monkeypatch.setattr(rules, "Match", lambda: made.append(1))
    root = next(i for i in chain().main if i.name == "neg")
    assert matched(counting("neg", Counter(), answer=False), root) is None
    assert not made


@pytest.mark.parametrize(("name", "count"), [("wrap_pointwise", COUNT), ("wrap_chain", 1)])
def test_nobody_but_the_recording_hears_of_wrapping(name, count):
    heard: list[list[type[Listener]]] = []

    class Watching(Listener):
        def edit_began(self, rule, root):
            if rule.name == name:
                heard.append([type(one) for one in program.listeners])

    program = chain()
    program.listeners.append(Watching())
    FusePointwise(stepwise=name == "wrap_pointwise").apply(program)
    assert len(heard) == count
    assert not any(Sweeps in kinds for kinds in heard)


def test_constness_is_learnt_only_where_it_may_change(monkeypatch):
    learnt: list[Instruction] = []

    def learn(instruction: Instruction) -> None:
        learnt.append(instruction)
        learn_constant(instruction)

    monkeypatch.setattr(uses, "learn_constant", learn)
    program = Program()
    x, y = (program.main.add_parameter(n, FLOAT) for n in "xy")
    total = program.main.add("add", x, y)
    program.main.set_inputs(total, [y, x])
    assert not learnt
    one, two = (program.main.add_literal(np.full(2, n, np.float32)) for n in (1, 2))
    program.main.set_inputs(total, [one, two])
    assert total.is_constant
    program.main.set_inputs(total, [one, x])
    assert not total.is_constant
    assert learnt == [total, total]


def test_unused_instructions_are_listed_from_the_end():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    first, second = program.main.add("neg", x), program.main.add("abs", x)
    program.main.add_return(x)
    end = program.main.last
    assert program.main.unused == [end, second, first]
