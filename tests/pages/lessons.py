"""The course as pages of the documentation: ``python -m tests.pages.lessons`` runs it into docs/course."""

import os
import re
import shutil
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

from workbench.teach.lesson_page import live_outputs

ROOT = Path(__file__).parents[2]
NOTEBOOKS, DOCS = ROOT / "notebooks", ROOT / "docs"
COURSE = DOCS / "course"
HEAD = """```{{note}}
Graphs, predictions and choices work on this page; nothing has to be installed. To run and change the code:
`workbench lab notebooks/{name}`.
```"""
TOCTREE = "\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def of_site(text: str) -> str:
    """A page's text with links between notebooks and documentation as they are on the site."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](../", text)
    for here, there in (
        ("../notebooks/README.md", "course/index.md"),
        ("../notebooks/", "course/"),
        ("gallery.py", "course/gallery.ipynb"),
    ):
        text = text.replace(f"]({here}", f"]({there}")
    return text


def without_paths(text: str) -> str:
    """A notebook's text with the name of a cell's file for its path on this machine."""
    return re.sub(r"/[\w/]+/ipykernel_\d+/\d+\.py", "cell.py", text)


def executed(path: Path) -> nbformat.NotebookNode:
    """A notebook, or its text, with the outputs of a run, as a page shows them."""
    book = jupytext.read(path)
    NotebookClient(book, timeout=900, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    live_outputs(book)
    for cell in book.cells:
        cell.pop("transient", None)
        if cell.cell_type == "markdown":
            cell.source = of_site(cell.source)
    return book


def main() -> int:
    """Write every page of the course, and the gallery."""
    os.environ["TQDM_DISABLE"] = "1"  # a page has no use for how far a progress bar came
    shutil.rmtree(COURSE, ignore_errors=True)
    COURSE.mkdir()
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        book = executed(path)
        note = nbformat.v4.new_markdown_cell(HEAD.format(name=path.name))
        book.cells.insert(1, note)
        (COURSE / path.name).write_text(without_paths(nbformat.writes(book)), "utf-8")
        print(f"ran {path.name}", flush=True)
    index = (NOTEBOOKS / "README.md").read_text(encoding="utf-8")
    names = "\n".join(path.stem for path in paths)
    (COURSE / "index.md").write_text(of_site(index) + TOCTREE.format(names=names), "utf-8")
    nbformat.write(executed(DOCS / "gallery.py"), COURSE / "gallery.ipynb")
    return 0


if __name__ == "__main__":
    sys.exit(main())
