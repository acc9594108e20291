"""The lifetime of views: one lives while somebody refers to it; one that a cell shows, until that runs again.

ipywidgets keeps every widget, and so what it shows, until it is closed.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakMethod

from ipywidgets.widgets import widget

_instances: dict[str, Any] = vars(widget)["_instances"]
"""All that ipywidgets keeps."""
_shown: dict[str, tuple[int, list[Any]]] = {}
"""By cell: the number of its last run, and the views that this has shown."""


def loosen(view: Any) -> None:
    """Let a view go when nobody refers to it any more, though it has a channel to the browser."""
    if view.comm is None:
        return
    _instances.pop(view.model_id, None)
    handle = WeakMethod(view._handle_msg)

    def received(message: Any) -> None:
        if (method := handle()) is not None:
            method(message)

    view.comm.on_msg(received)


def pin(view: Any, shell: Any) -> None:
    """Keep a view that a cell shows; those of its previous run are closed, unless shown again."""
    _instances[view.model_id] = view
    if shell is None:
        return
    cell, run = _cell(shell), int(shell.execution_count)
    number, views = _shown.get(cell, (run, []))
    if number != run:
        _close_after(shell, cell, views)
        views = []
    _shown[cell] = (run, [*views, view])


def _cell(shell: Any) -> str:
    """The cell that runs: by its id, where the notebook tells it, or else its text."""
    parent = getattr(shell, "get_parent", dict)()
    told = parent.get("metadata", {}).get("cellId")
    return str(told or parent.get("content", {}).get("code", ""))


def _close_after(shell: Any, cell: str, before: list[Any]) -> None:
    """Close views when the cell that runs is done, unless it has shown them again."""

    def done(*_: Any) -> None:
        shell.events.unregister("post_run_cell", done)
        again = _shown[cell][1]
        for view in before:
            if not any(view is one for one in again):
                view.retire()

    shell.events.register("post_run_cell", done)
