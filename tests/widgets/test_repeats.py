"""Repeated blocks: found by structure, drawn as one closed group, whole in every step."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.networks import (
    HOSTILE,
    Builder,
    chain,
    fused,
    hostile,
    recorded,
    residual,
    transformer,
)
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.graph_view import GraphView
from workbench.widgets.picture import Layout, edges_of
from workbench.widgets.repeats import Periods, Repeat, Wiring
from workbench.widgets.rows import table_of
from workbench.widgets.scene import Scene, scene_of
from workbench.widgets.scopes import Group


def scene(program: Program) -> Scene:
    return scene_of([table_of(program)])


def folds(made: Scene) -> list[Group]:
    return [g for g in made.graph.groups if g.times]


def blocks(*widths: int, change: int | None = None, scoped: bool = False) -> Program:
    """Dots with a bias and a shortcut, one after the other; one of them may have another operation."""
    b = Builder("blocks")
    x = b.main.add_parameter("x", Shape("float", (2, 8)))
    for k, width in enumerate(widths):
        scope = f"block.{k}" if scoped else ""
        y = b.add("dot", x, b.weight(f"up{k}", 8, width), scope=scope)
        y = b.add("tanh" if k == change else "relu", y, scope=scope)
        y = b.add("dot", y, b.weight(f"down{k}", width, 8), scope=scope)
        x = b.add("add", x, y, scope=scope)
    b.main.add_return(x)
    return b.program


@pytest.mark.parametrize("scoped", [True, False])
def test_equal_layers_are_one_closed_group_with_their_number(scoped: bool):
    made = scene(transformer(12, scoped=scoped))
    (fold,) = folds(made)
    assert (fold.times, fold.count) == (12, 480)
    assert fold.label == ("encoder/layer.0 … layer.11 × 12" if scoped else "block × 12")
    assert fold.key not in made.default_open(10**6)
    drawn = {Layout(made, made.default_open()).shown_as(s) for s in range(len(made.sizes))}
    assert len(drawn) < 10
    inside = [g for g in made.graph.groups if g.parent == made.graph.groups.index(fold)]
    assert [g.count for g in inside] == [40] * 12
    assert {g.count for g in inside} == {40}


@pytest.mark.parametrize(
    ("program", "times"),
    [
        (blocks(4, 4, 4, 4), [4]),
        (blocks(4, 4, 4, 5, 5, 5), [3, 3]),
        (blocks(4, 4, 4, 4, 4, 4, 4, change=3), [3, 3]),
        (blocks(4, 4), []),
        (blocks(4, 5, 6, 7), []),
        (chain(40), []),
        (residual(), []),
        (residual(6), [3]),
        (fused(), []),
        (hostile(), []),
        (Program("empty"), []),
    ],
)
def test_blocks_repeat_if_operations_and_shapes_are_equal(program: Program, times: list[int]):
    assert [g.times for g in folds(scene(program))] == times


@pytest.mark.parametrize("scoped", [True, False])
def test_attributes_constants_and_wires_count(scoped: bool):
    def repeated(step: object) -> list[int]:
        b = Builder("wires")
        x = y = b.main.add_parameter("x", Shape("float", (4, 4)))
        for k in range(4):
            x, y = step(b, k, x, y, f"block.{k}" if scoped else "")  # type: ignore[operator]
        b.main.add_return(x)
        return [g.times for g in folds(scene(b.program))]

    def same(b: Builder, _k: int, x: Instruction, _y: Instruction, s: str) -> object:
        a = b.add("relu", x, scope=s)
        return b.add("add", b.add("tanh", a, scope=s), x, scope=s), a

    def crossed(b: Builder, k: int, x: Instruction, _y: Instruction, s: str) -> object:
        a = b.add("relu", x, scope=s)
        c = b.add("tanh", a, scope=s)
        return b.add("add", *((c, x) if k % 2 else (x, c)), scope=s), a

    def turned(b: Builder, k: int, x: Instruction, _y: Instruction, s: str) -> object:
        a = b.add("transpose", x, permutation=[1, 0] if k % 2 else [0, 1], scope=s)
        return b.add("add", b.add("tanh", a, scope=s), x, scope=s), a

    def apart(b: Builder, _k: int, x: Instruction, _y: Instruction, s: str) -> object:
        a = b.add("relu", next(iter(b.main)), scope=s)
        return b.add("add", b.add("tanh", a, scope=s), a, scope=s), x

    assert [repeated(step) for step in (same, crossed, turned, apart)] == [[4], [], [], []]


def test_a_source_of_all_blocks_and_one_of_each_do_not_part_them():
    b = Builder("decoder")
    x, mask = (b.main.add_parameter(n, Shape("float", (4, 4))) for n in ("x", "mask"))
    for k in range(4):
        past = b.main.add_parameter(f"past.{k}", Shape("float", (4, 4)))
        y = b.add("add", b.add("dot", x, past, scope=f"h.{k}"), mask, scope=f"h.{k}")
        x = b.add("add", x, b.add("tanh", y, scope=f"h.{k}"), scope=f"h.{k}")
    b.main.add_return(x)
    made = scene(b.program)
    assert [(g.label, g.times, g.count) for g in folds(made)] == [("h.0 … h.3 × 4", 4, 20)]
    assert [g.label for g in made.graph.groups[1:]] == ["h.0", "h.1", "h.2", "h.3"]


def test_a_hostile_name_leaves_the_number_in_sight():
    b = Builder("hostile")
    x = b.main.add_parameter("x", Shape("float", (4, 4)))
    for k in range(3):
        for op in ("relu", "tanh", "neg"):
            x = b.add(op, x, scope=f"{HOSTILE * 40}{k}".replace("/", "|"))
    b.main.add_return(x)
    (fold,) = folds(scene(b.program))
    assert fold.label.endswith("× 3")
    assert len(fold.label) < 60


def test_the_blocks_are_one_group_in_every_step_and_changes_stay_inside():
    view = PassExplorer(recorded(transformer(5)))
    (fold,) = folds(view.scene)
    graph = view.scene.graph
    inside = {graph.groups.index(fold)}
    inside |= {k for k, g in enumerate(graph.groups) if g.parent in inside}
    for versions in view.scene.steps:
        slots = [view.scene.slots[v] for v in versions if view.scene.slots[v] >= 0]
        assert sum(bool(inside & set(graph.chain(s))) for s in slots) > 0.8 * len(slots)
    data = view.to_svg()
    assert "× 5" in data


def test_states_that_are_laid_out_later_have_their_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("workbench.widgets.steps.AT_ONCE", 0)
    for program in (transformer(4), transformer(4, scoped=False)):
        view = PassExplorer(recorded(program), step=0)
        view.step = len(view.steps.steps) - 1
        graph = view.scene.graph
        outside = [s for s, parent in enumerate(graph.parent) if parent < 0]
        assert len(outside) < 12


def test_pictures_and_search_know_what_is_in_closed_blocks():
    view = GraphView(transformer(4))
    assert "× 4" in view.to_svg()
    assert len(view.find("op:exp")) == 4
    view.select(view.find("op:exp")[2])
    assert "× 4" in view.to_svg()
    view.isolate(view.find("op:exp"))
    assert "4 instructions" in view.to_svg()


def test_edges_of_closed_blocks_flow_down():
    made = scene(transformer(6, scoped=False))
    (fold,) = folds(made)
    for opened in (set[str](), {fold.key}):
        layout = Layout(made, opened)
        for edge in edges_of(layout, made.steps[0]):
            assert edge.points[0][1] < edge.points[-1][1]


@given(st.lists(st.integers(0, 2), max_size=60))
def test_every_repeat_that_is_told_is_one(kinds: list[int]):
    found = list(Periods(kinds).repeats(lambda run, _end: run))
    for run in found:
        parts = [kinds[a:b] for a, b in run.bounds()]
        assert len(parts) >= 3
        assert all(a == b for a, b in pairwise(parts))
    assert all(a.end <= b.first for a, b in pairwise(found))


@given(st.permutations(range(9)), st.integers(1, 9), st.integers(3, 9), st.integers(0, 3))
def test_a_block_that_is_repeated_is_found_behind_anything(
    items: list[int], length: int, times: int, before: int
):
    kinds = [*range(-1, -1 - before, -1), *items[:length] * times]
    (run,) = Periods(kinds).repeats(lambda run, _end: run)
    assert run == Repeat(before, length, times)


def test_the_narrowest_place_is_taken():
    wiring = Wiring([0] * 12, {k: [k - 1, *([k - 2] if k % 3 == 2 else [])] for k in range(1, 12)})
    assert wiring.narrowest(3, 2, [[k] for k in range(12)]) == 0
    assert wiring.narrowest(3, 2, [[k] for k in range(2, 12)]) == 1
    assert wiring.narrowest(3, 0, [[k] for k in range(2, 12)]) == 0


def test_equal_items_cost_no_more_when_there_are_more():
    """Counted, not timed: a chain of one operation, and blocks of which none are wired alike."""

    def calls(count: int) -> int:
        kinds = np.random.default_rng(0).integers(0, 3, count).tolist()
        seen = 0

        def profile(_frame: object, event: str, _argument: object) -> None:
            nonlocal seen
            seen += event == "call"

        sys.setprofile(profile)
        try:
            for listed in ([0] * count, [0, 1] * (count // 2), kinds):
                list(Periods(listed).repeats(lambda _run, _end: None))
        finally:
            sys.setprofile(None)
        return seen

    assert calls(4_000) < 5 * calls(1_000)


def test_a_repeat_tells_its_blocks():
    assert Repeat(2, 3, 2).bounds() == [(2, 5), (5, 8)]
    assert Repeat(2, 3, 2).end == 8
