"""Layouts: nothing overlaps, data flows down, the same input gives the same picture."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.programs import programs
from tests.widgets.networks import fused, residual, transformer
from workbench.compiler.ir.program import Program
from workbench.widgets.order import arrange
from workbench.widgets.picture import Layout, edges_of
from workbench.widgets.place import Size, place
from workbench.widgets.rows import table_of
from workbench.widgets.scene import Scene, scene_of
from workbench.widgets.scopes import Graph, schedule


def scene(program: Program) -> Scene:
    return scene_of([table_of(program)])


def overlaps(layout: Layout) -> list[tuple[int, int]]:
    """Pairs of boxes of one container that share area."""
    found = []
    by_parent: dict[int, list[int]] = {}
    for item in layout.picture.boxes:
        by_parent.setdefault(layout.parent_of(item), []).append(item)
    for items in by_parent.values():
        boxes = sorted((layout.picture.boxes[i] for i in items), key=lambda b: b.y)
        for k, a in enumerate(boxes):
            for b in boxes[k + 1 :]:
                if b.y >= a.y + a.height - 1e-6:
                    break
                if a.x + 1e-6 < b.x + b.width and b.x + 1e-6 < a.x + a.width:
                    found.append((a.item, b.item))
    return found


def check(program: Program) -> None:
    made = scene(program)
    for opened in (set(), made.default_open(), made.openable()):
        layout = Layout(made, opened)
        assert overlaps(layout) == []
        for panel in layout.picture.panels:
            group = layout.group_of(panel.item)
            inside = [i for i in layout.picture.boxes if layout.parent_of(i) == group]
            for box in (layout.picture.boxes[i] for i in inside):
                assert panel.x <= box.x
                assert box.x + box.width <= panel.x + panel.width + 1e-6
                assert panel.y <= box.y
                assert box.y + box.height <= panel.y + panel.height
        for edge in edges_of(layout, made.steps[0]):
            assert edge.points[0][1] < edge.points[-1][1], "data flows down"


@given(programs())
def test_random_programs_are_laid_out(program: Program):
    check(program)


@pytest.mark.parametrize(
    "program", [residual(), transformer(3), transformer(3, scoped=False), fused()]
)
def test_networks_are_laid_out(program: Program):
    check(program)


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=40), st.data())
def test_any_graph_has_an_order_even_with_cycles(edges: list[tuple[int, int]], data: st.DataObject):
    scopes = st.lists(st.sampled_from("abc"), max_size=3).map(tuple)
    paths = data.draw(st.lists(scopes, min_size=15, max_size=15))
    graph = Graph(paths, edges)
    graph.add_bodies([])
    order = arrange(graph)
    placed = [i for c in order.containers for rank in c.ranks for i in rank]
    slots = [i for i in placed if i < 15]
    assert sorted(slots) == list(range(15))
    assert len(placed) == len(set(placed))


def test_ranks_grow_along_edges():
    made = scene(transformer(2))
    layout = Layout(made, made.openable())
    for source, user in made.graph.edges:
        if made.graph.parent[source] == made.graph.parent[user]:
            assert layout.rank[source] < layout.rank[user]


def test_the_same_program_gives_the_same_picture():
    first, second = (Layout(scene(residual()), ()).picture for _ in range(2))
    assert first == second


def test_a_group_that_opens_leaves_the_order_around_it():
    made = scene(residual())
    closed, opened = Layout(made, set()), Layout(made, {"layer0"})
    top = [i for i in closed.picture.boxes if closed.parent_of(i) == -1]
    by_height = sorted(top, key=lambda i: (closed.picture.boxes[i].y, closed.picture.boxes[i].x))
    again = sorted(top, key=lambda i: (opened.picture.boxes[i].y, opened.picture.boxes[i].x))
    assert by_height == again


def test_a_chain_is_straight():
    program = Program()
    from workbench.compiler.ir.shape import Shape

    x = program.main.add_parameter("x", Shape("float", (3,)))
    for _ in range(20):
        x = program.main.add("relu", x)
    program.main.add_return(x)
    boxes = Layout(scene(program), ()).picture.boxes.values()
    assert len({round(b.centre, 6) for b in boxes}) == 1


def test_scopes_stay_together_and_a_source_does_not_cut_them():
    made = scene(transformer(4))
    keys = [g.key for g in made.graph.groups]
    assert "encoder/layer.2/attention" in keys
    assert not [k for k in keys if "#" in k]


def test_a_group_of_one_is_left_out():
    graph = Graph([("a", "b"), ("a", "c"), ("d",)], [(0, 1), (1, 2)])
    graph.add_bodies([])
    assert [g.key for g in graph.groups] == ["a"]


def test_the_schedule_keeps_to_a_scope():
    paths = [(), ("a",), ("b",), ("a",), ("b",)]
    assert schedule(range(5), [(0, 1), (0, 2), (1, 3), (2, 4)], paths) == [0, 1, 3, 2, 4]


def test_a_body_opens_like_a_folder():
    made = scene(fused())
    (key,) = made.openable()
    inside = [s for s, parent in enumerate(made.graph.parent) if parent >= 0]
    closed, opened = Layout(made, ()), Layout(made, {key})
    assert {closed.shown_as(s) for s in inside} == set(made.bodies)
    assert {opened.shown_as(s) for s in inside} == set(inside)


def test_packing_is_least_squares_within_a_rank():
    graph = Graph([()] * 4, [(0, 1), (0, 2), (0, 3)])
    graph.add_bodies([])
    order = arrange(graph)
    plan = place(order.containers[0], [Size(10, 10, 20)] * 4, 4)
    assert plan.x[0] == pytest.approx(plan.x[2], abs=1.0)


def test_five_thousand_instructions_take_a_bounded_number_of_steps():
    """Counted, not timed: calls of the layout's own functions grow with the size, not its square."""

    def calls(layers: int) -> tuple[int, int]:
        table = table_of(transformer(layers, scoped=False))
        count = 0

        def profile(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(profile)
        try:
            made = scene_of([table])
            Layout(made, ())
        finally:
            sys.setprofile(None)
        return len(table.order), count

    small, large = calls(20), calls(95)
    assert large[0] > 5000
    assert large[1] / large[0] < 1.5 * small[1] / small[0]
    assert large[1] / large[0] < 150
