"""Rows: what becomes a node, what a chip, and what the words on them say."""

import numpy as np
import pytest

from tests.widgets.networks import fused, hostile, residual, transformer
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.widgets import label
from workbench.widgets.drawing import FAN_OUT
from workbench.widgets.rows import table_of


def test_constants_and_chains_of_constants_are_chips_on_their_users():
    table = table_of(residual(1))
    drawn = {n.title for n in table.nodes.values()}
    assert "literal" not in drawn
    assert "broadcast" not in drawn
    scaled = next(n for n in table.nodes.values() if n.title == "mul")
    assert [c.label for c in scaled.chips] == ["mul"]
    assert len(scaled.inputs) == 1


def test_a_scalar_shows_its_value():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3,)))
    half = program.main.add_literal(np.float32(0.5))
    wide = program.main.add("multibroadcast", half, out_lens=[3])
    program.main.add_return(program.main.add("mul", x, wide))
    node = next(n for n in table_of(program).nodes.values() if n.title == "mul")
    assert [c.label for c in node.chips] == ["0.5"]


def test_a_value_with_many_users_keeps_its_first_edge_and_is_a_port_elsewhere():
    table = table_of(transformer(FAN_OUT + 4))
    mask = next(n for n in table.nodes.values() if n.title == "mask")
    users = [n for n in table.nodes.values() if mask.id in n.arguments]
    assert sum(mask.id in n.inputs for n in users) == 1
    assert sum(any(c.id == mask.id and c.port for c in n.chips) for n in users) == len(users) - 1


def test_a_constant_without_users_is_drawn():
    program = Program()
    program.main.add_literal(np.zeros(3, np.float32))
    assert len(table_of(program).nodes) == 1


def test_an_empty_program_has_no_rows():
    assert table_of(Program()).nodes == {}


def test_a_fused_module_lists_its_parts_and_hides_its_borders():
    table = table_of(fused())
    node = next(n for n in table.nodes.values() if n.title == "pointwise")
    assert node.fact == "add · relu"
    inside = [n for n in table.nodes.values() if n.module == node.bodies[0]]
    assert [n.title for n in inside] == ["add", "relu"]
    assert [c.label for c in inside[0].chips] == ["x0", "x1"]


def test_a_module_alone_is_drawn_as_the_main_one():
    program = fused()
    table = table_of(program.modules["main:pointwise0"])
    assert {n.title for n in table.nodes.values()} >= {"add", "relu"}
    assert "pointwise" not in {n.title for n in table.nodes.values()}


def test_the_second_line_tells_a_node_from_its_neighbour():
    facts = {n.title: n.fact for n in table_of(residual(1)).nodes.values()}
    assert facts["convolution"] == "3×3"
    assert facts["reduce_mean"] == "axes 2, 3"
    assert facts["relu"] == "1×8×16×16"
    assert facts["return"] == ""


def test_long_and_hostile_names_are_cut_not_lost():
    for node in table_of(hostile()).nodes.values():
        assert len(node.title) <= 32
        assert "\n" not in node.text


@pytest.mark.parametrize(
    ("text", "limit", "shown"), [("abc", 5, "abc"), ("abcdefghij", 7, "abcd…ij")]
)
def test_clipped_keeps_both_ends(text: str, limit: int, shown: str):
    assert label.clipped(text, limit) == shown


def test_repeated_parts_are_counted():
    assert label.parts_text(["add", "add", "relu"]) == "add×2 · relu"
    assert label.parts_text(list("abcdefg")).endswith("2 more")
