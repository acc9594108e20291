"""A large step in two parts: first all that is outside closed groups, as the whole has it, then the rest."""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.widgets.networks import recorded, residual, transformer
from tests.widgets.views import unpacked
from workbench.compiler.record.recording import Recording
from workbench.widgets import glimpse
from workbench.widgets import steps as steps_module
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.glimpse import Glimpse
from workbench.widgets.packing import packed
from workbench.widgets.steps import Steps

Picture = dict[int, tuple[int, int | None]]
SIDES = (("before", "gone"), ("after", "come"))


@pytest.fixture(scope="module", params=[lambda: residual(8), lambda: transformer(4)])
def recording(request: pytest.FixtureRequest) -> Recording:
    return recorded(request.param())


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "AT_ONCE", 0)
    monkeypatch.setattr(glimpse, "LARGE", 1)
    monkeypatch.setattr(glimpse, "SHARE", 0)


def pictures(steps: Steps, detail: dict[str, Any], opened: Collection[str]) -> list[Picture]:
    """The version and the mark in each slot that is outside closed scopes, before and after."""
    scene = steps.scene
    shut = {
        k for k, g in enumerate(scene.graph.groups) if g.kind == "scope" and g.key not in opened
    }
    found: list[Picture] = []
    for side, changes in SIDES:
        marks: dict[int, int] = dict(detail[changes])
        order: list[int] = detail[side].values.tolist()
        slots = {v: slot for v in order if (slot := scene.slots[v]) >= 0}
        found.append(
            {
                s: (v, marks.get(v))
                for v, s in slots.items()
                if shut.isdisjoint(scene.graph.chain(s))
            }
        )
    return found


@pytest.mark.parametrize("turned", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("opened", ["none", "half"])
def test_what_shows_first_is_what_the_whole_shows_there(
    recording: Recording, opened: str, turned: bool
):
    steps = Steps(recording)
    scene, compared = steps.scene, 0
    groups = set(sorted(scene.openable())[::2]) if opened == "half" else set[str]()
    changed = [k for k, step in enumerate(recording) if step.changed]
    for k in reversed(changed) if turned else changed:
        if steps.is_laid_out(k):
            continue
        drawn = set(steps.last.rows.instructions)
        first = pictures(steps, Glimpse(steps, k, groups).detail(), groups)
        whole = pictures(steps, steps.detail(k), groups)
        for shown, there in zip(first, whole, strict=True):
            assert shown.items() <= there.items()
            late = {scene.versions[v].id for s, (v, _) in there.items() if s not in shown}
            assert not late & drawn, "only what replaces nothing may come with the rest"
            compared += len(shown)
    assert compared > 20


def test_of_closed_groups_only_what_crosses_their_border_is_drawn(recording: Recording):
    steps = Steps(recording)
    k = max(range(len(recording)), key=lambda k: len(recording[k].edits))
    found = Glimpse(steps, k, steps.scene.default_open(0))
    assert 0 < len(found.shown) < len(found.touched) / 2


def looked_at(view: PassExplorer, k: int, done: Callable[[], bool]) -> bytes:
    """Go to a step as a notebook does, wait until something is done, and return the first answer."""

    async def look() -> bytes:
        view.step = k
        first = view.detail
        async with asyncio.timeout(10):
            while not done():
                await asyncio.sleep(0.005)
        return first

    with ThreadPoolExecutor(1) as apart:  # a browser's driver may run a loop in this thread
        return apart.submit(asyncio.run, look()).result()


def test_the_whole_step_follows_what_shows_of_it(recording: Recording):
    view, steps = PassExplorer(recording), Steps(recording)
    k = max(set(range(len(recording))) - {view.step}, key=lambda k: len(recording[k].edits))
    first = unpacked(looked_at(view, k, lambda: "partial" not in unpacked(view.detail)))
    assert first["partial"]
    assert first["index"] == k
    whole, expected = unpacked(view.detail), unpacked(packed(steps.detail(k)))
    for name in ("index", "summary", "edits", "misses", "laws", "diff", "replaced"):
        assert whole[name] == expected[name], name
    sizes = [
        len(d[name]) for d in (whole, expected) for name in ("before", "after", "gone", "come")
    ]
    assert sizes[:4] == sizes[4:]


def test_a_step_of_which_most_shows_comes_as_a_whole(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(glimpse, "SHARE", 4)
    view = PassExplorer(recording)
    view.expanded = sorted(view.scene.openable())
    changed = [k for k, step in enumerate(recording) if step.changed and k != view.step]
    assert "partial" not in unpacked(looked_at(view, changed[-1], lambda: True))
