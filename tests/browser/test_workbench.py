"""The workbench's page in Chromium: panes over one selection, tables that sort, settings that wait."""

from collections.abc import Callable
from pathlib import Path

import pytest

import workbench as wb
from tests.browser.conftest import Shown
from tests.browser.live import Live
from tests.widgets.networks import residual, transformer
from tests.widgets.pressing import press
from workbench.compiler.text.printing import names
from workbench.numerics.compare.culprit import Cause, Culprit
from workbench.widgets.workbench_view import Workbench

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]


@pytest.fixture(scope="module")
def view() -> Workbench:
    """Everything is known of it."""
    made = Workbench(wb.compile(residual(2), "cpu"))
    for action in ("profile", "compare"):
        made.do(action)
    return made


def tab(shown: Shown, pane: str) -> None:
    """Opens a pane."""
    shown.page.locator(f"[role=tablist][aria-label=Panes] [data-tab={pane}]").click()


def test_the_selection_goes_from_pane_to_pane(view: Workbench, show: Show, pictures: Path):
    shown = show(view)
    node = next(n for n in shown.nodes() if n["title"] == "convolution")
    shown.click(node)
    chosen = shown.trait("selected")
    assert chosen in {i.id for i in view.build.program.main}
    for pane in ("timings", "memory", "numbers"):
        tab(shown, pane)
        row = shown.page.locator(".wb-tablepane:visible tr.wb-chosen")
        assert int(row.get_attribute("data-id")) == chosen, pane
        shown.page.screenshot(path=pictures / f"workbench-{pane}.png")
    other = shown.page.locator(".wb-tablepane:visible tbody tr:not(.wb-chosen)").first
    wanted = int(other.get_attribute("data-id"))
    other.click()
    assert shown.trait("selected") == wanted != chosen
    tab(shown, "passes")
    shown.page.locator(".wb-explorer .wb-canvas").first.wait_for(state="visible")
    assert shown.trait("pane") == "passes"
    shown.page.screenshot(path=pictures / "workbench-passes.png")


def test_cells_have_the_colour_of_text_not_of_code(view: Workbench, show: Show):
    shown = show(view)
    tab(shown, "timings")
    cells = shown.page.locator(".wb-tablepane:visible tbody tr").first.locator(
        "td:not(:has(button))"
    )
    colours = cells.evaluate_all("all => all.map(c => getComputedStyle(c).color)")
    assert len(set(colours)) == 1


def test_a_table_is_sorted_by_a_column_and_filtered_by_words(view: Workbench, show: Show):
    shown = show(view)
    tab(shown, "timings")
    times = [row["cells"][3] for row in view.table("timings")["rows"]]
    page = shown.page.locator(".wb-tablepane:visible")
    names = page.locator("tbody tr td:first-child")
    by_time = sorted(range(len(times)), key=lambda k: -times[k])
    first = view.table("timings")["rows"][by_time[0]]["cells"][0]
    assert names.first.inner_text() == first
    page.get_by_role("button", name="Median time").click()
    assert names.last.inner_text() == first
    page.locator("input").fill("convolution")
    rows = [r for r in view.table("timings")["rows"] if "convolution" in str(r["cells"])]
    assert names.count() == len(rows) > 0
    page.locator("input").fill("no such thing")
    assert "No row has these words" in page.inner_text()


def test_without_a_kernel_it_shows_all_and_changes_nothing(view: Workbench, show: Show):
    shown = show(view)
    assert shown.page.locator(".wb-settings").is_hidden()
    shown.page.get_by_role("button", name="Show or hide the settings").click()
    boxes = shown.page.locator(".wb-switch input")
    assert boxes.count() == len(view.build.target.pipeline().names())
    assert all(box.is_disabled() for box in boxes.all())
    actions = shown.page.locator(".wb-action")
    assert [b.is_disabled() for b in actions.all()] == [True] * 5
    tab(shown, "kernels")
    assert "runs no kernels" in shown.page.locator(".wb-absence:visible").inner_text()


def test_a_link_opens_on_the_finding(view: Workbench, show: Show):
    shown = show(view)
    tab(shown, "memory")
    row = shown.page.locator(".wb-tablepane:visible tbody tr").nth(3)
    row.click()
    shown.page.get_by_role("button", name="Copy a link to what is shown").click()
    link = shown.page.url.partition("#")[2]
    again = Workbench(wb.compile(residual(2), "cpu"), state=link)
    assert (again.pane, again.selected) == ("memory", int(row.get_attribute("data-id")))
    tab(shown, "graph")
    shown.page.evaluate("hash => { location.hash = hash; }", f"p=passes&s={again.selected}&pk=1")
    shown.page.locator(".wb-explorer .wb-canvas").first.wait_for(state="visible")
    assert (shown.trait("passes_step"), shown.trait("selected")) == (1, again.selected)
    shown.page.evaluate("() => { location.hash = 'p=nothing&s=x&zz=1'; }")
    assert shown.trait("selected") == again.selected


@pytest.mark.parametrize(("width", "dark"), [(700, False), (1000, True), (1600, False)])
def test_it_fits_its_page(view: Workbench, show: Show, pictures: Path, width: int, dark: bool):
    shown = show(view, width=width, dark=dark)
    shown.page.get_by_role("button", name="Show or hide the settings").click()
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert shown.page.evaluate(wide) <= 0
    canvas = shown.canvas.bounding_box()
    assert canvas["width"] >= 300
    assert canvas["height"] >= 150
    shown.page.screenshot(path=pictures / f"workbench-{width}.png")


def test_a_finding_of_lint_selects_and_so_does_a_name_in_its_reason(show: Show, pictures: Path):
    view = Workbench(wb.compile(transformer(1), "cpu"))
    shown = show(view)
    tab(shown, "lint")
    rows = shown.page.locator(".wb-tablepane:visible tbody tr")
    findings = view.build.lint()
    assert rows.count() == len(findings)
    rows.last.click()
    assert shown.trait("selected") == findings[-1].id
    name = shown.page.locator(".wb-tablepane:visible .wb-ref").first
    chosen = next(i for i, n in names(view.build.program).items() if n == name.inner_text())
    name.click()
    assert shown.trait("selected") == chosen
    shown.page.screenshot(path=pictures / "workbench-lint.png")


def test_a_pass_switched_off_makes_the_build_again(show: Show):
    view = Workbench(wb.compile(residual(2), "cpu"))
    live = Live(view, "data", "settings", "choices", "status", "graph_data", "pane", "selected")
    view._entry = "workbench.js"
    shown = show(live)
    shown.page.evaluate("() => { window.sent = []; window.__wbModel.send = (m) => sent.push(m); }")
    before = len(view.build.program.main)
    box = shown.page.locator("[data-pass=fuse_pointwise] input").first
    box.click()
    (message,) = shown.page.evaluate("() => window.sent")
    assert shown.trait("settings")["off"] == ["fuse_pointwise"]
    press(view, message)
    assert view.settings["off"] == ["fuse_pointwise"]
    live.answer(shown)
    after = len(view.build.program.main)
    said = shown.page.locator(".wb-noteline").inner_text()
    assert said.startswith(f"without fuse_pointwise: {before} → {after} instructions")


def test_names_of_nodes_and_edits_are_links(show: Show, monkeypatch: pytest.MonkeyPatch):
    made = Workbench(wb.compile(residual(2), "cpu"))
    made.session.report = report = wb.compare(made.build)
    step = next(k for k, s in enumerate(made.build.recording) if len(s.edits) > 1)
    edit = made.build.recording[step].edits[1]
    row = report.rows[-2]
    nodes, reason = ("/layer0/conv",), "it overflows"
    wrong = Culprit(row.id, row.name, row.kernel, Cause.REWRITE, 1.0, 1e-3, nodes, reason, edit)
    monkeypatch.setattr(report, "culprits", lambda: [wrong])
    made._renew()
    shown = show(made)
    tab(shown, "numbers")
    notes = shown.page.locator(".wb-note")
    notes.nth(0).get_by_text(nodes[0]).click()
    assert (shown.trait("pane"), shown.trait("selected")) == ("graph", wrong.id)
    tab(shown, "numbers")
    row = shown.page.locator(
        ".wb-tablepane:visible tbody tr", has=shown.page.locator("td .wb-link")
    )
    chosen = int(row.nth(1).get_attribute("data-id"))
    row.nth(1).locator("td .wb-link").first.click()
    assert shown.trait("pane") == "graph"
    assert shown.trait("selected") == chosen
    tab(shown, "numbers")
    row.nth(0).click()
    shown.page.keyboard.press("Enter")
    assert shown.trait("pane") == "graph"
    tab(shown, "numbers")
    notes.nth(0).get_by_role("button", name=f"edit 2 of {made.build.recording[step].name}").click()
    shown.page.locator(".wb-explorer .wb-canvas").first.wait_for(state="visible")
    assert [shown.trait(f"passes_{name}") for name in ("step", "edit")] == [step, 1]
