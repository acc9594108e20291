"""Declarations of how operations are computed, by their classes: elements, schedules, products."""

from __future__ import annotations

from typing import Generic, TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.operation import Operation

T = TypeVar("T")


class Declarations(Generic[T]):
    """A table of declarations by operation class; an operation without one has that of its base.

    Args:
        what: What is declared, for messages.
        package: The package whose modules hold the declarations; it is searched when one is asked for.
    """

    def __init__(self, what: str, package: str) -> None:
        """Nothing is declared yet."""
        self._what, self._package = what, package
        self._known: dict[type[Operation], T] = {}

    def add(self, op: type[Operation], value: T) -> None:
        """Declare a value for an operation and those derived from it.

        Raises:
            OperationError: The operation has one.
        """
        if op in self._known:
            raise OperationError(f"{op.__name__} has {self._what} already: {self._known[op]!r}")
        self._known[op] = value

    def of(self, op: Operation) -> T | None:
        """The declaration of an operation, or of the nearest of its bases; None if there is none."""
        import_modules(self._package)
        known = self._known
        return next((known[c] for c in type(op).__mro__ if c in known), None)
