"""The saved form of views: what JupyterLab draws them from when no kernel has them, of bounded size."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import anywidget

from workbench.widgets.base_view import BaseView

MIME = "application/vnd.graph-workbench.view+json"
VERSION = 2
"""Version of the form; the extension of JupyterLab shows the static form of any other."""
LIMIT = 200_000
"""Most characters of the saved form in one output."""
NOTHING: dict[str, Any] = {"version": VERSION, "views": []}
"""The form of an output that has nothing to draw."""

_OTHERS = {*anywidget.AnyWidget.class_trait_names(sync=True)}


def saved(views: Sequence[BaseView], limit: int = LIMIT) -> dict[str, Any]:
    """The saved form of views that are shown one below the other and share a selection.

    What Python would answer to a choice in the browser is added while there is room. A view that does not
    fit is replaced by a smaller one if it has one, e.g. a pass explorer by the graph after its step.

    Args:
        views: The views.
        limit: Most characters of JSON. If nothing fits, the form has no views.
    """
    chosen: list[BaseView] | None = list(views)
    while chosen is not None:
        forms = [_form(view) for view in chosen]
        form = {"version": VERSION, "views": forms}
        size = len(json.dumps(form))
        if size <= limit:
            for view, part in zip(chosen, forms, strict=True):
                size = _add_answers(view, part, size, limit)
            return form
        chosen = _smaller(chosen, [len(json.dumps(form)) for form in forms])
    return {**NOTHING}


def _smaller(views: list[BaseView], sizes: list[int]) -> list[BaseView] | None:
    """The views with the largest one made smaller, or left out if it cannot be; None if none is left."""
    k = sizes.index(max(sizes))
    less = views[k].smaller()
    return [*views[:k], *([] if less is None else [less]), *views[k + 1 :]] or None


def _form(view: BaseView) -> dict[str, Any]:
    names = [n for n in view.trait_names(sync=True) if n not in _OTHERS and n[0] != "_"]
    values = {name: _encoded(getattr(view, name)) for name in names}
    return {"entry": view.entry, "values": values | {"stored": True}, "answers": {}}


def _encoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if not isinstance(value, bytes):
        return value
    return {"base64": base64.b64encode(value).decode()} if value else None


def _add_answers(view: BaseView, form: dict[str, Any], size: int, limit: int) -> int:
    """Add answers until the next one does not fit; the new size."""
    for answer in view.answers():
        value = _encoded(answer.data)
        size += len(json.dumps(value)) + len(json.dumps([answer.asked, answer.value, answer.trait]))
        if size > limit:
            break
        traits = form["answers"].setdefault(answer.asked, {"trait": answer.trait, "by": {}})
        traits["by"][str(answer.value)] = value
    return size
