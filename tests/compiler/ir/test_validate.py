"""Every way in which a program can be broken is found, and named."""

import numpy as np
import pytest

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate

FLOAT = Shape(DType.FLOAT, (2, 3))


@pytest.fixture
def program():
    made = Program()
    x = made.main.add_parameter("x", FLOAT)
    c = made.main.add_literal(np.ones((2, 3), np.float32))
    made.main.add_return(made.main.add("exp", made.main.add("add", x, c)))
    return made


def nth(program, n):
    return list(program.main)[n]


def test_a_good_program_passes(program):
    validate(program)
    validate(Program())
    validate(program.clone())


def test_order(program):
    add, exp = nth(program, 2), nth(program, 3)
    add.order, exp.order = exp.order, add.order
    with pytest.raises(GraphError, match="its order is not above"):
        validate(program)


def test_inputs_come_first(program):
    add, exp = nth(program, 2), nth(program, 3)
    program.main.connect(exp, (nth(program, 1),))
    program.main.connect(add, (exp, exp))
    with pytest.raises(GraphError, match="comes after it"):
        validate(program)


def test_users_are_symmetric(program):
    add, exp = nth(program, 2), nth(program, 3)
    del add._users[exp]
    with pytest.raises(GraphError, match="does not list its user"):
        validate(program)
    add._users[exp] = add._users[nth(program, 4)] = None
    with pytest.raises(GraphError, match="which is not one"):
        validate(program)


def test_inputs_are_of_the_program(program):
    other = Program()
    stranger = other.main.add_parameter("x", FLOAT)
    program.main.connect(nth(program, 3), (stranger,))
    with pytest.raises(GraphError, match="is not in the program"):
        validate(program)


def test_shapes_are_what_the_operation_infers(program):
    nth(program, 3).shape = Shape(DType.FLOAT, (3, 2))
    with pytest.raises(GraphError, match=r"the operation gives float_type, \{2, 3\}"):
        validate(program)


def test_an_operation_that_refuses_its_inputs(program):
    wide = program.main.add_parameter("wide", Shape(DType.FLOAT, (9,)))
    program.main.connect(list(program.main)[3], (nth(program, 1), wide))
    with pytest.raises(GraphError, match="expected the lens of input 0"):
        validate(program)


def test_the_table_of_parameters(program):
    program.main._parameters["y"] = program.main._parameters.pop("x")
    with pytest.raises(GraphError, match="table of parameters"):
        validate(program)


def test_ids_are_unique(program):
    nth(program, 3).id = nth(program, 2).id
    with pytest.raises(GraphError, match=r"have the same id|does not list its id"):
        validate(program)


def test_lost_instructions(program):
    program.main._unlink(nth(program, 2))
    with pytest.raises(GraphError, match=r"in no module|not in the program|is broken"):
        validate(program)


def test_return_is_last(program):
    last = nth(program, 4)
    program.main._unlink(last)
    program.main._link(last, nth(program, 3))
    with pytest.raises(GraphError, match="@return is not the last"):
        validate(program)


def test_literals_have_data(program):
    literal = next(i for i in program.main if i.literal is not None)
    literal.literal = None
    with pytest.raises(GraphError, match="expected data for a literal"):
        validate(program)


def test_constness(program):
    nth(program, 3).constant = True
    with pytest.raises(GraphError, match="is_constant is True; expected False"):
        validate(program)


def test_modules_are_reached(program):
    program.create_module("alone")
    with pytest.raises(GraphError, match="'alone' cannot be reached"):
        validate(program)


def test_modules_are_listed_by_name(program):
    program.main.name = "other"
    with pytest.raises(GraphError, match="listed under the name 'main'"):
        validate(program)


def called(program):
    body = program.create_module("body")
    condition = program.main.add_literal(np.array([True]))
    body.add_return(body.add("neg", nth(program, 3)))
    return body, program.main.add("if", condition, modules=(body, body))


def test_modules_see_their_callers_values(program):
    called(program)
    validate(program)


def test_modules_do_not_see_what_they_do_not_call(program):
    body, _ = called(program)
    inner = next(iter(body))
    program.main.connect(program.main.outputs[0], (inner,))
    with pytest.raises(GraphError, match="cannot use"):
        validate(program)


def test_modules_do_not_call_each_other_in_circles(program):
    body, call = called(program)
    body.set_modules(next(iter(body)), (body,))
    with pytest.raises(GraphError, match="cycle: 'body' → 'body'"):
        validate(program)
    assert call.modules == (body, body)


def test_called_modules_are_listed(program):
    called(program)
    del program.modules["body"]
    with pytest.raises(GraphError, match="does not list"):
        validate(program)
