"""Modules and programs: every edit keeps order, users and shapes right, and is heard."""

from collections.abc import Mapping
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given

from tests.compiler.programs import programs
from workbench.compiler.errors import GraphError, OperationError, ShapeError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.text.parsing import parse


@pytest.fixture
def chain() -> tuple[Program, Instruction, Instruction, Instruction]:
    """x → relu → neg → return."""
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    relu = program.main.add("relu", x)
    neg = program.main.add("neg", relu)
    program.main.add_return(neg)
    return program, x, relu, neg


def order(module: Module) -> list[str]:
    return [i.name for i in module]


@pytest.mark.parametrize("newest_first", [False, True])
def test_literals_go_to_the_front_and_parameters_behind_older_ones(newest_first: bool):
    program = Program()
    program.newest_first = newest_first
    x = program.main.add_parameter("x", Shape("float", (1,)))
    program.main.add_literal(np.float32(1))
    program.main.add("neg", x)
    program.main.add_parameter("y", Shape("float", (1,)))
    names = [i.parameter or i.name for i in program.main]
    assert names == (
        ["y", "@literal", "x", "neg"] if newest_first else ["@literal", "x", "y", "neg"]
    )
    assert list(program.parameters) == ["x", "y"]
    again = parse(str(program), newest_first=newest_first)
    assert str(again) == str(program)
    assert list(again.parameters) == ["x", "y"]


def test_add_goes_before_the_return(chain):
    program, _, relu, _ = chain
    made = program.main.add("abs", relu)
    assert order(program.main)[-2:] == ["abs", "@return"]
    assert relu.users[-1] is made


def test_replace_moves_users_and_prunes(chain):
    program, x, relu, neg = chain
    new = program.main.insert(neg, "abs", x)
    program.main.replace(neg, new)
    assert order(program.main) == ["@param", "abs", "@return"]
    assert program.outputs == (new,)
    assert program.find(relu.id) is None
    assert program.find(neg.id) is None


def test_a_module_that_a_pruned_module_calls_may_use_its_values(chain):
    program, x, relu, _ = chain
    outer, inner = program.create_module("outer"), program.create_module("inner")
    given = outer.add_parameter("given", x.shape)
    within = inner.add_parameter("within", x.shape)
    inner.add_return(given, within)  # captured, and kept by the return alone
    made = outer.add("call", given, modules=[inner])
    outer.add_return(outer.add("get_tuple_elem", made, index=0))
    called = program.main.add("call", relu, modules=[outer])
    program.main.prune(called)
    assert list(program.modules) == ["main"]
    assert called not in relu.users
    assert order(program.main) == ["@param", "relu", "neg", "@return"]


def test_replace_by_an_input_keeps_it(chain):
    program, x, relu, neg = chain
    program.main.replace(neg, relu)
    assert program.outputs == (relu,)
    assert relu.inputs == (x,)


def test_replace_by_something_later_is_refused(chain):
    program, x, relu, _ = chain
    late = program.main.add("abs", x)
    with pytest.raises(GraphError, match="comes after"):
        program.main.replace(relu, late)


def test_replacing_the_last_instruction_without_return_keeps_a_result():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2,)))
    relu = program.main.add("relu", x)
    program.main.replace(relu, x)
    assert order(program.main) == ["@param", "identity"]


def test_new_shapes_reach_all_users():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    turned = program.main.add("transpose", x, permutation=[1, 0])
    relu = program.main.add("relu", turned)
    program.main.add_return(relu)
    straight = program.main.insert(relu, "contiguous", turned)
    program.main.replace(turned, straight)
    assert straight.inputs == (turned,)
    assert relu.shape == Shape("float", (3, 2), (2, 1))


def test_remove_refuses_what_is_used(chain):
    program, _, relu, _ = chain
    with pytest.raises(GraphError, match="uses it"):
        program.main.remove(relu)


def test_move_keeps_order_valid(chain):
    program, x, relu, neg = chain
    other = program.main.add("abs", x)
    program.main.move(other, relu)
    assert order(program.main) == ["@param", "abs", "relu", "neg", "@return"]
    with pytest.raises(GraphError, match="after the insertion point"):
        program.main.move(neg, relu)
    with pytest.raises(GraphError, match="after its user"):
        program.main.move(relu, None)


def test_inputs_must_come_first(chain):
    program, _, relu, neg = chain
    with pytest.raises(GraphError, match="after the insertion point"):
        program.main.insert(relu, "abs", neg)


def test_inputs_of_another_program_are_refused(chain):
    other = Program()
    y = other.main.add_parameter("y", Shape("float", (2, 3)))
    with pytest.raises(GraphError, match="another program"):
        chain[0].main.add("relu", y)


def test_set_inputs_infers_again(chain):
    program, _, relu, neg = chain
    y = program.main.add_parameter("y", Shape("float", (5,)))
    program.main.set_inputs(relu, [y])
    assert neg.shape.lens == (5,)


def test_take_keeps_the_id(chain):
    program, x, relu, neg = chain
    program.main.set_inputs(neg, [x])
    body = program.create_module("main:pointwise0", bypass=True)
    inner = body.add_parameter("x0", Shape.scalar(x.shape.type))
    id = relu.id
    body.take(relu, [inner])
    assert program.instruction(id) is relu
    assert relu.module is body
    assert relu not in list(program.main)


def test_unknown_operation_suggests_a_name(chain):
    with pytest.raises(OperationError, match="did you mean"):
        chain[0].main.add("rellu", chain[1])


def test_unknown_attribute_lists_the_known_ones(chain):
    with pytest.raises(OperationError, match="permutation"):
        chain[0].main.add("transpose", chain[1], perm=[1, 0])


def test_shape_errors_name_operation_and_operand(chain):
    program, x, *_ = chain
    y = program.main.add_parameter("y", Shape("float", (4,)))
    with pytest.raises(ShapeError, match="add: input 1"):
        program.main.add("add", x, y)


def test_many_insertions_before_one_instruction(chain):
    program, x, relu, _ = chain
    for _ in range(3000):
        program.main.insert(relu, "abs", x)
    orders = [i.order for i in program.main]
    assert orders == sorted(set(orders))


def test_renaming(chain):
    program, x, *_ = chain
    program.main.rename_parameter(x, "image")
    assert list(program.parameters) == ["image"]
    module = program.create_module("body")
    module.rename("loop_body")
    assert "loop_body" in program.modules
    with pytest.raises(GraphError, match="already"):
        program.create_module("loop_body")


class Heard(Listener):
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.touches: set[int] = set()
        self.removals: set[int] = set()

    def touched(self, instruction: Instruction) -> None:
        self.touches.add(instruction.id)

    def removed(self, instruction: Instruction) -> None:
        self.removals.add(instruction.id)


def test_listeners_hear_every_edit(chain):
    program, x, relu, neg = chain
    heard = Heard()
    program.listeners.append(heard)
    new = program.main.insert(neg, "abs", x)
    program.main.replace(neg, new)
    assert new.id in heard.touches
    assert heard.removals == {relu.id, neg.id}


def test_listeners_hear_once_per_edit_what_it_touched(chain):
    program, x, _, neg = chain
    heard: list[list[int]] = []

    class Watching(Listener):
        def touched_by_edit(self, instructions: Mapping[Instruction, None]) -> None:
            heard.append([i.id for i in instructions])

    program.listeners.append(Watching())
    with program.edit():
        gone = program.main.insert(neg, "exp", x)
        with program.edit():
            new = program.main.insert(neg, "abs", x)
        program.main.set_sources(new, ["node"])
        program.main.remove(gone)
        assert not heard
    with program.edit():
        pass
    assert heard == [[new.id]]


def test_the_listed_instructions_are_those_of_now(chain):
    program, x, _, neg = chain
    main = program.main
    before = main.listed
    assert list(before) == list(main)
    assert main.listed is before
    new = main.insert(neg, "abs", x)
    assert list(main.listed) == list(main)
    main.move(new, None)
    assert list(main.listed) == list(main)
    main.remove(new)
    assert list(main.listed) == list(before)
    assert main.listed is not before


@given(programs())
def test_clone_is_equal_and_independent(program: Program):
    text, ids = str(program), {i.id for i in program.instructions}
    copy = program.clone()
    assert str(copy) == text
    assert {i.id for i in copy.instructions} == ids
    for output in copy.outputs:
        copy.main.add("identity", output)
    assert str(program) == text


def test_a_deep_copy_is_a_clone_however_long_the_program_is():
    program = Program()
    value = program.main.add_parameter("x", Shape("float", (2,)))
    for _ in range(5000):
        value = program.main.add("neg", value)
    program.main.add_return(value)
    copy = deepcopy({"model": program})["model"]
    assert str(copy) == str(program)
    assert all(copy.find(i.id) is i for i in copy.main)
    made = copy.main.add("neg", copy.outputs[0])
    assert copy.find(made.id) is made
    assert program.find(made.id) is None


@given(programs())
def test_users_are_symmetric(program: Program):
    for instruction in program.instructions:
        assert all(instruction in i.users for i in instruction.inputs)
        assert all(instruction in u.inputs for u in instruction.users)


@given(programs())
def test_operands_are_counted_through_every_edit(program: Program):
    """So much is known of a program's growth without a walk through it."""
    work = program.clone()
    PIPELINES["optimize"].apply(work)
    for one in (program, work, work.clone()):
        assert one.operands == sum(len(i.inputs) for i in one.instructions)
    work.clear()
    assert work.operands == 0


@given(programs())
def test_callers_are_known_through_every_edit(program: Program):
    """Modules are reached without a walk through the bodies that call none."""
    work = program.clone()
    PIPELINES["fusion"].apply(work)
    for one in (work, work.clone()):
        for module in one.modules.values():
            assert module.calling == [i for i in module if i.modules]


def test_an_attribute_may_be_a_list_which_has_no_hash(
    chain: tuple[Program, Instruction, Instruction, Instruction],
):
    program, x, _, _ = chain
    for dims in ([3, 2], [6]):
        assert program.main.add("reshape", x, dims=dims).shape == Shape("float", dims)


def test_equal_shapes_of_unlike_origin_are_inferred_apart():
    """A length that was a range may become one again, which equality does not tell."""
    settled = Shape.settled(DType.FLOAT, [Dim(2, 2), Dim(3, 3)])
    found: list[Shape] = []
    for shape in (Shape("float", (2, 3)), settled):
        program = Program()
        x = program.main.add_parameter("x", shape)
        found.append(program.main.add("convert", x, target_type=DType.DOUBLE).shape)
    assert found[0] == found[1]
    assert [len(s.ranges) for s in found] == [0, 2]


def test_the_kinds_are_those_of_the_operations_of_now(chain):
    program, x, _, neg = chain
    main = program.main
    assert list(main.kinds) == [type(i.op) for i in main]
    main.set_op(neg, make("abs"))
    assert list(main.kinds) == [type(i.op) for i in main]
    main.insert(neg, "exp", x)
    assert list(main.kinds) == [type(i.op) for i in main]
    assert list(main.of_kinds({type(neg.op)})) == [i for i in main if i.name == "abs"]


def test_a_program_knows_what_the_last_edit_has_touched(chain):
    program, x, _, neg = chain
    with program.edit():
        gone = program.main.insert(neg, "exp", x)
        with program.edit():
            new = program.main.insert(neg, "abs", x)
        assert not program.edited
        program.main.remove(gone)
    assert list(program.edited) == [new]
    with program.edit():
        pass
    assert not program.edited


@pytest.mark.parametrize(
    ("elements", "value", "holds"),
    [([1, 1], 1, True), ([1, 2], 1, False), ([0, 0], 1, False), ([], 0, False)],
)
def test_an_argument_knows_whether_all_its_elements_are_a_number(elements, value, holds):
    argument = Argument.of(np.array(elements, np.float32))
    assert argument.is_all(value) == argument.is_all(value) == holds
