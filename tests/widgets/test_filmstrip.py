"""Filmstrips of passes: still pictures that need nothing, on slides too."""

import base64
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import pytest
from nbconvert import SlidesExporter

import workbench as wb
from tests.widgets.networks import residual
from workbench.compiler.errors import OperationError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SVG = "{http://www.w3.org/2000/svg}"


def frames(picture: str) -> list[str]:
    """The captions of a strip's frames."""
    root = ET.fromstring(picture)
    assert len(root.findall(f"{SVG}svg")) == len(root.findall(f"{SVG}text[@class='h']"))
    return [e.text or "" for e in root.findall(f"{SVG}text[@class='h']")]


def test_a_filmstrip_shows_the_passes_that_change_the_most_in_their_order():
    build = wb.compile(residual(2), "cpu")
    edits = {s.name.partition("(")[0]: len(s.edits) for s in build.recording.steps if s.edits}
    first, *shown = frames(build.filmstrip(most=2).to_svg())
    names = [caption.partition(":")[0] for caption in shown]
    assert first == "before"
    assert len(names) == 2
    assert names == [name for name in edits if name in names]
    assert "fuse_pointwise" in names
    (_, one) = frames(build.filmstrip("fuse_pointwise").to_svg())
    step = next(s for s in build.recording.steps if s.name.startswith("fuse_pointwise"))
    assert one == f"fuse_pointwise: {step.size_before} → {step.size_after}"


def test_a_filmstrip_of_passes_that_changed_nothing_is_the_program_and_a_wrong_name_is_refused():
    build = wb.compile(residual(2), passes=[])
    assert frames(build.filmstrip().to_svg()) == ["before"]
    assert "changed nothing" in build.filmstrip().summary()
    with pytest.raises(OperationError, match="no change by cse"):
        build.filmstrip("cse")


def test_a_filmstrip_stands_on_its_slide_without_a_network():
    data, metadata = wb.compile(residual(2), "cpu").filmstrip()._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell(
        "build.filmstrip()", metadata={"slideshow": {"slide_type": "slide"}}
    )
    cell.outputs = [nbformat.v4.new_output("display_data", data, metadata=metadata)]
    text, _ = SlidesExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    (coded,) = re.findall(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)"', text)
    picture = base64.b64decode(coded).decode()
    assert len(frames(picture)) > 1
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_a_lesson_is_marked_for_slides():
    book = nbformat.read(NOTEBOOKS / "04-passes-and-laws.ipynb", as_version=4)
    kinds = [cell.metadata.slideshow.slide_type for cell in book.cells]
    text, _ = SlidesExporter().from_notebook_node(book)
    slides = text.partition('<div class="slides">')[2]
    assert slides.count("<section>") == 2 * kinds.count("slide") + kinds.count("subslide")
