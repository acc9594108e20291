"""Finding and filtering in Chromium: the list of hits, counts of hidden hits, parts of a graph, keys."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Shown
from tests.widgets.networks import recorded, residual, transformer, unfolded
from tests.widgets.views import found, made
from workbench.compiler.expressions.builder import trace
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.gradients.gradient import gradient
from workbench.compiler.passes.pipelines import optimize
from workbench.compiler.record.recording import Recording
from workbench.widgets import GraphView, PassExplorer
from workbench.widgets.base_view import BaseView
from workbench.widgets.packing import inlined

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]


def search(shown: Shown, query: str) -> None:
    """Type a query into the search box."""
    shown.page.get_by_role("tree").last.focus()
    shown.page.keyboard.press("/")
    shown.page.keyboard.press("Control+a")
    shown.page.keyboard.type(query)


def test_hits_are_counted_where_they_are_hidden_and_listed(show: Show, pictures: Path):
    view = GraphView(residual(8))
    view.expanded = ["layer0×4"]
    shown = show(view)
    search(shown, "op:conv* scope:layer1 or op:dot")
    hits = view.find("op:conv* scope:layer1 or op:dot")
    counts = {n["title"]: n["hits"] for n in shown.nodes()}
    assert (counts["layer0"], counts["layer1"], sum(counts.values())) == (0, 4, len(hits))
    shown.page.get_by_role("option").nth(4).wait_for()
    assert shown.page.locator(".wb-hits").inner_text() == f"{len(hits)} matches"
    shown.page.screenshot(path=pictures / "find-light.png")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        shown.page.keyboard.press(key)
    assert shown.trait("selected") == hits[1]
    assert set(shown.trait("expanded")) >= {"layer1", "layer1/block2"}
    node = next(n for n in shown.nodes() if n["id"] == hits[1])
    box = shown.canvas.bounding_box()
    assert abs(node["y"] + node["h"] / 2 - box["height"] / 2) < 2
    assert shown.page.locator(".wb-hits").inner_text() == f"2 of {len(hits)}"
    shown.page.get_by_label("Next hit (n)").click()
    shown.page.get_by_role("tree").focus()
    shown.page.keyboard.press("n")
    shown.page.keyboard.press("N")
    assert shown.trait("selected") == hits[2]
    shown.page.wait_for_function("() => window.__wbModel.get('query').startsWith('op:conv*')")
    search(shown, "x")
    shown.page.keyboard.press("Escape")
    assert shown.trait("query") == ""
    assert sum(n["hits"] for n in shown.nodes()) == 0
    assert shown.page.locator(".wb-results").is_hidden()


def test_thousands_of_hits_make_few_rows_and_a_far_graph_fits(show: Show):
    shown = show(unfolded(transformer(95, scoped=False)))
    shown.page.get_by_role("tree").focus()
    shown.page.keyboard.press("0")
    width, height = shown.canvas.evaluate(
        "c => [c.__wb.pane.layout.width, c.__wb.pane.layout.height]"
    )
    camera, box = shown.canvas.evaluate("c => c.__wb.camera"), shown.canvas.bounding_box()
    assert camera["k"] < 0.02
    assert width * camera["k"] <= box["width"]
    assert height * camera["k"] <= box["height"]
    search(shown, "-op:literal")
    assert shown.page.get_by_role("option").count() < 60
    shown.page.keyboard.press("ArrowUp")
    shown.page.keyboard.press("End")
    for _ in range(3):
        shown.page.keyboard.press("PageDown")
    active = shown.page.locator(".wb-search").get_attribute("aria-activedescendant")
    assert shown.page.locator(f"#{active}").get_attribute("aria-posinset") == "31"


def test_a_wrong_query_says_where_and_what_was_expected(show: Show):
    shown = show(GraphView(residual(1)))
    search(shown, "op:relu ms>")
    wrong = shown.page.get_by_role("alert")
    assert "Position 12: expected a number after ms>." in wrong.inner_text()
    assert shown.page.locator(".wb-search").get_attribute("aria-invalid") == "true"
    shown.page.keyboard.type("1")
    assert "this view has no overlay" in wrong.inner_text()
    search(shown, "relu")
    assert wrong.inner_text() == ""


def test_a_part_of_the_graph_is_shown_by_keys_and_by_the_menu(show: Show, pictures: Path):
    view = GraphView(residual(2))
    shown = show(view)
    search(shown, "op:convolution")
    hits = view.find("op:convolution")
    shown.page.get_by_role("tree").focus()
    shown.page.keyboard.press("i")
    assert shown.trait("only") == hits
    assert sorted(n["id"] for n in shown.nodes()) == sorted(hits)
    edges = shown.canvas.evaluate("c => c.__wb.edges()")
    assert edges
    assert all(e["dashed"] for e in edges)
    assert "4 of 25 nodes shown" in shown.page.locator(".wb-legend").inner_text()
    shown.page.screenshot(path=pictures / "filter-light.png")
    shown.page.keyboard.press("n")
    shown.page.keyboard.press("2")
    assert shown.trait("only") == view.hops(hits[0], 2)
    shown.page.keyboard.press("h")
    assert hits[0] not in [n["id"] for n in shown.nodes()]
    shown.page.keyboard.press("a")
    assert (shown.trait("only"), shown.trait("hidden")) == (None, [])
    shown.page.keyboard.press("n")
    shown.page.get_by_role("button", name="Show a part of the graph").click()
    shown.page.get_by_role("button", name="Paths between").click()
    assert shown.trait("only") == view.path(hits[0], hits[1])
    search(shown, "op:dot")  # a hit that is hidden is shown once it is chosen
    shown.page.keyboard.press("Enter")
    assert view.find("op:dot")[0] in [n["id"] for n in shown.nodes()]
    shown.page.get_by_role("button", name="Show all (a)").click()
    assert len(shown.nodes()) == 25


def test_enter_on_a_group_leads_into_it_and_escape_out(show: Show):
    view = GraphView(residual(4))
    view.expanded = []
    shown = show(view)
    shown.page.get_by_role("tree").focus()
    inside: list[str] = []
    for key in ("ArrowDown", "ArrowDown", "Enter", "Enter", "Enter", "ArrowDown"):
        shown.page.keyboard.press(key)
        inside.append(shown.canvas.evaluate("c => c.__wb.pane.tree.current()?.title ?? ''"))
    assert inside == ["image", "layer0", "block0", "conv0", "convolution", "mul"]
    for _ in range(3):
        shown.page.keyboard.press("Escape")
    assert shown.canvas.evaluate("c => c.__wb.pane.tree.current().title") == "layer0"


def test_nodes_without_a_value_are_hatched_and_the_legend_says_so(show: Show):
    view = GraphView(residual(1))
    view.overlay = {"unit": "ms", "values": dict.fromkeys(view.find("op:relu"), 1.0)}
    shown = show(view)
    blank = {n["title"] for n in shown.nodes() if n["blank"]}
    assert "convolution" in blank
    assert "relu" not in blank
    assert "no value" in shown.page.locator(".wb-legend").inner_text()
    assert "no value" in view.to_svg()
    search(shown, "ms>=1")
    assert sum(n["hits"] for n in shown.nodes()) == len(view.find("ms>=1"))


@pytest.fixture(scope="module")
def long_recording() -> Recording:
    program = residual(1)
    with Recording(program) as recording:
        for _ in range(6):
            optimize().apply(program)
    return recording


def test_in_a_narrow_explorer_every_pass_is_reached_and_no_minimap_is_in_the_way(
    show: Show, long_recording: Recording, pictures: Path
):
    assert len(long_recording) > 77
    shown = show(PassExplorer(long_recording), width=700, height=760)
    dots = shown.page.locator(".wb-dot")
    for k in (len(long_recording) - 1, len(long_recording) // 2, 0):
        dots.nth(k).click()
        assert shown.trait("step") == k
    maps = [
        shown.page.locator(".wb-canvas").nth(k).evaluate("c => c.__wb.pane.side") for k in (0, 1)
    ]
    assert maps == [0, 0]
    shown.page.screenshot(path=pictures / "explorer-700.png")


def test_one_minimap_in_the_explorer_which_a_key_hides(show: Show):
    shown = show(PassExplorer(recorded(residual(4))), width=1440, height=860)
    sides = "c => c.__wb.pane.side"
    assert shown.canvas.evaluate(sides) == 0
    after = shown.page.locator(".wb-canvas").nth(1)
    assert after.evaluate(sides) > 0
    shown.page.get_by_role("tree").last.focus()
    shown.page.keyboard.press("m")
    assert after.evaluate(sides) == 0


def test_hits_of_both_sides_of_a_pass_and_loading_ends(show: Show):
    view = PassExplorer(recorded(residual(2)), step=1)
    hits = view.find("mark:removed or mark:added")
    detail = view.steps.detail(view.step)
    view.steps.detail = lambda _: {**detail, "index": -1}  # as if no step were stored
    shown = show(view, wait=".wb-loading")
    shown.page.evaluate("d => window.__wbModel.set('detail', d)", inlined({"title": "", **detail}))
    shown.page.locator(".wb-loading").wait_for(state="detached")
    search(shown, "mark:removed or mark:added")
    options = shown.page.get_by_role("option")
    assert [int(o.get_attribute("data-id") or -1) for o in options.all()] == hits
    assert options.first.inner_text().startswith("+ ")


def test_a_value_leads_to_its_gradient_and_back(show: Show):
    made = gradient(trace(lambda x: (x * x).tanh().sum(), x=(2, 3)))
    shown = show(GraphView(made))
    value = next(i for i in made.main if i.name == "tanh")
    search(shown, "op:tanh")
    shown.page.keyboard.press("Enter")
    inspector = shown.page.locator(".wb-inspector")
    for id, word in ((made.gradients[value.id], "gradient"), (value.id, "gradient of")):
        row = inspector.locator("dt").get_by_text(word, exact=True).locator("+ dd")
        row.get_by_role("button").click()
        assert inspector.get_attribute("data-id") == str(id)


def test_an_empty_program_is_said_in_words(show: Show):
    shown = show(GraphView(Program("empty")))
    assert shown.page.locator(".wb-empty").inner_text() == "This program has no instructions."
    assert "This program has no instructions" in GraphView(Program("empty")).to_svg()


@pytest.mark.parametrize("view", found(), ids=lambda view: view.__name__)
def test_a_question_mark_shows_all_keys(view: type[BaseView], show: Show):
    shown = show(made(view), wait=".wb-root")
    shown.page.locator("[tabindex='0']:not(input)").first.focus()
    shown.page.keyboard.press("?")
    dialog = shown.page.get_by_role("dialog", name="Keys")
    said = dialog.inner_text().lower()
    assert "these keys" in said
    assert "search" in said or not shown.page.locator("input[type=search]").count()
    shown.page.keyboard.press("Escape")
    assert dialog.is_hidden()


def test_bookmarks_have_notes_and_lead_back(show: Show, pictures: Path):
    view = GraphView(residual(2))
    view.expanded = []
    view.bookmark(view.find("op:dot")[0], "the head")
    shown = show(view)
    shown.page.get_by_role("tree").focus()
    shown.page.keyboard.press("b")
    assert shown.trait("bookmarks") == view.bookmarks
    panel = shown.page.get_by_role("group", name="Bookmarks")
    shown.page.get_by_role("button", name="Bookmarks").first.click()
    panel.get_by_role("button", name="dot").first.click()
    assert shown.trait("selected") == view.bookmarks[0][0]
    relu = view.find("op:relu")[0]
    shown.page.evaluate("id => { __wbModel.set('selected', id); }", relu)
    shown.page.get_by_role("tree").focus()
    shown.page.keyboard.press("b")
    shown.page.keyboard.type("here b starts")
    shown.page.keyboard.press("Tab")
    assert shown.trait("bookmarks") == [*view.bookmarks, [relu, None, "here b starts"]]
    assert panel.get_by_role("textbox").nth(0).input_value() == "the head"
    shown.page.screenshot(path=pictures / "bookmarks-light.png")
    panel.get_by_role("button", name="Remove").first.click()
    assert shown.trait("bookmarks") == [[relu, None, "here b starts"]]
    shown.page.keyboard.press("Escape")
    shown.page.get_by_label("Copy link").click()
    assert "the+head" not in shown.page.url
    assert "here+b+starts" in shown.page.url
    shown.page.reload()
    shown.page.locator(".wb-canvas").first.wait_for(state="visible")
    assert shown.trait("bookmarks") == [[relu, None, "here b starts"]]


def test_a_bookmark_of_a_pass_goes_to_its_step(show: Show):
    view = PassExplorer(recorded(residual(2)))
    steps = [k for k, s in enumerate(view.recording) if s.changed]
    id = view.recording[steps[1]].edits[0].added[0]
    view.bookmark(id, "look", step=steps[1])
    view.step = steps[-1]
    shown = show(view, width=1440)
    shown.page.get_by_role("button", name="Bookmarks").first.click()
    panel = shown.page.get_by_role("group", name="Bookmarks")
    panel.get_by_role("button", name=view.recording[steps[1]].name).first.click()
    assert shown.trait("step") == steps[1]
    assert shown.trait("selected") == id
    shown.page.locator(f'.wb-inspector[data-id="{id}"]').wait_for()
