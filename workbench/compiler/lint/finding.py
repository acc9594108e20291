"""Findings, and the table of their kinds: a kind is a function from what is inspected to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.compiler.discovery import import_modules
from workbench.compiler.errors import OperationError

if TYPE_CHECKING:
    from workbench.compiler.lint.subject import Subject


@dataclass(frozen=True)
class Cost:
    """The work that a remedy saves, in each run."""

    bytes: int = 0
    """Bytes read and written."""
    flops: int = 0
    kernels: int = 0
    """Kernels, or steps of an interpreter."""
    ms: float | None = None
    """Measured milliseconds; None without a profile."""


@dataclass(frozen=True)
class Finding:
    """One place where a program does more than it has to, or something risky."""

    kind: str
    id: int
    """The instruction."""
    instruction: str
    """Its printed name, with its operation: ``@13 contiguous``."""
    sources: tuple[str, ...]
    """The model's nodes that it comes from."""
    cost: Cost
    remedy: str
    """The option, the pass or the change of the model that mends it."""
    reason: str
    """The reason why the compiler left it: a near miss, an obstacle, or a pass that did not run."""
    ids: tuple[int, ...] = field(default=())
    """All instructions concerned, this one among them."""


Check = Callable[["Subject"], Iterator[Finding]]


@dataclass(frozen=True)
class Kind:
    """A kind of finding: its name, its explanation, and the function that finds it."""

    name: str
    check: Check

    @property
    def summary(self) -> str:
        """The first line of the explanation."""
        return self.explanation.split("\n")[0]

    @property
    def explanation(self) -> str:
        """The docstring of its function: the cause, the cost and the remedy."""
        return (self.check.__doc__ or "").strip()


_KINDS: dict[str, Kind] = {}


def kind(name: str) -> Callable[[Check], Check]:
    """List a function among the kinds of findings.

    Raises:
        OperationError: There is a kind of that name already, or the function has no docstring.
    """

    def make(check: Check) -> Check:
        made = Kind(name, check)
        if name in _KINDS or not made.explanation:
            problem = "is declared twice" if name in _KINDS else "has no docstring"
            raise OperationError(f"kind of finding {name!r} {problem}")
        _KINDS[name] = made
        return check

    return make


def kinds() -> dict[str, Kind]:
    """Every kind of finding by name."""
    import_modules("workbench.compiler.lint.kinds")
    return dict(sorted(_KINDS.items()))
