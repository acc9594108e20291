"""Modules filled in one go: the same as by adding one parameter or literal after the other."""

import numpy as np
import pytest

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.filling import Entry, fill, take_all
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

FLOAT = Shape(DType.FLOAT, (2,))
VALUES = "12ab3c4"
"""Digits become literals, letters parameters."""


def entry(value: str) -> Entry:
    if value.isdigit():
        literal = Argument.of(np.full(2, int(value), np.float32))
        return "", literal.shape, literal, (f"from {value}",)
    return value, FLOAT, None, (f"from {value}",)


def body(newest_first: bool) -> Module:
    program = Program()
    program.newest_first = newest_first
    return program.create_module("body", bypass=True)


def added(newest_first: bool) -> Module:
    module = body(newest_first)
    for name, shape, literal, sources in map(entry, VALUES):
        with module.program.source(*sources):
            if literal is None:
                module.add_parameter(name, shape)
            else:
                module.add_literal(literal)
    return module


@pytest.mark.parametrize("newest_first", [False, True])
def test_filling_is_adding_one_by_one(newest_first: bool):
    module, expected = body(newest_first), added(newest_first)
    made = fill(module, [entry(value) for value in VALUES])
    for one, other in ((module, expected), (reversed(module), reversed(expected))):
        rows = [
            [(i.id, i.op, i.shape, i.literal, i.sources, i.constant) for i in m]
            for m in (one, other)
        ]
        assert rows[0] == rows[1]
    orders = [i.order for i in module]
    assert orders == sorted(set(orders))
    assert [i.id for i in made] == sorted(i.id for i in module)
    assert list(module.parameters) == list(expected.parameters)
    assert len(module) == len(VALUES)
    assert module.last is not None
    assert module.last.id == list(module)[-1].id


def test_listeners_hear_of_each_entry_in_its_place():
    heard: list[tuple[int, int]] = []

    class Watching(Listener):
        def touched(self, instruction: Instruction) -> None:
            heard.append((instruction.id, len(instruction.module)))

    module = body(False)
    module.program.listeners.append(Watching())
    made = fill(module, [entry(value) for value in VALUES])
    assert heard == [(i.id, len(VALUES)) for i in made]


def test_a_module_that_is_not_empty_is_not_filled():
    with pytest.raises(GraphError, match="'body' is not empty"):
        fill(added(False), [entry("x")])


def test_parameters_have_different_names():
    with pytest.raises(GraphError, match="two parameters of one name"):
        fill(body(False), [entry("a"), entry("a")])


def moved(at_once: bool) -> Program:
    """A chain moved into a body that represents what it reads: a parameter, and a literal from its end on."""
    program = Program()
    main, inner = program.main, program.create_module("body", bypass=True)
    x, y = main.add_parameter("x", FLOAT), main.add_parameter("y", FLOAT)
    first = main.add("add", x, x)
    parts = [first, main.add("mul", first, y)]
    main.add("neg", x)
    inside, literal = fill(inner, [entry("a"), entry("1")])
    known = {x: inside}
    if at_once:
        take_all(inner, parts, known, {parts[1]: {y: literal}}, lambda one, _: one.shape)
        assert known == {x: inside, y: literal, first: first, parts[1]: parts[1]}
    else:
        inner.take(first, [inside, inside])
        inner.take(parts[1], [first, literal])
    return program


def test_taking_all_is_taking_one_by_one():
    rows = [
        [
            (m.name, i.id, i.order, i.shape, [g.id for g in i.inputs], [u.id for u in i.users])
            for m in program.modules.values()
            for i in m
        ]
        for program in map(moved, (True, False))
    ]
    assert rows[0] == rows[1]
