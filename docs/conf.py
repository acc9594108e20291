"""Settings of the documentation."""

from typing import Any

import workbench
from tests.pages.write import drawn

project = "The graph workbench"
author = copyright = "The graph workbench authors"
version = release = workbench.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images"]
html_title = project
nb_execution_mode = "off"
myst_heading_anchors = 2


def draw(_: Any, page: str, source: list[str]) -> None:
    """Put the drawings into the pages of operators; read as a file, a page has none."""
    if page.startswith("operators/"):
        source[0] = drawn(source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", draw)
