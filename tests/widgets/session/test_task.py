"""Tasks: work in a thread says how far it is, and ends when it is asked to."""

import io
import sys
from threading import Event
from typing import Any

import pytest
from ipywidgets import Widget

from workbench.compiler.progress import progress_bar, progress_to
from workbench.widgets.session.task import Stopped, Task

Ended = list[tuple[Any, BaseException | None]]


def steps(count: int, after_each: Any = None) -> int:
    """Work with a progress bar that nobody sees."""
    with progress_bar(range(count), False, "steps") as shown:
        for _ in shown:
            if after_each is not None:
                after_each()
    return count


def test_its_result_comes_with_reports_on_the_way():
    heard: list[tuple[str, int, int]] = []
    ended: Ended = []
    task = Task(lambda: steps(3), lambda *said: heard.append(said), lambda *end: ended.append(end))
    task.wait(10)
    assert ended == [(3, None)]
    assert heard[0] == ("steps", 0, 3)
    assert not task.is_running


def test_it_ends_at_the_next_step_once_it_is_stopped():
    began, go_on, done = Event(), Event(), Event()
    ended: Ended = []

    def pause() -> None:
        began.set()
        assert go_on.wait(10)

    def end(*what: Any) -> None:
        ended.append(what)
        done.set()

    task = Task(lambda: steps(5, pause), lambda *_: None, end)
    assert began.wait(10)
    task.stop()
    go_on.set()
    assert done.wait(10)
    ((result, error),) = ended
    assert result is None
    assert isinstance(error, Stopped)
    assert isinstance(error, KeyboardInterrupt), "searches keep what they found, as after Ctrl-C"
    assert str(error) == "stopped in steps, 1 of 5 done"


def test_an_error_is_told_not_lost():
    ended: Ended = []

    def fail() -> None:
        raise ValueError("no")

    Task(fail, lambda *_: None, lambda *end: ended.append(end)).wait(10)
    assert ended[0][0] is None
    assert str(ended[0][1]) == "no"


def test_a_listener_hears_of_work_only_inside():
    heard: list[int] = []
    with progress_to(lambda _what, done, _of: heard.append(done)):
        steps(2)
    steps(2)
    assert heard == [0, 1]


def test_what_a_listener_raises_ends_the_work():
    def refuse(*_: Any) -> None:
        raise Stopped("enough")

    with pytest.raises(Stopped, match="enough"), progress_to(refuse):
        steps(2)


class OutStream(io.StringIO):
    """A stream as a notebook's kernel has it."""

    __module__ = "ipykernel.iostream"


def test_a_bar_in_a_notebook_is_text_that_needs_no_kernel_later(monkeypatch):
    made: list[Widget] = []
    monkeypatch.setattr("sys.stdout", OutStream())
    Widget.on_widget_constructed(made.append)
    try:
        with progress_bar(range(3), True, "searching") as items:
            assert list(items) == [0, 1, 2]
    finally:
        Widget.on_widget_constructed(None)
    said = sys.stdout.getvalue()
    assert "searching" in said
    assert said.rpartition("\r")[2].strip() == ""
    assert made == []


def test_a_bar_in_a_terminal_leaves_the_output_alone(capsys):
    with progress_bar(range(3), True, "searching") as items:
        assert list(items) == [0, 1, 2]
    said = capsys.readouterr()
    assert said.out == ""
    assert "searching" in said.err
