"""PassExplorer in Chromium: passes stepped, edits walked, marks, diff, one selection everywhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.browser.conftest import Shown
from tests.browser.live import Live
from tests.widgets.networks import hostile, lowered, recorded, residual
from tests.widgets.test_glimpse import looked_at
from tests.widgets.views import unpacked
from workbench.compiler.record.recording import Recording
from workbench.widgets import PassExplorer, glimpse, steps

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded(residual())


@pytest.fixture
def shown(show: Show, recording: Recording) -> Shown:
    first = changed(recording)[0]
    return show(PassExplorer(recording, step=first, target="cpu"), width=1440, height=860)


def changed(recording: Recording) -> list[int]:
    return [k for k, step in enumerate(recording) if step.changed]


def test_both_sides_are_drawn_with_marks(shown: Shown, pictures: Path):
    assert {n["mark"] for n in shown.nodes(0)} >= {"removed"}
    assert {n["mark"] for n in shown.nodes(1)} >= {"added"}
    shown.page.screenshot(path=pictures / "explorer-light.png")


def test_dark(show: Show, recording: Recording, pictures: Path):
    shown = show(PassExplorer(recording), dark=True, width=1440, height=860)
    shown.page.keyboard.press("End")
    shown.page.screenshot(path=pictures / "explorer-dark.png")
    assert shown.page.locator(".wb-root.wb-dark").count() == 1


def test_f_and_r_go_to_passes_that_changed_something(shown: Shown, recording: Recording):
    steps = changed(recording)
    shown.page.locator(".wb-timeline").focus()
    shown.page.keyboard.press("f")
    assert shown.trait("step") == steps[1]
    shown.page.keyboard.press("r")
    assert shown.trait("step") == steps[0]
    shown.page.keyboard.press("End")
    assert shown.trait("step") == len(recording) - 1
    shown.page.keyboard.press("Home")
    assert shown.trait("step") == 0
    assert shown.page.locator(".wb-timeline").get_attribute("aria-valuetext").startswith("1 of")


def test_buttons_skip_what_changed_nothing_unless_told(shown: Shown, recording: Recording):
    steps = changed(recording)
    shown.page.get_by_label("Next pass that changed something (f)").click()
    assert shown.trait("step") == steps[1]
    shown.page.get_by_label("changed", exact=True).uncheck()
    shown.page.get_by_label("Next pass that changed something (f)").click()
    assert shown.trait("step") == steps[1] + 1


def test_what_did_not_change_does_not_move(shown: Shown):
    place = {n["id"]: n["world"] for n in shown.nodes(1) if n["kind"] == "node"}
    shown.page.locator(".wb-timeline").focus()
    for _ in range(3):
        shown.page.keyboard.press("f")
        same = [n for n in shown.nodes(1) if n["id"] in place and not n["mark"]]
        assert same
        for node in same:
            x, y, w, _ = node["world"]
            old_x, old_y, old_w, _ = place[node["id"]]
            assert (x + w / 2, y) == (pytest.approx(old_x + old_w / 2), old_y)


def test_the_edits_are_walked_with_left_and_right(shown: Shown, recording: Recording):
    edits = recording[changed(recording)[0]].edits
    first = shown.page.locator('.wb-item[data-edit="0"]')
    assert edits[0].rule in first.inner_text()
    assert f"{Path(edits[0].file).name}:{edits[0].line}" in first.inner_text()
    first.click()
    assert shown.trait("edit") == 0
    assert shown.trait("selected") in edits[0].added
    shown.page.locator(".wb-list").focus()
    shown.page.keyboard.press("ArrowRight")
    assert shown.trait("edit") == 1
    shown.page.keyboard.press("ArrowLeft")
    assert shown.trait("edit") == 0


def test_the_tabs_show_near_misses_and_laws(shown: Shown):
    shown.page.get_by_role("tab", name="Laws").click()
    assert "→" in shown.page.locator(".wb-list").inner_text()
    shown.page.get_by_role("tab", name="Near misses").click()
    assert (
        shown.page.get_by_role("tab", name="Near misses").get_attribute("aria-selected") == "true"
    )


def test_the_keyboard_walks_near_misses_and_tabs(show: Show, recording: Recording):
    step = next(k for k, passed in enumerate(recording) if len(passed.near_misses) > 1)
    shown = show(PassExplorer(recording, step=step), width=1440, height=860)
    shown.page.get_by_role("tab", name="Edits").focus()
    shown.page.keyboard.press("ArrowRight")
    assert "Near misses" in shown.page.locator(".wb-tab:focus").inner_text()
    shown.page.locator(".wb-list").focus()
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    miss = recording[step].near_misses[1]
    assert shown.trait("selected") == getattr(miss.instruction, "id", miss.instruction)


def test_a_list_that_is_made_anew_keeps_the_focus(show: Show, recording: Recording):
    step = next(s.index for s in recording if len(s.near_misses) > 1 and len(s.edits) > 1)
    shown = show(PassExplorer(recording, step=step), width=1440, height=860)
    shown.page.get_by_role("tab", name="Near misses").click()
    shown.page.locator(".wb-list").focus()
    shown.page.keyboard.press("ArrowDown")
    for k in range(2):
        shown.page.keyboard.press("ArrowRight")
        assert shown.trait("edit") == k
    assert shown.page.locator(".wb-list:focus").count() == 1


def test_the_diff_goes_by_id_and_selects(shown: Shown):
    row = shown.page.locator(".wb-del").first
    assert row.locator(".wb-glyph").inner_text() == "−"
    row.click()
    chosen = int(row.get_attribute("data-id"))
    assert shown.trait("selected") == chosen
    assert "removed by this pass" in shown.page.locator(".wb-inspect").inner_text()
    shown.page.locator(".wb-inspect .wb-link").last.click()
    assert shown.trait("selected") != chosen


def test_inside_an_edit_the_text_diff_has_the_names_that_are_drawn(shown: Shown):
    whole = shown.page.locator(".wb-diff").inner_text()
    shown.page.locator(".wb-list").focus()
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("ArrowDown")
    assert shown.trait("edit") == 1
    assert shown.page.locator(".wb-diff").inner_text() != whole
    row = shown.page.locator(".wb-diff [data-id]:not(.wb-del)").first
    row.locator(".wb-glyph").click()
    name = row.locator(".wb-text").inner_text().split(" = ")[0]
    shown.page.locator(f'.wb-inspector[data-id="{row.get_attribute("data-id")}"]').wait_for()
    assert shown.page.locator(".wb-inspector h2").inner_text().split()[0] == name
    shown.page.locator(".wb-list").focus()
    shown.page.keyboard.press("ArrowUp")
    shown.page.keyboard.press("ArrowUp")
    assert shown.page.locator(".wb-diff").inner_text() == whole


def test_a_click_on_either_side_selects_everywhere(shown: Shown):
    node = next(n for n in shown.nodes(1) if n["mark"] == "added")
    shown.click(node, 1)
    assert shown.trait("selected") == node["id"]
    shown.page.locator(f'.wb-inspector[data-id="{node["id"]}"]').wait_for()
    assert shown.page.locator(f'.wb-row.wb-chosen[data-id="{node["id"]}"]').count() == 1


def test_both_sides_look_at_the_same_place(shown: Shown):
    canvases = shown.page.locator(".wb-canvas")
    canvases.nth(0).evaluate("c => c.__wb.pan(0, 120)")
    # In one call: a quarter of a second later both move to the rounded place that was stored.
    left, right = canvases.evaluate_all("all => all.map(c => c.__wb.camera)")
    assert left == right


def test_places_need_not_be_kept(shown: Shown):
    shown.page.keyboard.press("End")
    tall = shown.canvas.evaluate("c => c.__wb.pane.layout.height")
    shown.page.get_by_label("keep places").uncheck()
    assert shown.canvas.evaluate("c => c.__wb.pane.layout.height") < tall


def test_hostile_names_are_only_ever_text(show: Show):
    shown = show(PassExplorer(recorded(hostile())))
    assert shown.page.locator("img, .wb-root script").count() == 0


def test_the_live_region_says_what_changed(shown: Shown):
    shown.page.locator(".wb-timeline").focus()
    shown.page.keyboard.press("f")
    assert shown.page.get_by_role("status").text_content()


def test_the_lowering_is_a_step_whose_rows_and_inspector_say_what_came_of_it(show: Show):
    shown = show(PassExplorer(lowered(residual(2))), width=1440, height=860)
    shown.page.locator(".wb-timeline").focus()
    shown.page.keyboard.press("End")
    row = shown.page.locator(".wb-list .wb-item", has_text="kernel").first
    row.click()
    assert shown.trait("selected") == int(row.get_attribute("data-id"))
    assert (
        "value#1+0 (64 B, arena+8)"
        in shown.page.locator(".wb-inspect .wb-lowered + p").inner_text()
    )
    assert "arena of 72 bytes" in shown.page.locator(".wb-diffbar").inner_text()
    shown.page.get_by_role("tab", name="Lowering").click()
    shown.page.locator(".wb-timeline").focus()
    shown.page.keyboard.press("r")
    assert shown.page.get_by_role("tab", name="Edits").get_attribute("aria-selected") == "true"


def fusing(recording: Recording) -> int:
    """The step whose edits make kernels, and kernels of kernels."""
    return next(k for k, step in enumerate(recording) if step.name == "fuse_pointwise")


def ids(shown: Shown, pane: int) -> set[int]:
    """The instructions that one side draws."""
    return {n["id"] for n in shown.nodes(pane) if n["kind"] == "node"}


def test_an_edit_is_shown_between_the_programs_before_and_after_it(show: Show):
    recording = recorded(residual(2))
    step = fusing(recording)
    shown = show(PassExplorer(recording, step=step), width=1440, height=860)
    whole = [ids(shown, pane) for pane in (0, 1)]
    places = {n["id"]: n["world"][1] for n in shown.nodes(0) if n["kind"] == "node"}
    edits = recording[step].edits
    shown.page.locator(".wb-list").focus()
    for k in range(len(edits)):
        shown.page.keyboard.press("ArrowRight")
        after = recording[step].after_edit(k)
        inside = {i.id for m in after.modules.values() if m.bypass for i in m}
        main = {i.id for i in after.main}
        assert ids(shown, 1) <= main | inside
        assert {id for id in edits[k].added if id in main} <= ids(shown, 1)
        for node in shown.nodes(1):
            if node["id"] in main:
                assert places.get(node["id"], node["world"][1]) == node["world"][1]
    assert shown.trait("edit") == len(edits) - 1
    assert ids(shown, 1) - inside == whole[1]
    assert shown.page.locator(".wb-caption").all_inner_texts()[1] == f"after edit {len(edits)}"
    shown.page.locator(".wb-item", has_text="Whole pass").click()
    assert shown.trait("edit") is None
    assert ids(shown, 0) == whole[0]


def test_an_edit_is_asked_for_from_python_when_it_is_shown(show: Show):
    view = PassExplorer(recorded(residual(2)))
    view.step = fusing(view.recording)
    view._entry = "explorer.js"
    names = ("data", "detail", "within", "step", "edit", "selected", "asked", "answer")
    live = Live(view, *names)
    shown = show(live, width=1440, height=860)
    shown.page.locator('.wb-item[data-edit="2"]').click()
    assert "loading" in shown.page.locator(".wb-caption").last.inner_text()
    live.answer(shown)
    shown.page.locator(".wb-caption", has_text="after edit 3").wait_for()
    assert view.edit == 2
    made = view.recording[view.step].edits[2].added
    assert ids(shown, 1) & set(made)


def test_it_opens_on_the_first_change_that_is_seen(show: Show, recording: Recording):
    shown = show(PassExplorer(recording), width=1440, height=860)
    assert recording[shown.trait("step")].name == "simplify_algebra"
    assert recording[changed(recording)[0]].name == "normalize_ops"


@pytest.mark.parametrize("width", [700, 1440])
def test_a_pass_is_chosen_by_its_name(show: Show, recording: Recording, width: int):
    shown = show(PassExplorer(recording), width=width, height=860)
    shown.page.keyboard.press("l")
    rows = shown.page.locator(".wb-passrow")
    assert rows.count() == len(changed(recording))
    assert all(row.bounding_box()["x"] + row.bounding_box()["width"] <= width for row in rows.all())
    shown.page.keyboard.type("fuse_point")
    assert rows.all_inner_texts()[0].split()[1:3] == [
        "fuse_pointwise",
        str(len(recording[fusing(recording)].edits)),
    ]
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    assert shown.trait("step") == fusing(recording)
    assert shown.page.locator(".wb-passes").is_hidden()
    shown.page.get_by_label("changed", exact=True).uncheck()
    shown.page.locator(".wb-what").click()
    shown.page.get_by_label("Filter passes").fill("")
    assert rows.count() == len(recording)


def test_the_source_of_a_rule_opens_in_place(shown: Shown, recording: Recording):
    edit = recording[changed(recording)[0]].edits[0]
    shown.page.locator('.wb-item[data-edit="0"]').click()
    shown.page.keyboard.press("s")
    text = shown.page.locator(".wb-chosen pre").inner_text()
    assert f"def {edit.rule}" in text
    marked = shown.page.locator(".wb-chosen mark").inner_text().strip()
    assert marked == Path(edit.file).read_text().splitlines()[edit.line - 1].strip()


def test_names_in_texts_select(show: Show):
    recording = recorded(residual(2))
    step = fusing(recording)
    shown = show(PassExplorer(recording, step=step), width=1440, height=860)
    row = shown.page.locator(".wb-diff .wb-add").first
    link = row.locator(".wb-ref").nth(1)
    chosen = int(link.get_attribute("data-ref"))
    link.click()
    assert shown.trait("selected") == chosen != int(row.get_attribute("data-id"))
    shown.page.get_by_role("tab", name="Near misses").click()
    reason = shown.page.locator(".wb-list .wb-ref").first
    miss = recording[step].near_misses[0]
    assert reason.inner_text() in miss.reason
    reason.click()
    assert shown.trait("selected") == int(reason.get_attribute("data-ref"))


def test_two_selected_nodes_are_asked_about_and_the_answer_has_links(show: Show):
    build = wb.compile(residual(2), "cpu")
    view = build.explore(step=next(s.index for s in build.recording if s.name == "fuse_pointwise"))
    view._entry = "explorer.js"
    live = Live(view, "data", "detail", "within", "step", "edit", "selected", "asked", "answer")
    shown = show(live, width=1440, height=860)
    shown.page.get_by_label("Show everything (0)").click()
    first, second = [n for n in shown.nodes(1) if n["title"] == "pointwise"][:2]
    shown.click(first, 1)
    canvas = shown.page.locator(".wb-canvas").nth(1)
    middle = {"x": second["x"] + second["w"] / 2, "y": second["y"] + second["h"] / 2}
    canvas.click(position=middle, modifiers=["Shift"])
    assert shown.trait("selected") == first["id"]
    shown.page.get_by_role("button", name="Ask why these two are not one kernel").click()
    live.answer(shown)
    assert view.asked == [first["id"], second["id"]]
    answer = shown.page.locator(".wb-why p")
    assert "between them lies" in answer.inner_text()
    names = answer.locator(".wb-link")
    assert names.count() > 0
    names.first.click()
    live.answer(shown)
    assert view.selected not in (None, first["id"])
    assert build.why_not(*view.asked).startswith("between them lies")
    shown.page.keyboard.press("w")
    assert shown.trait("asked") == view.asked


def test_without_a_build_there_is_nothing_to_ask(shown: Shown):
    assert unpacked(shown.trait("data"))["why"] is False
    shown.page.keyboard.press("w")
    assert shown.page.locator(".wb-why").count() == 0


def test_states_that_are_laid_out_later_are_drawn(
    show: Show, recording: Recording, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(steps, "AT_ONCE", 0)
    view = PassExplorer(recording)
    live = Live(view, "data", "step", "edit", "detail", "more", "selected", "expanded")
    shown = show(live)
    for k in (changed(recording)[-1], 0, changed(recording)[1]):
        shown.page.evaluate("k => window.__wbModel.set('step', k)", k)
        live.answer(shown)
        shown.page.wait_for_selector(".wb-loading", state="detached")
        drawn = {view.scene.versions[v].id for v in view.scene.steps[view.steps.shown(k)[1]]}
        ids = {n["id"] for n in shown.nodes(1) if n["id"] is not None}
        assert ids
        assert ids <= drawn


def test_what_shows_of_a_large_step_is_drawn_before_the_rest(
    show: Show, recording: Recording, monkeypatch: pytest.MonkeyPatch, pictures: Path
):
    monkeypatch.setattr(steps, "AT_ONCE", 0)
    monkeypatch.setattr(glimpse, "LARGE", 1)
    monkeypatch.setattr(glimpse, "SHARE", 0)
    view = PassExplorer(recording)
    view.expanded = []
    live = Live(view, "data", "step", "edit", "detail", "more", "selected", "expanded")
    shown = show(live)
    k = changed(recording)[-1]
    first = looked_at(view, k, lambda: "partial" not in unpacked(view.detail))
    whole, view.detail = view.detail, first
    live.answer(shown)
    groups = [n for n in shown.nodes(1) if n["kind"] == "group"]
    assert groups
    assert {n["fact"] for n in groups} == {"counting…"}
    assert shown.page.locator(".wb-loading").count() == 1
    assert "loading" in shown.page.locator(".wb-list").inner_text()
    places = {n["key"] or n["id"]: n["world"] for n in shown.nodes(1)}
    shown.page.screenshot(path=pictures / "explorer-first-part.png")
    view.detail = whole
    live.answer(shown)
    shown.page.wait_for_selector(".wb-loading", state="detached")
    groups = [n for n in shown.nodes(1) if n["kind"] == "group"]
    assert all("instruction" in n["fact"] or " of " in n["fact"] for n in groups)
    assert {n["key"] or n["id"]: n["world"] for n in shown.nodes(1)} == places


def expect_whole_parts(name: Any) -> None:
    """A name has several parts, of which none is broken."""
    parts = name.evaluate(
        """el => [...el.childNodes].filter((n) => n.data).map((n) => {
          const range = document.createRange();
          range.selectNode(n);
          return [n.data, range.getClientRects().length];
        })"""
    )
    assert len(parts) > 1
    assert all(count == 1 for _, count in parts), parts


def test_the_name_of_a_rule_breaks_behind_underscores_only(show: Show, recording: Recording):
    k = next(k for k, step in enumerate(recording) for edit in step.edits if "_" in edit.rule)
    shown = show(PassExplorer(recording, step=k), width=1440, height=860)
    shown.page.evaluate("document.querySelector('.wb-list').style.width = '150px'")
    name = shown.page.locator(".wb-list .wb-item strong", has_text="_").first
    assert "_" in name.inner_text()
    expect_whole_parts(name)


def test_the_name_of_a_pass_breaks_between_its_words_only(show: Show, recording: Recording):
    shown = show(PassExplorer(recording), width=1440, height=860)
    shown.page.keyboard.press("l")
    shown.page.evaluate("document.querySelector('.wb-passrow').parentElement.style.width = '250px'")
    expect_whole_parts(shown.page.locator(".wb-passrow > :nth-child(2)", has_text="_").first)
