"""Declarations of how operations are computed, by their classes: elements, schedules, products."""

from __future__ import annotations

from typing import Generic, TypeVar

from workbench.compiler.discovery import import_modules
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.operation import Operation

T = TypeVar("T")


class Declarations(Generic[T]):
    """A table of declarations by operation class; an operation without one inherits its base's.

    Args:
        what: What is declared: a word for messages.
        package: The package with the declarations; its modules are imported at the first look-up.
    """

    def __init__(self, what: str, package: str) -> None:
        """Create an empty table."""
        self._what, self._package = what, package
        self._known: dict[type[Operation], T] = {}

    def add(self, op: type[Operation], value: T) -> None:
        """Declare a value for an operation and those derived from it.

        Raises:
            OperationError: The operation has a declaration already.
        """
        if op in self._known:
            raise OperationError(f"{op.__name__} already has {self._what}: {self._known[op]!r}")
        self._known[op] = value

    def of(self, op: Operation) -> T | None:
        """The declaration of an operation, or of the nearest of its bases; None if there is none."""
        import_modules(self._package)
        known = self._known
        return next((known[c] for c in type(op).__mro__ if c in known), None)
