"""The programs within a pass: each is the recording's own, and what stays keeps its place."""

import json
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

import workbench as wb
from tests.widgets.networks import chain, recorded, residual, transformer
from workbench.compiler.record.recording import Recording
from workbench.compiler.text.printing import names
from workbench.widgets import edit_states
from workbench.widgets.edit_states import EditStates
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.steps import Steps


@pytest.fixture(scope="module", params=[lambda: residual(2), lambda: transformer(1)])
def states(request: pytest.FixtureRequest) -> EditStates:
    return EditStates(Steps(recorded(request.param())))


def orders(states: EditStates, k: int, data: Any) -> list[Sequence[int]]:
    """The versions of each state, as a browser puts them together."""
    order: Sequence[int] = states.steps.scene.steps[states.steps.at(k)[0]]
    found: list[Sequence[int]] = []
    for head, tail, middle in data["states"]:
        order = [*order[:head], *middle, *order[len(order) - tail :]]
        found.append(order)
    return found


def nodes(states: EditStates, data: Any, order: Sequence[int]) -> list[tuple[int, int, int]]:
    """Id, module and slot of each version."""
    scene = states.steps.scene
    sent = {v["v"]: (v["id"], v["module"], v["slot"]) for v in data["versions"]}
    return [
        sent[v] if v in sent else (scene.versions[v].id, scene.versions[v].module, scene.slots[v])
        for v in order
    ]


def test_each_state_is_the_program_after_that_edit(states: EditStates):
    recording: Recording = states.steps.recording
    for k in filter(states.has, range(len(recording))):
        edits = recording[k].edits
        data = states.data(k, -1, len(edits) - 1)
        for edit, order in enumerate(orders(states, k, data), start=-1):
            program = recording[k].after_edit(edit)
            drawn = nodes(states, data, order)
            assert {id for id, _, _ in drawn} == {
                i.id for m in program.reachable_modules() for i in m
            }
            main = [id for id, module, _ in drawn if not module]
            assert main == [i.id for i in program.main]
        assert order == states.steps.scene.steps[states.steps.at(k)[1]]


def test_what_stays_keeps_its_place_and_no_place_is_shared(states: EditStates):
    for k in filter(states.has, range(len(states.steps.steps))):
        data = states.data(k, -1, len(states.steps.steps[k].edits) - 1)
        place: dict[int, int] = {}
        for order in orders(states, k, data):
            drawn = [
                (id, slot) for id, m, slot in nodes(states, data, order) if slot >= 0 and not m
            ]
            assert len(drawn) == len({slot for _, slot in drawn})
            assert all(place.setdefault(id, slot) == slot for id, slot in drawn)


def test_marks_are_those_of_the_edit(states: EditStates):
    recording = states.steps.recording
    for k in filter(states.has, range(len(recording))):
        edits = recording[k].edits
        data = states.data(k, -1, len(edits) - 1)
        known = orders(states, k, data)
        for edit, (gone, come), before, after in zip(
            edits, data["marks"], known[:-1], known[1:], strict=True
        ):
            assert {v for v, _ in gone} <= set(before)
            assert {v for v, _ in come} <= set(after)
            named = {id for id, _, _ in nodes(states, data, [v for v, _ in (*gone, *come)])}
            assert named <= set(edit.rows)


def test_a_page_stores_states_up_to_a_cap(states: EditStates, monkeypatch: pytest.MonkeyPatch):
    steps = [k for k in range(len(states.steps.steps)) if states.has(k)]
    assert list(states.stored()) == steps
    monkeypatch.setattr(edit_states, "PAGE_ROWS", 1)
    assert states.stored() == {}


def test_only_the_states_around_the_shown_edit_are_sent():
    view = PassExplorer(recorded(residual(1)))
    assert view.within == b""
    view.edit = 1
    sent = json.loads(zlib.decompress(view.within))
    assert (sent["index"], sent["first"], len(sent["states"])) == (view.step, 0, 2)
    view.edit = 10_000
    assert (
        json.loads(zlib.decompress(view.within))["first"]
        == len(view.recording[view.step].edits) - 2
    )


def test_why_not_answers_with_ids_and_says_what_is_unknown():
    build = wb.compile(residual(1), "cpu")
    view = build.explore()
    kernels = [i.id for i in build.program.main if i.modules]
    view.asked = kernels[:2]
    assert view.answer["pair"] == kernels[:2]
    assert "#" in view.answer["text"]
    assert "#" not in build.why_not(*kernels[:2])
    view.asked = [10**6, kernels[0]]
    assert "no instruction #1000000" in view.answer["text"]
    for wrong in ([], None, [1, 2, 3]):
        view.asked = wrong
    assert "no instruction" in view.answer["text"]
    view.retire()


def test_what_is_there_only_within_a_pass_has_a_place_though_none_is_free():
    program = chain(3)
    with Recording(program) as recording:
        first, end = list(program.main)[1:3]
        for _ in range(6):
            first = program.main.insert(end, "neg", first)
        program.main.replace(end, first)
        first, end = list(program.main)[1], list(program.main)[7]
        program.main.replace(end, made := program.main.insert(end, "tanh", first))
        while (above := list(program.main)[list(program.main).index(made) - 1]).name == "neg":
            program.main.remove(above)
    view = PassExplorer(recording)
    whole = view.page_data()
    assert "deflated" in whole
    for fresh in (view, PassExplorer(recording)):
        for number in range(len(recording[0].edits)):
            fresh.edit = number
            data = json.loads(zlib.decompress(fresh.within))
            assert data["scene"] == len(fresh.scene.versions)
            states = EditStates(fresh.steps)
            data = states.data(0, -1, number)
            for order in orders(states, 0, data):
                slots = [slot for _, module, slot in nodes(states, data, order) if not module]
                assert min(slots) >= 0
                assert len(slots) == len(set(slots))
    assert max(len(s) for s in view.scene.steps) > len(view.scene.steps[0])


def test_each_edit_has_its_own_text_diff():
    steps = Steps(recorded(residual(2)))
    k = steps.first_visible()
    data = EditStates(steps).data(k, -1, len(steps.steps[k].edits) - 1)
    for edit, (said, rows) in zip(steps.steps[k].edits, data["diffs"], strict=True):
        program = recorded_names(steps, k, edit.index)
        listed = {row[1]: row[-1] for row in rows if row[0] in "+~="}
        assert said != "nothing changed"
        assert set(listed) >= set(edit.added) & set(program)
        assert all(text.startswith(program[id]) for id, text in listed.items())


def recorded_names(steps: Steps, k: int, edit: int) -> dict[int, str]:
    """The printed names after an edit."""
    return names(steps.recording[k].after_edit(edit))
