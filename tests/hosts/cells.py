"""Cells that show every view, and what is asserted of each."""

from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.jupyter.lab import PICTURES
from tests.jupyter.test_first_look import INK, NODES
from tests.models.registry import MODELS

CELLS = {
    "graph": 'import workbench as wb\nprogram = wb.parse_onnx("small_cnn.onnx")\nprogram',
    "passes": 'build = wb.compile(program, "cpu")\nexplorer = build.explore()\nexplorer',
    "workbench": 'view = wb.open(program, "cpu")\nview',
    "numbers": 'import numpy as np\nhalf = wb.compile(program, "cpu", precision="fp16")\n'
    'report = wb.compare(half, {"image": np.ones((1, 3, 32, 32), "float32")})\nreport.view()',
    "differences": "wb.differences(program, build)",
}
LONG = 60_000


def model() -> Path:
    """The model that the first cell reads."""
    return MODELS["small_cnn"].path


def expect_drawn(place: Locator, picture: str) -> None:
    """A view with a graph is drawn, and a click on a node selects it."""
    canvas = place.locator(".wb-canvas").last
    canvas.wait_for(timeout=LONG)
    canvas.scroll_into_view_if_needed()
    place.page.wait_for_timeout(500)
    assert canvas.evaluate(INK) > 8
    node = canvas.evaluate(NODES)[0]
    canvas.click(position={"x": node["x"], "y": node["y"]})
    place.locator(f'.wb-inspector[data-id="{node["id"]}"]').wait_for(timeout=LONG)
    PICTURES.mkdir(parents=True, exist_ok=True)
    place.page.screenshot(path=PICTURES / f"host-{picture}.png")


def expect_work(frame: Locator) -> None:
    """The workbench compiles, and its panes are filled from then on."""
    frame.locator(".wb-action", has_text="Compile").click()
    frame.locator(".wb-noteline", has_text="Build for").wait_for(timeout=LONG)
    frame.locator("[data-tab=passes]").click()
    frame.locator(".wb-explorer .wb-canvas").first.wait_for(timeout=LONG)
    frame.locator("[data-tab=memory]").click()
    frame.locator(".wb-tablepane tbody tr").first.wait_for(timeout=LONG)
    frame.locator("[data-tab=graph]").click()


def quiet(page: Page, noise: str) -> list[str]:
    """Errors on the page from now on, but for the host's own noise."""
    complaints: list[str] = []
    page.on("pageerror", lambda e: complaints.append(str(e)) if noise not in str(e) else None)
    return complaints
