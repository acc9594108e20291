"""Settings of the documentation."""

from pathlib import Path
from typing import Any

import workbench
from tests.pages.lessons import of_site
from tests.pages.write import drawn
from workbench.teach import lesson_page
from workbench.widgets import assets

project = "The graph workbench"
author = copyright = "The graph workbench authors"
version = release = workbench.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images", "gallery.py"]
html_theme = "furo"
html_title = project
nb_execution_mode = "off"
nb_merge_streams = True
myst_heading_anchors = 3
# Names such as `bytes` and `Check` in docstrings are those of the class at hand.
suppress_warnings = ["ref.python"]


def edit(_: Any, page: str, source: list[str]) -> None:
    """Put the drawings into the pages of operators, and the site's own links into all others."""
    if page.startswith("operators/"):
        source[0] = drawn(source[0])
    elif not page.startswith("course/"):
        source[0] = of_site(source[0])


def add_views(app: Any) -> None:
    """Write the script and the style of live views."""
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "views.js").write_text(lesson_page.script(), encoding="utf-8")
    wide = ".content { width: min(64em, 100%); }\n"
    (folder / "views.css").write_text(assets.style() + wide, encoding="utf-8")


def show_views(app: Any, page: str, *_: Any) -> None:
    """Load them on the pages that have some."""
    if page.startswith("course/"):
        app.add_css_file("views.css")
        app.add_js_file("views.js", loading_method="defer")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", edit)
    app.connect("builder-inited", add_views)
    app.connect("html-page-context", show_views)
