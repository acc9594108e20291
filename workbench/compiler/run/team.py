"""Replicas run together: a thread for each, a place where they meet, and an end for all if one fails."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Barrier, BrokenBarrierError, Lock, Thread
from typing import Any, TypeVar

from workbench.compiler.errors import EvaluationError, WorkbenchError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ops.collectives import Collective
from workbench.compiler.ops.communicator import Communicator, communicating
from workbench.knobs import knobs

T = TypeVar("T")

GRACE = 5.0
"""Seconds that replicas have to notice that another one failed, before their collectives are aborted."""


class Meeting:
    """The place in host memory where the replicas of a program meet.

    Args:
        replicas: The number of replicas.
    """

    def __init__(self, replicas: int) -> None:
        """Start without anybody."""
        self.replicas = replicas
        self.failure: BaseException | None = None
        """The error of the first replica that failed; nobody meets any more."""
        self._barrier = Barrier(replicas)
        self._lock = Lock()
        self._brought: list[tuple[Collective, Array] | None] = [None] * replicas

    def fail(self, error: BaseException) -> None:
        """End the meeting for all replicas."""
        with self._lock:
            self.failure = self.failure or error
        self._barrier.abort()

    def exchange(self, replica: int, op: Collective, array: Array) -> Array:
        """The result of a collective for one replica.

        Raises:
            EvaluationError: A replica did not come in time, or came to something else.
        """
        self._brought[replica] = op, array
        self._wait(replica, op)
        members = op.members(replica)
        given = [brought for k in members if (brought := self._brought[k]) is not None]
        for member, (other, _) in zip(members, given, strict=True):
            if other != op:
                raise EvaluationError(
                    f"replica {replica} came to {op}, and replica {member} to {other}: replicas run the "
                    "same instructions, so no condition of theirs may differ"
                )
        found = op.result([a for _, a in given], members.index(replica))
        self._wait(replica, op)  # what was brought may change from here on
        return found

    def _wait(self, replica: int, op: Collective) -> None:
        try:
            self._barrier.wait(knobs.collective_seconds or None)
        except BrokenBarrierError:
            if self.failure is not None:
                raise ended(replica, self.failure) from None
            raise late(replica, str(op)) from None


def ended(replica: int, failure: BaseException) -> EvaluationError:
    """The error of a replica that ends because another one failed."""
    return EvaluationError(f"replica {replica} ended, as another one failed: {_said(failure)}")


def _said(failure: BaseException) -> str:
    return ": ".join(filter(None, (type(failure).__name__, str(failure))))


def late(replica: int, what: str) -> EvaluationError:
    """The error of a replica that has waited for as long as it may."""
    return EvaluationError(
        f"replica {replica} waited {knobs.collective_seconds} s for the others at {what}; "
        "WORKBENCH_COLLECTIVE_SECONDS sets another limit"
    )


class HostCommunicator(Communicator):
    """The connection of a replica whose values meet in host memory.

    Args:
        meeting: The place where they meet.
        replica: The replica's number.
    """

    def __init__(self, meeting: Meeting, replica: int) -> None:
        """Keep the place."""
        super().__init__(replica, meeting.replicas)
        self.meeting = meeting

    def exchange(self, op: Collective, array: Array) -> Array:
        """This replica's result, computed by NumPy in the order of the replicas."""
        return self.meeting.exchange(self.replica, op, array)

    def abort(self) -> None:
        """End what hangs outside of this process's threads: nothing here."""


class Team:
    """The replicas of a program, each with a thread of its own.

    Args:
        communicators: The connection of each replica to the others.
        way: How values are exchanged, for tables.
    """

    def __init__(self, communicators: Sequence[HostCommunicator], way: str = "host memory") -> None:
        """Start the threads."""
        self.communicators = communicators
        self.way = way
        self.meeting = communicators[0].meeting
        self._workers = [_Worker() for _ in communicators]

    def run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Run a function for each replica at the same time; their results.

        Raises:
            EvaluationError: An earlier run failed, so that replicas are out of step.
            BaseException: The error of the first replica that failed, with a note which one.
        """
        if self.meeting.failure is not None:
            raise EvaluationError(
                "an earlier run of these replicas failed, and they are out of step; make a new session: "
                f"{_said(self.meeting.failure)}"
            )
        each = enumerate(zip(self._workers, works, strict=True))
        futures = [w.start(copy_context().run, self._one, k, work) for k, (w, work) in each]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException as error:
            self.meeting.fail(error)
            self._end(futures)
            raise
        if self.meeting.failure is not None:
            self._end(futures)
            raise self.meeting.failure
        return [f.result() for f in futures]

    def _one(self, replica: int, work: Callable[[], T]) -> T:
        one = self.communicators[replica]
        try:
            with communicating(one):
                return work()
        except BaseException as error:
            if self.meeting.failure is None:
                error.add_note(f"in replica {replica} of {one.replicas}")
            self.meeting.fail(error)
            raise

    def _end(self, futures: Sequence[Future[Any]]) -> None:
        """Wait for the other replicas to end; abort the collectives that they have begun."""
        wait(futures, GRACE)
        for one in self.communicators:
            with suppress(WorkbenchError):
                one.abort()
        wait(futures, GRACE)


class _Worker:
    """A thread that runs one function after another, and for which no end of the process waits."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=_serve, args=(self._calls,), name="replica", daemon=True).start()
        weakref.finalize(self, self._calls.put, None)

    def start(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """The result of a function, run after those before it."""
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        self._calls.put(call)
        return future


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # it holds a replica's values


def host_team(replicas: int) -> Team:
    """Replicas whose values meet in host memory."""
    meeting = Meeting(replicas)
    return Team([HostCommunicator(meeting, k) for k in range(replicas)])
