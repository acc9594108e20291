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
# Wide enough for code of 100 columns; tables and code that are wider scroll by themselves, not with the page.
STYLE = """.main, .content { min-width: 0; }
.content { width: min(55em, 100%); }
body div.cell > div.cell_input { border-color: var(--color-background-border); }
table.dataframe { display: block; max-width: 100%; overflow-x: auto; border: 0; font-size: 87.5%; }
table.dataframe { border-collapse: collapse; }
table.dataframe :is(th, td) { padding: .2em .7em; border: 0; text-align: right; }
table.dataframe tr { border-bottom: 1px solid var(--color-table-border); }
"""
WIDE = ".content { width: min(64em, 100%); }\n"


def edit(_: Any, page: str, source: list[str]) -> None:
    """Put the drawings into the pages of operators, and the site's own links into all others."""
    if page.startswith("operators/"):
        source[0] = drawn(source[0])
    elif not page.startswith("course/"):
        source[0] = of_site(source[0])


def add_views(app: Any) -> None:
    """Write the style of all pages, and the script and the style of live views."""
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "views.js").write_text(lesson_page.script(), encoding="utf-8")
    (folder / "site.css").write_text(STYLE, encoding="utf-8")
    (folder / "views.css").write_text(assets.style() + WIDE, encoding="utf-8")


def show_views(app: Any, page: str, *_: Any) -> None:
    """Load them on the pages that have some."""
    if page.startswith("course/"):
        app.add_css_file("views.css")
        app.add_js_file("views.js", loading_method="defer")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_css_file("site.css")
    app.connect("source-read", edit)
    app.connect("builder-inited", add_views)
    app.connect("html-page-context", show_views)
