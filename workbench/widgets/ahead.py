"""Work that a view does ahead, while the kernel has nothing else to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakMethod

WAIT = 0.3
"""Seconds after the last question of the browser: one that comes soon goes first."""


class Ahead:
    """Does some work soon, in the kernel's event loop, and more while there is any.

    Without a running loop, in a script, nothing is done ahead.

    Args:
        work: A method that does one part, and returns whether there is more. It does not keep its object.
    """

    def __init__(self, work: Callable[[], bool]) -> None:
        """Plan nothing yet."""
        self._work = WeakMethod(work)
        self._planned: asyncio.TimerHandle | None = None

    @staticmethod
    def is_possible() -> bool:
        """Whether this runs in an event loop, which can do work later."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def soon(self, wait: float | None = None) -> None:
        """Begin in a while, counted from now.

        Args:
            wait: Seconds; by default `WAIT`.
        """
        self.stop()
        if self.is_possible():
            loop = asyncio.get_running_loop()
            self._planned = loop.call_later(WAIT if wait is None else wait, self._go_on)

    def stop(self) -> None:
        """Do no more."""
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None

    def _go_on(self) -> None:
        self._planned = None
        work = self._work()
        if work is not None and work():
            self.soon()
