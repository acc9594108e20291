"""The values of a run that goes on in another thread, read while they arrive."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import copy_context
from threading import Condition, Thread, get_ident
from typing import Any

from workbench.compiler.ir.operation import Value

_CHECK_SECONDS = 0.2
"""The longest that a keyboard interrupt waits for a value, where a lock cannot be interrupted."""


class _StoppedError(Exception):
    """Nobody reads the values any more."""


class Arrivals(MutableMapping[Any, Value]):
    """Values by key, to which another thread adds. Whoever asks for one that is not there waits for it.

    A key is missing once the run has ended without it. A failure of the run is raised where a value
    is asked for. Other threads may add values of their own.

    Args:
        values: Receives the values.
        ahead: Bytes of values that the run may add before they are deleted; then it waits until the reader
            deletes some, or asks for one that is not there. By default it does not wait.
    """

    def __init__(self, values: MutableMapping[Any, Value], ahead: int | None = None) -> None:
        """Nothing runs yet."""
        self._values = values
        self._ahead = ahead
        self._sizes: dict[Any, int] = {}
        self._size = 0
        self._runner = 0
        self._awaited: list[Any] = []
        """The keys that are waited for; None for the end of the run."""
        self._changed = Condition()
        self._is_over = False
        self._stopped = False
        self._failure: BaseException | None = None

    def run(self, work: Callable[[MutableMapping[Any, Value]], Any]) -> None:
        """Run the work, which adds to these values; an exception is kept and raised to the readers."""
        self._runner = get_ident()
        try:
            work(self)
        except _StoppedError:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def stop(self) -> None:
        """End the run at its next value. What has arrived can still be read."""
        with self._changed:
            self._stopped = self._is_over = True

    def wait(self) -> None:
        """Wait for the end of the run; raises the exception that ended it, if there was one."""
        with self._changed:
            self._await(None)

    def _await(self, key: Any) -> None:
        while not (self._is_over or (key is not None and key in self._values)):
            self._awaited.append(key)
            try:
                self._changed.notify_all()
                self._changed.wait(_CHECK_SECONDS)
            finally:
                self._awaited.remove(key)
        if self._failure is not None and not self._stopped:
            raise self._failure

    @property
    def _is_awaited(self) -> bool:
        """Whether somebody waits for what has not been added yet."""
        return any(key is None or key not in self._values for key in self._awaited)

    # As a mapping

    def __setitem__(self, key: Any, value: Value) -> None:
        """Add a value, and wake those that wait for it."""
        size = _bytes(value)
        with self._changed:
            if self._ahead is not None and get_ident() == self._runner:
                while self._size + size > self._ahead and not (self._is_awaited or self._stopped):
                    self._changed.wait(_CHECK_SECONDS)
            if self._stopped:
                raise _StoppedError
            self._values[key] = value
            self._size += size - self._sizes.get(key, 0)
            self._sizes[key] = size
            self._changed.notify_all()

    def __contains__(self, key: object) -> bool:
        """Whether there is a value of this key, as soon as that is known."""
        with self._changed:
            self._await(key)
            return key in self._values

    def __getitem__(self, key: Any) -> Value:
        """The value, as soon as it is there."""
        with self._changed:
            self._await(key)
            return self._values[key]

    def __delitem__(self, key: Any) -> None:
        """Forget a value."""
        with self._changed:
            del self._values[key]
            self._size -= self._sizes.pop(key)
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        """The keys, when the run has ended."""
        self.wait()
        return iter(self._values)

    def __len__(self) -> int:
        """The number of values, when the run has ended."""
        self.wait()
        return len(self._values)


def _bytes(value: Value) -> int:
    return sum(map(_bytes, value)) if isinstance(value, tuple) else value.nbytes


@contextmanager
def arriving(
    values: MutableMapping[Any, Value],
    work: Callable[[MutableMapping[Any, Value]], Any],
    ahead: int | None = None,
) -> Generator[Arrivals]:
    """Work in a thread whose values can be read while it runs; an exception inside the block stops it.

    Args:
        values: Receives the values.
        work: Adds values by key to the mapping that it is called with.
        ahead: Bytes of values that the work may add before they are deleted; by default any number.
    """
    found = Arrivals(values, ahead)
    thread = Thread(target=copy_context().run, args=(found.run, work), daemon=True)
    thread.start()
    try:
        yield found
        found.wait()
    except BaseException:
        found.stop()
        raise
