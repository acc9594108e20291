"""GraphView in Chromium: drawn, clicked, walked by keys, searched, dark, hostile, huge."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Shown
from tests.widgets.networks import fused, hostile, residual, transformer, unfolded
from workbench.compiler.expressions.builder import trace
from workbench.widgets import GraphView
from workbench.widgets.picture import Layout

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]
INK = """canvas => {
  const x = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let k = 0; k < x.length; k += 4) seen.add((x[k] << 16) | (x[k + 1] << 8) | x[k + 2]);
  return seen.size;
}"""


def test_it_draws(show: Show, pictures: Path):
    shown = show(GraphView(residual()))
    assert shown.canvas.evaluate(INK) > 30
    assert len(shown.nodes()) > 5
    shown.page.screenshot(path=pictures / "graph-light.png")


def test_the_browser_places_everything_where_python_does(show: Show):
    view = GraphView(transformer(3))
    view.expanded = sorted(view.scene.openable())
    boxes = Layout(view.scene, view.expanded).picture.boxes
    places = {view.scene.versions[v].id: boxes[view.scene.slots[v]]
              for v in view.scene.steps[0] if view.scene.slots[v] >= 0}  # fmt: skip
    for node in show(view).nodes():
        box = places[node["id"]]
        x, y, w, _ = node["world"]
        assert (x + w / 2, y) == (
            pytest.approx(box.centre, abs=1e-9),
            pytest.approx(box.y, abs=1e-9),
        )


def test_a_click_selects_and_the_inspector_tells(show: Show):
    shown = show(GraphView(residual(2)))
    node = shown.node("convolution")
    shown.click(node)
    assert shown.trait("selected") == node["id"]
    inspector = shown.page.locator(f'.wb-inspector[data-id="{node["id"]}"]')
    text = inspector.inner_text()
    assert "padding" in text
    assert "/layer0/block0/conv0/convolution_1" in text
    inspector.locator(".wb-link").last.click()
    assert shown.trait("selected") != node["id"]
    shown.page.get_by_label("Close the inspector").click()
    assert shown.trait("selected") is None


@pytest.mark.parametrize(
    ("of", "attribute", "dark", "light"),
    [("body", "data-jp-theme-light", "false", "true"), ("body", "data-theme", "dark", "light"),
     ("body", "data-vscode-theme-kind", "vscode-dark", "vscode-high-contrast-light"),
     ("body", "data-vscode-theme-kind", "vscode-high-contrast", "vscode-light"),
     ("documentElement", "theme", "dark", "light")],
)  # fmt: skip
def test_the_theme_is_the_hosts(show: Show, of: str, attribute: str, dark: str, light: str):
    there = "({ of, name, value }) => document[of].setAttribute(name, value)"
    for value, system in ((dark, False), (light, True)):
        told = {"of": of, "name": attribute, "value": value}
        shown = show(GraphView(residual()), dark=system, wait=".wb-root")
        shown.page.evaluate(there, told)
        shown.page.emulate_media(color_scheme="light" if system else "dark")
        shown.page.evaluate("() => new Promise(requestAnimationFrame)")  # two in a frame are none
        shown.page.emulate_media(color_scheme="dark" if system else "light")
        its, systems = (".wb-dark", ":not(.wb-dark)")[:: -1 if system else 1]
        shown.page.locator(f".wb-root{its}").wait_for()
        if of == "body":
            shown.page.evaluate("name => document.body.removeAttribute(name)", attribute)
            shown.page.locator(f".wb-root{systems}").wait_for()


def test_a_host_that_leaves_the_theme_to_the_system_is_followed(show: Show):
    shown = show(GraphView(residual()), dark=True)
    set_and_wait = "document.body.dataset.theme = 'auto'; new Promise(requestAnimationFrame)"
    shown.page.evaluate(set_and_wait)
    assert shown.page.locator(".wb-root.wb-dark").count() == 1


def test_a_chip_is_selected_too(show: Show):
    shown = show(GraphView(residual(2)))
    node = shown.node("convolution")
    shown.canvas.click(position={"x": node["x"] + node["w"] + 14, "y": node["y"] + node["h"] / 2})
    assert "literal" in shown.page.locator(".wb-inspector h2").inner_text()


def test_groups_open_and_close(show: Show):
    view = GraphView(residual())
    view.expanded = []
    shown = show(view)
    group = shown.node("layer0")
    before = len(shown.nodes())
    shown.click(group)
    assert len(shown.nodes()) > before
    assert shown.trait("expanded") == ["layer0"]
    panel = shown.canvas.evaluate("c => c.__wb.panels()")[0]
    shown.canvas.click(position={"x": panel["x"] + 12, "y": panel["y"] + 8})
    assert len(shown.nodes()) == before
    shown.page.get_by_label("Open all groups").click()
    assert not [n for n in shown.nodes() if n["kind"] == "group"]


def test_a_fused_module_opens_like_a_folder(show: Show):
    shown = show(GraphView(fused()))
    node = shown.node("pointwise")
    assert node["fact"] == "add · relu"
    shown.click(node)
    shown.page.keyboard.press("Enter")
    assert {"add", "relu"} <= {n["title"] for n in shown.nodes()}


def test_arrows_walk_enter_opens_escape_closes(show: Show):
    view = GraphView(residual(2))
    shown = show(view)
    tree = shown.page.get_by_role("tree")
    tree.focus()
    shown.page.keyboard.press("ArrowDown")
    first = shown.trait("selected")
    assert first == view.program.main.parameters["image"].id
    shown.page.keyboard.press("ArrowDown")
    assert view.program.instruction(shown.trait("selected")).name == "convolution"
    shown.page.keyboard.press("ArrowUp")
    assert shown.trait("selected") == first
    shown.page.keyboard.press("ArrowDown")
    before = len(shown.nodes())
    shown.page.keyboard.press("Escape")
    assert len(shown.nodes()) < before
    shown.page.keyboard.press("Enter")
    assert len(shown.nodes()) == before


def test_search_finds_by_operation_and_source(show: Show):
    shown = show(GraphView(residual()))
    shown.page.get_by_role("tree").focus()
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("block3 relu")
    assert "matches" in shown.page.locator(".wb-hits").inner_text()
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".wb-hits").inner_text().startswith("1 of ")
    found = shown.trait("selected")
    assert "block3" in shown.page.locator(f'.wb-inspector[data-id="{found}"]').inner_text()
    shown.page.keyboard.press("Control+a")
    shown.page.keyboard.type("no such thing")
    assert shown.page.locator(".wb-hits").inner_text() == "none"


def test_the_tree_mirrors_what_is_in_view(show: Show):
    shown = show(GraphView(residual(2)))
    items = shown.page.get_by_role("treeitem")
    items.first.wait_for(state="attached")
    assert 3 < items.count() <= 130
    assert "image" in items.first.inner_text() or "image" in items.first.text_content()
    assert items.first.get_attribute("aria-level") == "1"
    shown.click(shown.node("convolution"))
    shown.page.locator('[role=treeitem][aria-selected="true"]').wait_for(state="attached")
    active = shown.page.get_by_role("tree").get_attribute("aria-activedescendant")
    assert "convolution" in shown.page.locator(f"#{active}").text_content()


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_follows_the_page_and_the_button(show: Show, pictures: Path, dark: bool):
    shown = show(GraphView(residual()), dark=dark)
    assert shown.page.locator(".wb-root.wb-dark").count() == int(dark)
    shown.page.screenshot(path=pictures / f"graph-{'dark' if dark else 'light'}.png")
    shown.page.get_by_label("Light or dark").click()
    assert shown.page.locator(".wb-root.wb-dark").count() == int(not dark)
    assert shown.trait("theme") == ("light" if dark else "dark")


def test_hostile_names_are_only_ever_text(show: Show):
    view = GraphView(hostile())
    view.expanded = sorted(view.scene.openable())
    shown = show(view)
    shown.click(shown.node("relu"))
    assert "onerror=alert(1)" in shown.page.locator(".wb-inspector").inner_text()
    shown.page.mouse.move(400, 300)
    assert shown.page.locator("img, .wb-root script").count() == 0
    assert "onerror" in shown.page.title()


def test_an_overlay_colours_and_says_its_unit(show: Show):
    view = GraphView(residual(1))
    conv = next(i.id for i in view.program.main if i.name == "convolution")
    view.overlay = {"name": "time", "unit": "ms", "values": {conv: 0.21}, "total": True}
    shown = show(view)
    node = next(n for n in shown.nodes() if n["id"] == conv)
    assert node["fact"] == "0.21 ms"
    assert node["color"]
    assert "time" in shown.page.locator(".wb-legend").inner_text()


STRIPS = """window.cells = [];
const canvas = CanvasRenderingContext2D.prototype, draw = canvas.fillRect;
canvas.fillRect = function (...at) {
  if (at[3] === 6) window.cells.push(this.fillStyle);
  draw.call(this, ...at);
};"""


def test_an_overlay_is_spread_over_the_blocks_of_a_closed_group(show: Show, pictures: Path):
    view = GraphView(transformer(4))
    softmax = [i.id for i in view.program.main if i.name == "reduce_max"]
    values = dict(zip(softmax, (0.1, 0.2, 0.4), strict=False))
    view.overlay = {"name": "time", "unit": "ms", "values": values, "total": True}
    shown = show(view, before=STRIPS)
    (fold,) = [n for n in shown.nodes() if "× 4" in n["title"]]
    assert fold["fact"] == "0.7 ms, 0.1 to 0.4 each"
    assert len(set(shown.page.evaluate("window.cells.slice(-4)"))) == 4, "one has no value"
    shown.page.screenshot(path=pictures / "graph-blocks-light.png")


@pytest.mark.parametrize("dark", [False, True])
def test_errors_have_a_log_scale_with_the_tolerance_and_say_what_is_not_finite(
    show: Show, pictures: Path, dark: bool
):
    view = GraphView(residual(1))
    ids = [i.id for i in view.program.main if i.name in ("convolution", "relu", "add")]
    errors = [1e-7, 1e-5, math.inf, 0.0, 1e-3, 0.5][: len(ids)]
    view.overlay = {
        "name": "relative RMS", "scale": "magma", "tolerance": 1e-3,
        "values": dict(zip(ids, errors, strict=False)),
    }  # fmt: skip
    view.selected = ids[2]
    shown = show(view, dark=dark)
    facts = {n["id"]: n["fact"] for n in shown.nodes()}
    colors = {n["id"]: n["color"] for n in shown.nodes()}
    assert facts[ids[2]] == "not finite"
    assert facts[ids[0]] == "1.00e-7"
    assert facts[ids[5]] == "0.5 ▲"  # over the tolerance
    assert colors[ids[2]].lower() == "#fcfdbf"  # the top of the scale
    assert colors[ids[3]].lower() == "#000004"
    legend = shown.page.locator(".wb-legend")
    assert "(log)" in legend.inner_text()
    assert "tolerance 1.00e-3" in legend.inner_text()
    assert "1 not finite" in legend.inner_text()
    assert shown.page.locator(".wb-ramp i").get_attribute("title") == "tolerance 1.00e-3"
    shown.page.screenshot(path=pictures / f"graph-errors-{'dark' if dark else 'light'}.png")


def test_python_s_selection_opens_what_hides_it(show: Show):
    view = GraphView(residual())
    view.expanded = []
    view.selected = next(i.id for i in view.program.main if i.name == "convolution")
    shown = show(view)
    assert view.selected in [n["id"] for n in shown.nodes()]


def test_the_name_of_a_node_goes_round_its_instructions(show: Show):
    program = residual(1)
    (node,) = [n for n in program.source_nodes if "conv0/convolution" in n]
    with program.source(node):
        made = program.main.insert(program.main.last, "neg", program.outputs[0])
    ids = [i.id for i in program.main if node in i.sources]
    view = GraphView(program)
    view.selected = ids[0]
    shown = show(view)
    for wanted in (made.id, ids[0]):
        shown.page.locator(".wb-source .wb-link").first.click()
        assert shown.trait("selected") == wanted
    assert sum(n["hits"] for n in shown.nodes()) == 2


def test_the_state_reopens_at_the_same_place(show: Show):
    view = GraphView(residual(), state="s=5&c=10.0,20.0,0.750")
    camera = show(view).canvas.evaluate("c => c.__wb.camera")
    assert camera == {"x": 10, "y": 20, "k": 0.75}


def test_five_thousand_instructions_are_drawn_and_panned_with_few_nodes_a_frame(show: Show):
    shown = show(unfolded(transformer(95, scoped=False)))
    assert len(shown.nodes()) > 3000
    shown.canvas.evaluate("c => c.__wb.pan(0, 4000)")
    assert shown.canvas.evaluate("c => (c.__wb.redraw(), c.__wb.pane.visible.length)") < 200


def test_a_page_without_data_says_so_in_words(chromium: Browser, tmp_path: Path):
    path = tmp_path / "broken.html"
    text = GraphView(residual(1)).to_html().replace('"deflated":"', '"deflated":"AAAA', 1)
    path.write_text(text, encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    assert "could not be drawn" in page.locator(".wb-failure").inner_text()
    page.close()


HEARD = """window.texts = [];
const canvas = CanvasRenderingContext2D.prototype, draw = canvas.fillText;
canvas.fillText = function (text, ...at) { window.texts.push(text); draw.call(this, text, ...at); };"""


def test_edges_say_what_flows_along_them_when_near(show: Show):
    view = GraphView(trace(lambda x: abs(x).tanh(), x=(3, 5)))
    shown = show(view, before=HEARD)
    assert "float 3×5" not in shown.page.evaluate("window.texts")
    shown.page.locator(".wb-canvas").first.focus()
    for _ in range(6):
        shown.page.keyboard.press("+")
    for _ in range(100):
        if "float 3×5" in shown.page.evaluate("window.texts"):
            return
        shown.page.wait_for_timeout(50)
    pytest.fail("no edge said what flows along it")
