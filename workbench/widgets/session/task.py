"""A task: one long action in a thread of its own, with its progress, which can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Thread
from time import monotonic
from typing import Any

from workbench.compiler.progress import progress_to

_APART_SECONDS = 0.1
"""The least time between two reports."""


class Stopped(KeyboardInterrupt):
    """The task was stopped; searches that keep partial results on an interrupt keep them."""


class Task:
    """Runs a function in a thread.

    Args:
        work: The function.
        heard: Called with the name of the work, the number of items done, and the number of all items.
        done: Called at the end with the result and None, or with None and the error.
    """

    def __init__(
        self,
        work: Callable[[], Any],
        heard: Callable[[str, int, int], None],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Start it."""
        self._work = work
        self._heard = heard
        self._done = done
        self._stop = Event()
        self._last = 0.0
        context = copy_context()
        self._thread = Thread(target=context.run, args=(self._run,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end at the next step that reports progress."""
        self._stop.set()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        result, failed = None, None
        try:
            with progress_to(self._report):
                result = self._work()
        except BaseException as error:  # the thread has nobody else to tell
            failed = error
        self._done(result, failed)

    def _report(self, what: str, done: int, of: int) -> None:
        if self._stop.is_set():
            raise Stopped(f"stopped in {what}, {done} of {of} done")
        now = monotonic()
        if now - self._last >= _APART_SECONDS:
            self._last = now
            self._heard(what, done, of)


def in_kernel() -> Callable[..., Any]:
    """A function that calls another one in the event loop of the kernel, or at once without a kernel.

    Traits are changed in one thread only: messages of the browser change them in the kernel's own.
    """
    from IPython.core.getipython import get_ipython  # noqa: PLC0415

    if getattr(get_ipython(), "kernel", None) is None:
        return _call
    return asyncio.get_running_loop().call_soon_threadsafe


def _call(called: Callable[..., Any], *arguments: Any) -> None:
    called(*arguments)
