"""The structure of an operation: how it combines elements. Passes, emitters and schedules query it.

An operation declares it as a class attribute, so that code which queries it needs no operation's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from workbench.compiler.ir.dtypes import DType

MEAN = "{0} / {n}"
"""The finishing step that turns a sum into a mean."""


@dataclass(frozen=True)
class Monoid:
    """A reduction's monoid: lift an element, join two partial results associatively, finish.

    The texts are C, as in ``Operation.expression``, and may call the same functions. In ``lift`` and
    ``join``, ``T`` is the type of partial results.
    """

    join: str
    """Joins the partial results ``{0}`` and ``{1}``."""
    identity: Callable[[DType], float]
    """The identity, the partial result of no elements, for an element type."""
    accumulator: Callable[[DType], DType]
    """The type of partial results, for an element type."""
    lift: str = ""
    """The partial result of an element ``{0}``; by default the element itself."""
    finish: str = ""
    """The result, from the partial result ``{0}`` of ``{n}`` elements; by default the partial result."""

    @property
    def is_sum(self) -> bool:
        """Whether partial results are added and the sum is the result."""
        return self.join == "{0} + {1}" and not self.finish

    @property
    def keeps_one(self) -> bool:
        """Whether the result of one element is that element."""
        return not self.lift and self.finish in ("", MEAN)


@dataclass(frozen=True)
class Choice(Monoid):
    """The index of the element that beats all others, the first among equals; ``join`` gives the element."""

    beats: str = ">"
    """The comparison by which one element beats another; NaN beats every number."""

    @property
    def keeps_one(self) -> bool:
        """Whether the result of one element is that element; never, as the result is an index."""
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
    """The tag of the ``group`` that is fused around it."""
    general: str = ""
    """The equivalent operation for any element type; empty if this one accepts any."""
