"""Executed notebooks as pages without a kernel: the saved views of their outputs, which one script draws."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import nbformat
from nbconvert.preprocessors import Preprocessor

from workbench.widgets import assets
from workbench.widgets.page import json_text
from workbench.widgets.saved import MIME

ENTRIES = (
    "exercise", "explorer", "graph_view", "kernel_view", "report_view", "tensor_view", "workbench",
)  # fmt: skip
EXERCISES = {"Choice", "Culprit", "Number", "Pick", "Text"}
"""Exercises that a page checks; it does not show the code that makes them, which has the answers."""
HIDDEN = "# the code of an exercise"
PYTHON_ONLY = (
    "<p><strong>This exercise needs Python, which runs your answer.</strong> Open the lesson as a notebook, "
    "change the cell above, and run it. This is what it says now:</p>"
)
_EXTENSION = assets.STATIC.parent / "labextension" / "static"


@cache
def script() -> str:
    """The script of such a page: every view, and what draws the saved ones."""
    modules = ",".join(f"{entry}: ${entry}" for entry in ENTRIES)
    views = assets.script(*ENTRIES)
    return f"(() => {{\n{views}{assets.joined(_EXTENSION, 'page')}$page.start({{{modules}}});\n}})();\n"


def place(form: dict[str, Any], still: str) -> str:
    """HTML with the saved form of views, and what is shown in their place until they are drawn."""
    text = f'<script type="application/json">{json_text(form)}</script>'
    return f'<div class="wb-saved">{text}<div>{still}</div></div>'


def live_outputs(notebook: Any) -> list[Any]:
    """Turn outputs that hold saved views into HTML, and take answers of exercises out of the code.

    Where a cell hands in an answer that only Python can check, the page says so.

    Args:
        notebook: An executed notebook, as nbformat reads it; it is changed.

    Returns:
        The outputs that were changed.
    """
    for cell in notebook.cells:
        _take_answers_out(cell)
        if "outputs" in cell:
            cell.outputs = [o for o in cell.outputs if _form(o).get("asked") != "below"]
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ()) if "data" in o]
    found = [o for o in outputs if _form(o).get("views")]
    for output in found:
        data = output.data
        still = data.get("text/html") or data.get("image/svg+xml", "")
        output.data = type(data)({"text/html": place(data[MIME], still)})
    return found


def _form(output: Any) -> dict[str, Any]:
    """The saved form of an output; empty if it has none."""
    return output.get("data", {}).get(MIME, {})


def _take_answers_out(cell: Any) -> None:
    if cell.cell_type != "code":
        return
    source = cell.source.strip()
    for found in (_of_exercises, _of_hints):
        source = _without(source, found(source))
    if not source and cell.source.strip():
        source = HIDDEN
        cell.transient = {"remove_source": True}  # nbconvert leaves the code out, and so does MyST
        cell.metadata.tags = [*cell.metadata.get("tags", ()), "remove-input"]
    cell.source = source
    if any(_hands_in(one) for one in _statements(source)):
        html = {"text/html": PYTHON_ONLY}
        cell.outputs.insert(0, nbformat.v4.new_output("display_data", html))


def _without(source: str, ranges: Iterable[tuple[int, int]]) -> str:
    """A source without some lines."""
    lines = source.split("\n")
    for first, last in sorted(ranges, reverse=True):
        del lines[first - 1 : last]
    return "\n".join(lines).strip()


def _of_hints(source: str) -> Iterator[tuple[int, int]]:
    """The first and last lines of hints and explanations that have lines of their own."""
    lines = source.split("\n")
    for one in (node for statement in _statements(source) for node in ast.walk(statement)):
        if isinstance(one, ast.keyword) and one.arg in ("hints", "because"):
            last = one.value.end_lineno or one.lineno
            before = lines[one.lineno - 1].encode()[: one.col_offset]
            after = lines[last - 1].encode()[one.value.end_col_offset :]
            if not before.strip() and after.strip() in (b"", b","):
                yield one.lineno, last


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:  # a command of IPython
        return []


def _hands_in(statement: ast.stmt) -> bool:
    """Whether a statement is ``exercise.answer(...)``."""
    function = getattr(getattr(statement, "value", None), "func", None)
    return getattr(function, "attr", "") == "answer"


def _of_exercises(source: str) -> list[tuple[int, int]]:
    """The first and last lines of statements that make or show an exercise."""
    found: list[tuple[int, int]] = []
    names: set[str] = set()
    for one in _statements(source):
        value = getattr(one, "value", None)
        function = value.func if isinstance(value, ast.Call) else None
        shown = value.id in names if isinstance(value, ast.Name) else False
        if getattr(function, "attr", getattr(function, "id", "")) in EXERCISES:
            names |= {t.id for t in getattr(one, "targets", ()) if isinstance(t, ast.Name)}
            shown = True
        if shown:
            found.append((one.lineno, one.end_lineno or one.lineno))
    return found


class LiveViews(Preprocessor):
    """A preprocessor of nbconvert: views and exercises work on the page, without a kernel or a network."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Turn the outputs to HTML; the last one has the script."""
        for last in live_outputs(nb)[-1:]:
            ends = f"<style>{assets.style()}</style><script>{script()}</script>"
            last.data["text/html"] += ends
        return nb, resources
