"""The steps of a recording on one scene: what did not change keeps its place; marks and diff go by id."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.widgets.networks import fused, lowered, recorded, residual, transformer
from tests.widgets.views import unpacked
from workbench.compiler.ir.program import Program
from workbench.compiler.record.recording import Recording
from workbench.compiler.text.printing import lines, printed_ids, row_names, row_text
from workbench.widgets import ahead, text_diff
from workbench.widgets import steps as steps_module
from workbench.widgets.drawing import Drawing
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.packing import packed
from workbench.widgets.picture import Layout
from workbench.widgets.steps import Steps
from workbench.widgets.text_diff import ADDED, CHANGED, REMOVED, Texts, merged


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded(residual())


@pytest.fixture(scope="module")
def steps(recording: Recording) -> Steps:
    return Steps(recording)


def test_the_states_are_those_of_the_recording(recording: Recording, steps: Steps):
    for k, step in enumerate(recording):
        for state, program in zip(steps.at(k), (step.before, step.after), strict=True):
            shown = {steps.scene.versions[v].id for v in steps.scene.steps[state]}
            assert shown == {i.id for m in program.reachable_modules() for i in m}


def test_unchanged_instructions_keep_their_place_through_every_pass(steps: Steps):
    layout = Layout(steps.scene, steps.scene.openable())
    seen: dict[int, int] = {}
    for state in steps.scene.steps:
        for version in state:
            node, slot = steps.scene.versions[version], steps.scene.slots[version]
            if slot >= 0 and node.module == 0:
                assert seen.setdefault(node.id, slot) == slot
    assert all(slot in layout.picture.boxes for slot in seen.values())


def test_two_instructions_of_one_state_never_share_a_place(steps: Steps):
    for state in steps.scene.steps:
        slots = [steps.scene.slots[v] for v in state if steps.scene.slots[v] >= 0]
        assert len(slots) == len(set(slots))


def test_what_replaces_takes_the_place(recording: Recording, steps: Steps):
    before, after = steps.scene.steps[0], steps.scene.steps[1]
    place = {steps.scene.versions[v].id: steps.scene.slots[v] for v in (*before, *after)}
    pairs = [p for e in recording[steps.first_changed()].edits for p in e.replaced]
    moved = [(a, b) for a, b in pairs if place.get(a, -1) >= 0 and place.get(b, -1) >= 0]
    assert moved
    assert all(place[a] == place[b] for a, b in moved)


def test_marks_are_the_difference_of_the_two_programs(recording: Recording, steps: Steps):
    for k, step in enumerate(recording):
        old, new = (
            {i.id for m in p.reachable_modules() for i in m} for p in (step.before, step.after)
        )
        gone, come = steps.marks(k)
        assert {i for i, m in come.items() if m == ADDED} == new - old
        assert old - new <= {i for i, m in gone.items() if m == REMOVED}


def test_an_input_that_gave_way_is_no_change():
    recording = recorded(residual(1))
    steps = Steps(recording)
    k = steps.first_changed()
    _, come = steps.marks(k)
    assert CHANGED not in come.values()


def test_the_diff_names_every_change_once_and_no_renumbered_row(steps: Steps):
    for k in range(len(steps.steps)):
        gone, come = steps.marks(k)
        rows = steps.diff(k)
        removed = [i for kind, i, *_ in rows if kind == "-"]
        assert sorted(removed) == sorted(i for i, m in gone.items() if m == REMOVED)
        changed = [i for kind, i, *_ in rows if kind in "+~"]
        assert set(changed) <= set(come) | set(removed)
        assert set(come) <= set(changed)


def test_merged_puts_what_is_gone_behind_what_it_stood_behind():
    rows = merged([1, 2, 3], [1, 4, 3], {2: REMOVED}, {4: ADDED})
    assert [*rows] == [("=", 1), ("-", 2), ("+", 4), ("=", 3)]


def test_merged_folds_what_is_far_from_a_change():
    before, after = [1, 2, 3, 4, 5, 6, 7, 8, 9], [2, 3, 4, 5, 7, 8, 10]
    rows = merged(before, after, {1: REMOVED, 6: REMOVED, 9: REMOVED}, {10: ADDED})
    assert [*rows] == [
        ("-", 1), ("=", 2), ("…", 2), ("=", 5), ("-", 6), ("=", 7), ("=", 8), ("-", 9), ("+", 10)
    ]  # fmt: skip
    assert [*merged(before, before, {}, {5: CHANGED})] == [
        ("…", 3), ("=", 4), ("~", 5), ("=", 6), ("…", 3)
    ]  # fmt: skip


def test_an_edit_says_its_rule_place_and_what_it_did(recording: Recording, steps: Steps):
    k = steps.first_changed()
    edits = steps.detail(k)["edits"]
    numbers, ids, ends = (edits[name].values for name in ("rule", "ids", "ends"))
    for number, edit in enumerate(recording[k].edits):
        rule, _, file, line = edits["rules"][numbers[number]]
        assert (rule, file, line) == (edit.rule, edit.file, edit.line)
        first, *bounds = ends[max(0, 3 * number - 1) : 3 * number + 3].tolist()
        parts = [0, first, *bounds] if number == 0 else [first, *bounds]
        found = [tuple(ids[a:b]) for a, b in pairwise(parts)]
        assert found == [edit.added, edit.removed, edit.changed]
    assert all(edits["said"])


def test_an_edit_far_down_the_list_is_said_when_it_is_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(steps_module, "SAID", 1)
    view = PassExplorer(recorded(residual(1)))
    sentences = view.recording[view.step].sentences
    assert unpacked(view.detail)["edits"]["said"] == [sentences[0]]
    view.edit = len(sentences) - 1
    ((said, _),) = unpacked(view.within)["diffs"]
    assert said.startswith(f"{sentences[-1]}: ")


def test_the_explorer_sends_one_step_at_a_time(recording: Recording):
    view = PassExplorer(recording)
    assert view.step == Steps(recording).first_visible()
    first = view.detail
    view.step = next(k for k, s in enumerate(recording) if s.changed and k != view.step)
    assert view.detail != first
    view.step = 10_000
    assert view.step == len(recording) - 1


def test_a_recording_without_steps_is_shown_in_words():
    from workbench.compiler.record.recording import Recording as Fresh

    view = PassExplorer(Fresh(residual(1)))
    assert "without steps" in view.summary()
    assert "<svg" in view.to_svg()


def test_the_lowering_is_the_last_step_and_says_what_each_instruction_became():
    recording = lowered(residual(2))
    view = PassExplorer(recording)
    last = len(recording) - 1
    assert view.steps.overview()[last]["changed"]
    detail = view.steps.detail(last)
    program = recording.last
    assert {row["id"] for row in detail["lowered"]} == {i.id for i in program.instructions}
    shown = {id: (before, after) for _, id, before, after in detail["diff"]}
    kernel = next(row for row in recording.lowered or () if row.kind == "kernel")
    before, after = shown[kernel.id]
    assert before.startswith(f"{kernel.instruction} = ")
    assert after.startswith(f"{kernel.instruction} -> kernel ")
    assert detail["summary"] == recording[last].lowered.summary
    view.step = last
    assert "arena of 72 bytes" in view.summary()
    assert view.steps.detail(last - 1)["lowered"] == []


def test_one_count_of_instructions_everywhere(recording: Recording, steps: Steps):
    table = recording.table()
    for k, (step, line) in enumerate(zip(recording, steps.overview(), strict=True)):
        counted = len(step.before.main), len(step.after.main)
        inside = sum(len(m) for m in step.after.modules.values() if m.bypass)
        assert counted == (line["before"], line["after"]) == (step.size_before, step.size_after)
        assert inside == line["inside"] == table["inside kernels"][k]
        assert f"{counted[0]} → {counted[1]} instructions" in repr(step)
    assert any(table["inside kernels"])
    assert f"inside kernels: {inside:,}" in PassExplorer(recording, step=k).summary()


@pytest.mark.parametrize("program", [residual(2), transformer(2), fused()], ids=lambda p: p.name)
def test_a_state_drawn_from_another_is_as_if_drawn_from_nothing(program: Program):
    rows = Steps(recorded(program)).rows
    there_and_back = [*rows, *reversed(rows), rows[-1], rows[0]]
    drawing = None
    for state in there_and_back:
        drawing = Drawing.of(state, drawing)
        assert drawing.table == Drawing.of(state).table


def test_a_long_diff_is_cut_and_says_so(steps: Steps, monkeypatch: pytest.MonkeyPatch):
    k = max(range(len(steps.steps)), key=lambda k: len(steps.diff(k)))
    whole = steps.diff(k)
    monkeypatch.setattr(text_diff, "DIFF_LIMIT", len(whole) - 1)
    assert steps.diff(k) == [*whole[:-1], ["…", None, "more rows differ"]]
    monkeypatch.setattr(text_diff, "DIFF_LIMIT", len(whole))
    assert steps.diff(k) == whole


@pytest.mark.parametrize("program", [residual(2), transformer(2), fused()], ids=lambda p: p.name)
def test_the_edits_between_two_states_tell_what_differs(program: Program):
    steps = Steps(recorded(program))
    last = len(steps.steps) - 1
    edits = [(k, e) for k, step in enumerate(steps.steps) for e in range(-1, len(step.edits))]
    for k in [0, last, *range(last), last, 0]:
        for texts in map(steps.texts, steps.at(k)):
            assert texts.drawing.table == Drawing.of(texts.rows).table
    for k, edit in [*edits[::7], *edits[::-11]]:
        texts = steps.texts_within(k, edit)
        assert texts.drawing.table == Drawing.of(texts.rows).table


@pytest.mark.parametrize("program", [residual(2), transformer(2), fused()], ids=lambda p: p.name)
def test_rows_are_printed_as_their_program_is(program: Program):
    recording = recorded(program)
    for k, step in enumerate(recording):
        rows = recording.rows_after(k)
        named, asked = row_names(rows), Texts(rows, Drawing.of(rows))
        printed = [(line.id, line.text) for line in lines(step.after) if line.id is not None]
        assert [(id, row_text(rows, id, named)) for id in printed_ids(rows)] == printed
        assert asked.ids == printed_ids(rows)
        assert all(asked.named[id] == name for id, name in named.items())


@pytest.fixture
def large(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> PassExplorer:
    """A view of a recording that is too large to lay out at once."""
    monkeypatch.setattr(steps_module, "AT_ONCE", 0)
    return PassExplorer(recording)


def versions_sent(view: PassExplorer) -> int:
    """The number of versions that the browser has."""
    return sum(len(unpacked(part)["nodes"]["id"]) for part in (view.data, *view.more))


def places(view: PassExplorer) -> list[dict[int, int]]:
    """The slot of each drawn id in each state that is laid out."""
    scene = view.scene
    found = [{scene.versions[v].id: scene.slots[v] for v in state} for state in scene.steps]
    return [{id: slot for id, slot in state.items() if slot >= 0} for state in found]


def test_a_large_recording_is_laid_out_as_far_as_it_is_looked_at(
    large: PassExplorer, recording: Recording
):
    assert (len(large.scene.steps), large.more) == (2, [])
    for k in [*range(len(recording) - 1, -1, -1), *range(len(recording))]:
        before = places(large)
        large.step = k
        assert places(large)[: len(before)] == before, "what is laid out stays where it is"
        detail = unpacked(large.detail)
        for side, program in (("before", recording[k].before), ("after", recording[k].after)):
            shown = {large.scene.versions[v].id for v in detail[side]}
            assert shown == {i.id for m in program.reachable_modules() for i in m}
        assert versions_sent(large) == len(large.scene.versions)
    assert len(large.scene.steps) == 1 + sum(step.changed for step in recording)
    assert "<svg" in large.to_svg()


def test_what_stays_keeps_its_place_in_a_large_recording(large: PassExplorer):
    large.step = len(large.recording) - 1
    for state in places(large):
        assert len(set(state.values())) == len(state)
    first, last = places(large)[0], places(large)[-1]
    main = {n.id for n in large.scene.versions if n.module == 0}
    inside = {n.id for n in large.scene.versions if n.module != 0}
    kept = (main - inside) & first.keys() & last.keys()
    assert kept
    assert all(last[id] == first[id] for id in kept)


def test_a_page_of_a_large_recording_has_all_steps(large: PassExplorer, recording: Recording):
    data = unpacked(large.page_data())
    assert [d["index"] for d in data["details"]] == list(range(len(recording)))
    assert {v for d in data["details"] for v in d["after"]} <= set(range(len(data["nodes"]["id"])))


def test_a_page_that_is_written_takes_nothing_from_the_view(large: PassExplorer):
    large.page_data()
    large.step = len(large.recording) - 1
    assert versions_sent(large) == unpacked(large.detail)["versions"]


def test_the_parts_by_which_a_scene_grew_make_up_the_whole(large: PassExplorer):
    for k in range(len(large.recording)):
        large.step = k
    assert len(large.more) > 1
    grown = unpacked(large.data)
    for part in map(unpacked, large.more):
        grown = joined(grown, part)
    whole = unpacked(packed(large.columns()))
    assert grown.keys() >= whole.keys()
    for name in whole.keys() - {"open"}:
        assert grown[name] == whole[name], name


def joined(old: Any, more: Any) -> Any:
    """Columns with what came later behind them, as ``grown`` of ``scene.js`` does it."""
    if isinstance(old, dict):
        return old | {key: joined(old.get(key), part) for key, part in more.items()}
    return [*old, *more] if isinstance(old, list) else more


def test_all_steps_are_made_while_the_kernel_waits_the_nearest_first(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(steps_module, "AT_ONCE", 0)
    monkeypatch.setattr(ahead, "WAIT", 0.001)
    changed = [k for k, step in enumerate(recording) if step.changed]
    drawn: list[int] = []

    async def look() -> None:
        view = PassExplorer(recording, step=changed[2])

        def noted(k: int) -> dict[str, Any]:
            drawn.append(k)
            return Steps.detail(view.steps, k)

        monkeypatch.setattr(view.steps, "detail", noted)
        async with asyncio.timeout(10):
            while len(drawn) < len(changed) - 1:
                await asyncio.sleep(0.01)
        assert drawn == sorted(
            (k for k in changed if k != view.step),
            key=lambda k: (abs(k - view.step), k < view.step),
        )
        assert view.more == [], "the browser draws nothing anew until the step is shown"
        view.step = changed[3]
        assert len(drawn) == len(changed) - 1
        assert unpacked(view.detail)["index"] == changed[3]
        assert versions_sent(view) == len(view.scene.versions)

    with ThreadPoolExecutor(1) as apart:  # a browser's driver may run a loop in this thread
        apart.submit(asyncio.run, look()).result()


def test_an_overlay_names_instructions_of_states_that_are_not_laid_out(large: PassExplorer):
    made = next(r for r in large.steps.rows[-1].instructions.values() if r.sources)
    view = PassExplorer(large.recording, overlay={made.sources[-1]: 1.0})
    assert str(made.id) in view.overlay["values"]


def test_only_steps_that_are_laid_out_are_saved(large: PassExplorer):
    answered = {answer.value for answer in large.answers()}
    assert large.step in answered
    assert len(large.scene.steps) == 2
    assert len(answered) < len(large.recording)
