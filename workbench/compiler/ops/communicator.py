"""Replicas of a program that run in step: each is in a thread of its own, and meets the others there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import Array

if TYPE_CHECKING:
    from workbench.compiler.ops.collectives import Collective


class Communicator(ABC):
    """One replica's connection to the others.

    Args:
        replica: Its number, from 0.
        replicas: The number of replicas.
    """

    def __init__(self, replica: int, replicas: int) -> None:
        """Keep the numbers."""
        self.replica = replica
        self.replicas = replicas

    @abstractmethod
    def exchange(self, op: Collective, array: Array) -> Array:
        """This replica's result of a collective, in new memory; waits for the other replicas.

        Args:
            op: The collective, which all replicas have come to.
            array: This replica's value.

        Raises:
            EvaluationError: Another replica failed, did not come in time, or came to something else.
        """


_current: ContextVar[Communicator | None] = ContextVar("communicator", default=None)


def communicator() -> Communicator | None:
    """The connection of the replica that this thread runs; None if it runs none."""
    return _current.get()


@contextmanager
def communicating(one: Communicator) -> Generator[None]:
    """Let this thread run a replica inside the block."""
    token = _current.set(one)
    try:
        yield
    finally:
        _current.reset(token)
