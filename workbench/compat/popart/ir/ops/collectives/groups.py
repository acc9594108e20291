"""Groups of replicas, and the operations that combine their tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CommGroupType(Enum):
    """The way in which replicas are divided into groups."""

    All = 0
    """One group of all replicas."""
    Consecutive = 1
    """The first ones, then the next ones."""
    Orthogonal = 2
    """Every m-th one, where m is the number of groups."""
    Ungrouped = 3
    """Each replica by itself."""
    vars()["None"] = 3  # noqa: PIE796 - PopART's name, which Python cannot write


@dataclass(frozen=True)
class CommGroup:
    """A division of replicas into groups of one size."""

    type: CommGroupType = CommGroupType.All
    replica_group_size: int = 0

    def groups(self, replicas: int) -> list[tuple[int, ...]]:
        """The replicas of each group.

        Raises:
            ValueError: The size does not divide the number of replicas.
        """
        if self.type is CommGroupType.All:
            return [tuple(range(replicas))]
        size = 1 if self.type is CommGroupType.Ungrouped else self.replica_group_size
        if size < 1 or replicas % size:
            raise ValueError(f"{self}: expected a group size that divides {replicas} replicas")
        count = replicas // size
        if self.type is CommGroupType.Orthogonal:
            return [tuple(range(k, replicas, count)) for k in range(count)]
        return [tuple(range(k * size, (k + 1) * size)) for k in range(count)]


OPERATORS = ("add", "mean", "mul", "min", "max", "and", "or", "square_add", "local")


def check_operator(op: str) -> None:
    """Check the name of an operator.

    Raises:
        ValueError: There is none of this name.
    """
    if op not in OPERATORS:
        raise ValueError(f"Invalid op: {op!r}; expected one of {', '.join(OPERATORS)}")
