"""The structure of an operation: how its elements become one. Passes, emitters and schedules ask for it.

An operation declares it as a class attribute, so that what asks need not know the operation's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from workbench.compiler.ir.dtypes import DType

MEAN = "{0} / {n}"
"""The end of a sum that makes it a mean."""


@dataclass(frozen=True)
class Monoid:
    """A reduction's monoid: lift an element, join two partial results associatively, finish.

    The texts are C as in ``Operation.expression``, and may call the functions that it may call; in
    ``lift`` and ``join``, ``T`` is the type that partial results are kept in.
    """

    join: str
    """The joint result of two partial results ``{0}`` and ``{1}``."""
    identity: Callable[[DType], float]
    """The partial result of no elements, by the type of the elements."""
    accumulator: Callable[[DType], DType]
    """The type that partial results are kept in, by the type of the elements."""
    lift: str = ""
    """The partial result of an element ``{0}``; by default the element itself."""
    finish: str = ""
    """The result, of a partial result ``{0}`` of ``{n}`` elements; by default the partial result."""

    @property
    def is_sum(self) -> bool:
        """Whether partial results are added up, and their sum is the result."""
        return self.join == "{0} + {1}" and not self.finish

    @property
    def keeps_one(self) -> bool:
        """Whether the result of one element is that element."""
        return not self.lift and self.finish in ("", MEAN)


@dataclass(frozen=True)
class Choice(Monoid):
    """The place of the element that beats all others, of equals the first; ``join`` gives the element."""

    beats: str = ">"
    """The comparison by which an element beats another; not-a-number beats every number."""

    @property
    def keeps_one(self) -> bool:
        """Whether the result of one element is that element: it is its place."""
        return False


class Rearrangement(Enum):
    """The way in which an operation that computes nothing gives elements of its first input."""

    RELAID = "each once, in row-major order or with axes permuted"
    REPEATED = "each once or more"
    SELECTED = "any of them, any number of times"


@dataclass(frozen=True)
class Contraction:
    """Sums of products of the elements of two operands: a matrix product or a convolution."""

    tag: str
    """Of the ``group`` that it becomes the heart of."""
    general: str = ""
    """The operation that does the same for any element type; empty where this one does."""
