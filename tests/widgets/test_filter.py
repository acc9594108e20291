"""The part of a graph that is shown: neighbourhoods, paths, dashed edges, and that the browser agrees."""

import itertools
import json
import random
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.widgets.networks import fused, recorded, residual, transformer
from tests.widgets.test_javascript import node
from workbench.compiler.ir.program import Program
from workbench.widgets import GraphView, KernelView, PassExplorer
from workbench.widgets.filter import hops_around, path_between, slots_shown, through_hidden
from workbench.widgets.picture import Layout, edges_of

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def view() -> GraphView:
    return GraphView(residual(2))


def titles(view: GraphView, ids: list[int]) -> list[str]:
    return [n.title for n in view.scene.versions if n.id in ids]


def ids(view: GraphView, query: str) -> list[int]:
    return view.find(f"{query} -op:literal -op:broadcast")


def case(view: GraphView, source: random.Random) -> dict[str, Any]:
    """A filter of a graph, drawn at random."""
    drawn = [n.id for n in view.scene.versions]
    some = source.sample(drawn, min(4, len(drawn))) or [0]
    part = source.sample(drawn, len(drawn) // 2)
    return {
        "data": view.page_data(), "ids": [*some, 10**6], "n": source.randrange(4),
        "only": source.choice([None, [], part]), "hidden": source.choice([[], some, part]),
        "open": [k for k in sorted(view.scene.openable()) if source.random() < 0.6],
    }  # fmt: skip


def test_the_browser_filters_as_python_does():
    source = random.Random(3)
    programs = [residual(2), transformer(1), fused(), Program("empty")]
    views = [GraphView(program) for program in programs for _ in range(8)]
    cases = [case(view, source) for view in views]
    there = json.loads(node("filter_cases.mjs", given=json.dumps(cases)))
    for view, given, found in zip(views, cases, there, strict=True):
        scene, step = view.scene, view.scene.steps[0]
        start, n = given["ids"], given["n"]
        ways = [hops_around(scene, step, start, n, way) for way in ("in", "out", "both")]
        assert found["hops"] == ways
        assert found["path"] == path_between(scene, step, start[0], start[-1])
        slots = slots_shown(scene, given["only"], given["hidden"])
        assert (None if found["slots"] is None else set(found["slots"])) == slots
        through = None if slots is None else through_hidden(scene, step, slots)
        assert found["through"] == (through if through is None else [[*i] for i in through.items()])
        layout = Layout(scene, given["open"], slots)
        boxes = {i: (b.x, b.y, b.width, b.height) for i, b in layout.picture.boxes.items()}
        places = {i: tuple(place) for i, *place in found["boxes"]}
        assert places.keys() == boxes.keys()
        for item, place in places.items():
            assert place == pytest.approx(boxes[item])
        assert found["size"] == pytest.approx([layout.picture.width, layout.picture.height])
        edges = [(e.source, e.user, e.start, e.end, e.dashed) for e in edges_of(layout, step)]
        assert sorted(map(tuple, found["edges"])) == sorted(edges)


def test_hops_go_up_down_or_both(view: GraphView):
    relu = ids(view, "node:/layer0/block0/relu_14")
    assert titles(view, view.hops(relu, 1, way="in")) == ["add", "relu"]
    assert sorted(titles(view, view.hops(relu[0], 1, way="out"))) == ["add", "convolution", "relu"]
    assert view.hops(relu, 0) == relu == view.only
    assert len(view.hops(relu, 99)) == len(ids(view, "op:*"))
    assert view.hops([], 3) == []
    assert view.hops(10**6, 3) == []
    with pytest.raises(ValueError, match="way is 'up', expected in, out or both"):
        view.hops(relu, 1, way="up")  # pyright: ignore[reportArgumentType]


def test_a_path_holds_all_ways_between_two_nodes_in_either_direction(view: GraphView):
    image, first = (
        ids(view, "name:image")[0],
        ids(view, "scope:layer0/block0 -scope:conv0 -scope:conv1"),
    )
    found = view.path(first[-1], image)
    assert found == view.path(image, first[-1]) == view.only
    assert set(found) == {image, *ids(view, "scope:layer0/block0")}
    weight = view.find("op:literal")[0]
    assert view.path(image, weight) == []
    assert view.only == found  # as it was


def test_what_is_isolated_is_drawn_with_dashes_for_what_lies_between(view: GraphView):
    view.isolate(ids(view, "op:convolution"))
    layout = Layout(view.scene, view.open_groups(), view.slots_shown())
    edges = edges_of(layout, view.scene.steps[0])
    convolutions = view.only or []
    assert {(e.source, e.user) for e in edges} >= set(itertools.pairwise(convolutions))
    assert all(e.dashed for e in edges)
    root = ET.fromstring(view.to_svg())
    drawn = [int(g.get("data-id", "")) for g in root.iter(f"{SVG}g") if g.get("data-id")]
    assert sorted(drawn) == sorted(convolutions)
    assert sum("d" in (p.get("class") or "").split() for p in root.iter(f"{SVG}path")) == len(edges)
    assert "4 of 25 nodes shown" in "".join(root.itertext())
    assert view.to_dot().count("style=dashed") == len(edges)
    view.show_all()
    assert "nodes shown" not in view.to_svg()


def test_hiding_adds_up_and_isolating_starts_anew(view: GraphView):
    first, second, *_ = ids(view, "op:convolution")
    view.hide(first)
    view.hide([second])
    assert view.hidden == sorted([first, second])
    assert f'data-id="{first}"' not in view.to_svg()
    view.isolate(first)
    assert (view.only, view.hidden) == ([first], [])


def test_a_body_is_shown_with_its_owner_and_an_owner_with_its_body():
    view = GraphView(fused())
    inner = view.find("main:pointwise0:@2")
    view.isolate(inner)
    view.expanded = sorted(view.scene.openable())
    drawn = {view.scene.versions[v].title for v in view.scene.steps[0]
             if view.scene.slots[v] in (view.slots_shown() or ())}  # fmt: skip
    assert drawn == {"pointwise", "add"}
    assert ">add</text>" in view.to_svg()
    view.isolate(view.find("op:pointwise"))
    assert len(view.slots_shown() or ()) == 3
    view.hide(view.find("op:pointwise"))
    assert view.slots_shown() == set()
    assert "0 of " in view.to_svg()


def test_a_constant_is_shown_on_its_users(view: GraphView):
    weight = view.find("op:literal scope:head or node:head.weight")[0]
    view.isolate(weight)
    assert ">dot</text>" in view.to_svg()


def test_the_filter_and_the_query_are_in_the_state(view: GraphView):
    view.query, view.hidden = "op:relu ms>0", [3]
    view.isolate([7, 5, 6, 9])
    view.hide([5])
    assert "i=5-7,9" in view.state
    again = GraphView(residual(2), state=view.state)
    assert (again.only, again.hidden, again.query) == ([5, 6, 7, 9], [5], "op:relu ms>0")
    again.state = ""
    assert (again.only, again.hidden, again.query) == (None, [], "")


def test_in_the_explorer_a_replacement_stands_where_the_replaced_was_isolated():
    view = PassExplorer(recorded(residual(2)))
    view.isolate(view.find("mark:removed"))
    assert view.only
    assert not set(view.find("mark:added")) & set(view.only)
    assert ">convolution</text>" in view.to_svg()
    counted = [view.find(f"mark:{mark}") for mark in ("added", "removed", "changed", "*")]
    assert sum(map(len, counted[:3])) == len(counted[3])


def test_rules_and_passes_are_found_in_the_explorer():
    recording = recorded(residual(2))
    first = next(k for k, s in enumerate(recording) if s.edits)
    view = PassExplorer(recording, step=first)
    edits = recording[view.step].edits
    touched = {id for e in edits for id in (*e.added, *e.removed, *e.changed)}
    assert set(view.find(f'rule:"{edits[0].rule}"')) == touched
    made = {id for e in edits for id in e.added}
    assert set(view.find(f"pass:{recording[view.step].name}")) == made
    view.step = len(recording) - 1
    assert set(view.find(f"pass:{recording[first].name}")) == made & {
        view.scene.versions[v].id for v in view.scene.steps[-1]
    }


def test_kernels_are_found_in_the_graph_beside_them(view: GraphView):
    from tests.widgets.kernels import row

    first, second = ids(view, "op:convolution")[:2]
    KernelView([row(0, first, "gemm"), row(1, second, "copy")], graph=view)
    assert view.find("kernel:gemm") == [first]
    assert view.find("kernel:*") == [first, second]
