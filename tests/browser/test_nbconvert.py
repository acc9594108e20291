"""Notebooks that nbconvert runs and converts, without a kernel or a network: every view is drawn."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter, SlidesExporter
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

import workbench as wb
from workbench.widgets.saved import MIME

pytestmark = pytest.mark.browser
CELLS = {
    "graph": "import workbench as wb\nfrom tests.widgets.networks import residual\n"
    "program = residual(2)\nprogram",
    "passes": "build = wb.compile(program, 'cpu')\nbuild.explore()",
    "workbench": "build.open()",
    "overlay": "wb.widgets.GraphView(program, overlay={i.id: i.id for i in program.main})",
    "kernels": "from tests.widgets.kernels import rows\n"
    "wb.widgets.kernel_view.explorer(program, rows())",
    "differences": "wb.differences(program, build)",
}
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
PRINTED = {"width": 816, "height": 1056}


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    """The notebook after a run as `jupyter nbconvert --execute` does it."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS.values()])
    root = Path(__file__).parents[2]
    return NotebookClient(book, resources={"metadata": {"path": str(root)}}).execute()


@pytest.fixture
def offline(chromium: Browser, tmp_path: Path):
    """`offline(text)` opens a page of that text without a network; its requests are in `fetched`."""
    context = chromium.new_context(viewport=PRINTED, reduced_motion="reduce")

    def opened(text: str) -> tuple[Page, list[str]]:
        page, fetched = context.new_page(), list[str]()

        def answer(route):
            url = route.request.url
            if url.startswith(("file:", "data:", "blob:")):
                return route.continue_()
            fetched.append(url)
            return route.abort()

        page.route("**/*", answer)
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page.goto(path.as_uri())
        return page, fetched

    yield opened
    context.close()


def words_of(cell: nbformat.NotebookNode) -> list[str]:
    """The texts of a cell's picture."""
    data = cell.outputs[0].data
    text = data.get("image/svg+xml") or data["text/html"]
    found = re.search(r"<svg.*</svg>", text, re.DOTALL)
    return [e.text or "" for e in ET.fromstring(found[0]).iter("{http://www.w3.org/2000/svg}text")]


def pictures(page: Page) -> list[Locator]:
    return page.locator(".jp-OutputArea-output").locator("img, svg:not(svg svg)").all()


def colours(picture: Locator) -> int:
    image = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
    return len(image.getcolors(1 << 24) or ())


def test_nothing_is_left_for_a_browser_with_a_kernel(executed):
    assert "widgets" not in executed.metadata
    for cell in executed.cells:
        (output,) = cell.outputs
        assert VIEW not in output.data
        assert output.data[MIME]["views"]


def test_every_view_is_drawn_on_the_page_and_fits_it_in_print(executed, offline: Callable):
    empty, own = offline(HTMLExporter().from_notebook_node(nbformat.v4.new_notebook())[0])
    empty.close()
    page, fetched = offline(HTMLExporter().from_notebook_node(executed)[0])
    assert sorted(fetched) == sorted(own), "only nbconvert's own template asks a network"
    found = pictures(page)
    assert len(found) == len(CELLS)
    assert all(colours(picture) > 8 for picture in found)
    page.emulate_media(media="print")
    for picture in found:
        box = picture.bounding_box()
        assert box["x"] + box["width"] <= PRINTED["width"]
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) > 2


def test_every_view_is_drawn_on_slides(executed, offline: Callable):
    for cell in executed.cells:
        cell.metadata.slideshow = {"slide_type": "slide"}
    page, _ = offline(SlidesExporter().from_notebook_node(executed)[0])
    found = pictures(page)
    assert len(found) == len(CELLS)
    assert all(colours(picture) > 8 for picture in found)


def test_pictures_say_the_pass_its_law_and_what_colours_mean(executed):
    said = dict(zip(CELLS, map(words_of, executed.cells), strict=True))
    from tests.widgets.networks import residual

    view = wb.compile(residual(2), "cpu").explore()
    law = view.steps.detail(view.step)["laws"][0]
    title, rule, *_ = said["passes"]
    assert title.startswith(
        f"Pass {view.step + 1} of {len(view.steps.steps)}, {view.steps.steps[view.step].name}: "
    )
    assert rule.startswith(law["rule"])
    assert rule.endswith(law["law"])
    assert {"removed", "pointwise"} <= {*said["passes"]}
    assert {"dot, convolution", "pointwise"} <= {*said["graph"]}
    assert any(
        text.startswith("value 0") or "hatched: no value" in text for text in said["overlay"]
    )
    assert "differences" in said["differences"][0]
