"""A button of the workbench that is pressed: its message, and the wait for the end of its action."""

from threading import Event
from typing import Any

from workbench.widgets.workbench_view import Workbench


def press(view: Workbench, message: dict[str, Any]) -> None:
    """Sends what a button sends, and waits until the action that it starts has ended."""
    began, ended = Event(), Event()

    def told(change: Any) -> None:
        if change["new"]["doing"]:
            began.set()
        elif began.is_set():
            ended.set()

    view.observe(told, names=["status"])
    view._received(view, message, [])
    assert ended.wait(60)
    view.unobserve(told, names=["status"])
