"""PassExplorer in Chromium: passes stepped, edits walked, marks, diff, one selection everywhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Shown
from tests.browser.live import Live
from tests.widgets.networks import hostile, lowered, recorded, residual
from workbench.compiler.record.recording import Recording
from workbench.widgets import PassExplorer, steps

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded(residual())


@pytest.fixture
def shown(show: Show, recording: Recording) -> Shown:
    return show(PassExplorer(recording, target="cpu"), width=1440, height=860)


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


def test_the_diff_goes_by_id_and_selects(shown: Shown):
    row = shown.page.locator(".wb-del").first
    assert row.locator(".wb-glyph").inner_text() == "−"
    row.click()
    chosen = int(row.get_attribute("data-id"))
    assert shown.trait("selected") == chosen
    assert "removed by this pass" in shown.page.locator(".wb-inspect").inner_text()
    shown.page.locator(".wb-inspect .wb-link").last.click()
    assert shown.trait("selected") != chosen


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
