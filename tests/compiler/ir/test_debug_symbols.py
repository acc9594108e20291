"""Debug symbols: where they go when instructions are replaced, fused, copied, printed and read."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.debug_symbols import (
    add_debug_symbols,
    has_debug_symbols,
    inherit_debug_symbols,
    remove_debug_symbols,
)
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import rows_of
from workbench.compiler.ir.shape import Shape
from workbench.compiler.record.recording import Recording
from workbench.compiler.text import printing as text

SHAPE = Shape("float", (2, 3))
ONE = Shape("int32")


def made(shape: Shape = SHAPE, *names: str) -> tuple[Module, list[Instruction]]:
    """A main module with parameters of one shape."""
    main = Program().main
    return main, [main.add_parameter(n, shape) for n in names or ("x", "y", "z")]


def named(symbol: str, instruction: Instruction) -> Instruction:
    add_debug_symbols(instruction, [symbol])
    return instruction


def symbols(program: Program) -> list[tuple[str, set[str]]]:
    """The symbols of each instruction that has some, the main module's first."""
    found = [i for m in program.modules.values() for i in m if i.symbols]
    return [(i.name, set(i.symbols)) for i in found]


def run(main: Module, *passes: str) -> Program:
    return wb.compile(main.program, "ref", passes=passes).program


def test_they_print_sorted_behind_the_line_and_read_back():
    main, (x, y, _) = made()
    total = main.add("add", x, y)
    add_debug_symbols(total, ["sym_b", "sym_a"])
    add_debug_symbols(total, ["sym_a"])
    total.target_id = 2
    named("@output_0:r", main.add_return(total))
    printed = str(main.program)
    assert "@3 = add(x,y) -> float_type, {2, 3}, {3, 1}, target_id=2 # sym_a, sym_b\n" in printed
    assert "@4 = @return(@3) # @output_0:r\n" in printed
    read = text.parse(printed)
    assert str(read) == printed
    assert symbols(read) == symbols(main.program)


def test_they_can_be_taken_away_and_given_again():
    main, (x, y, _) = made()
    total = named("a", main.add("add", x, y))
    assert has_debug_symbols(main.program)
    remove_debug_symbols(total)
    remove_debug_symbols(total)
    assert not has_debug_symbols(main.program)
    named("b", total)
    assert total.symbols == ("b",)


@pytest.mark.parametrize("wrong", [[""], [3], [None]])
def test_what_is_no_name_is_refused(wrong):
    main, (x, y, _) = made()
    with pytest.raises(GraphError, match="debug symbol"):
        add_debug_symbols(main.add("add", x, y), wrong)


def test_a_replacement_has_the_symbols_of_what_it_makes_useless():
    main, (x, y, _) = made()
    relu = named("relu", main.add("relu", x))
    total = named("add", main.add("add", relu, y))
    main.add_return(total)
    product = main.insert(total, "mul", x, y)
    main.replace(total, product)
    assert symbols(main.program) == [("mul", {"add", "relu"})]


def test_what_is_still_used_keeps_its_symbols_to_itself():
    main, (x, y, z) = made()
    first = named("first", main.add("mul", x, y))
    second = named("second", main.add("add", first, y))
    third = named("third", main.add("add", second, z))
    main.add_return(third)
    main.replace(third, main.insert(third, "max", first, z))
    assert symbols(main.program) == [("mul", {"first"}), ("max", {"second", "third"})]


def test_a_replacement_that_was_there_already_has_both():
    main, (x, _, _) = made()
    zero = main.add("multibroadcast", main.add_literal(np.float32(0)), out_lens=(2, 3))
    relu = named("relu", main.add("relu", x))
    main.add_return(named("add", main.add("add", relu, zero)))
    assert symbols(run(main, "simplify_algebra")) == [("relu", {"add", "relu"})]


def test_all_that_is_made_has_the_symbols_of_all_that_goes():
    main, (x, y) = made(ONE, "x", "y")
    a = named("a1", main.add("add", x, main.add_literal(np.int32(1))))
    b = named("a2", main.add("add", y, main.add_literal(np.int32(2))))
    main.add_return(named("a0", main.add("add", a, b)))
    assert symbols(run(main, "simplify_algebra")) == [("add", {"a0", "a1", "a2"})] * 3


def test_products_joined_side_by_side():
    shape = Shape("int32", (3, 2, 2))
    main, (x,) = made(shape, "input")
    data = np.arange(12, dtype=np.int32).reshape(3, 2, 2)
    a = named("gemm1", main.add("dot", x, main.add_literal(data)))
    b = named("gemm2", main.add("dot", x, main.add_literal(data + 1)))
    main.add_return(named("sum", main.add("add", a, b)))
    both = {"gemm1", "gemm2"}
    assert symbols(run(main, "simplify_algebra")) == [
        ("concat", both), ("dot", both), ("slice", both), ("slice", both), ("add", {"sum"}),
    ]  # fmt: skip


def test_a_kernel_has_the_symbols_of_its_parts_and_they_have_none():
    main, (x, y, z) = made()
    a = named("add1", main.add("add", x, y))
    b = named("add2", main.add("add", a, x))
    c = named("add3", main.add("add", a, y))
    main.add_return(named("add4", main.add("add", main.add("add", b, c), z)))
    fused = run(main, "fuse_pointwise", "dead_code_elimination")
    assert symbols(fused) == [("pointwise", {"add1", "add2", "add3", "add4"})]


def test_a_fused_reduction_too():
    main, (x, y, _) = made()
    total = named("add", main.add("add", x, y))
    main.add_return(named("sum", main.add("reduce_sum", total, axes=[1])))
    fused = run(main, "fuse_pointwise", "fuse_reduce", "dead_code_elimination")
    assert symbols(fused) == [("fused_reduce", {"add", "sum"})]


def test_literals_and_parameters_get_none():
    main, (x,) = made(SHAPE, "x")
    constant = main.add_literal(np.ones((2, 3), np.float32))
    folded = named("folded", main.add("neg", constant))
    main.add_return(named("kept", main.add("add", x, folded)))
    assert symbols(run(main, "propagate_constant")) == [("add", {"kept"})]


def test_who_leaves_the_old_one_hands_its_symbols_on():
    main, (x, y, _) = made()
    relu = named("relu", main.add("relu", x))
    total = named("add", main.add("add", relu, y))
    end = main.add_return(total)
    product = main.insert(end, "mul", x, y)
    inherit_debug_symbols(total, product)
    assert product.symbols == ("add", "relu")
    assert total.symbols == ("add",)


def test_removing_by_itself_hands_nothing_on():
    main, (x, y, _) = made()
    useless = named("useless", main.add("relu", x))
    main.remove(useless)
    total = named("add", main.add("add", x, y))
    main.add_return(total)
    main.replace(total, main.insert(total, "mul", x, y))
    assert symbols(main.program) == [("mul", {"add"})]


def test_copies_and_recordings_have_them(tmp_path):
    main, (x, y, z) = made()
    total = named("add1", main.add("add", x, y))
    main.add_return(named("add2", main.add("add", total, z)))
    assert symbols(main.program.clone()) == symbols(main.program)
    build = wb.compile(main.program, "cpu")
    recorded = build.recording.last
    assert str(recorded) == str(build.program)
    assert symbols(build.program) == [("pointwise", {"add1", "add2"})]
    wb.save(build.recording, tmp_path / "recording")
    loaded = wb.load(tmp_path / "recording")
    assert isinstance(loaded, Recording)
    assert str(loaded.last) == str(build.program)
    assert rows_of(main.program).instructions[total.id].symbols == ("add1",)


def test_a_program_without_any_keeps_no_tally():
    main, (x, y, _) = made()
    main.add_return(main.add("add", x, y))
    assert wb.compile(main.program, "cpu").program.tally is None
