"""Values of IPUs or replicas combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from workbench.compat.popart.errors import popart_exception
from workbench.compiler.expressions.value import Value

if TYPE_CHECKING:
    from workbench.compat.popart.ir.ops.collectives.groups import CommGroup


class Kind(Enum):
    """The kinds of collectives across replicas."""

    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"


@dataclass(frozen=True)
class Collective:
    """A collective across replicas."""

    kind: Kind
    op: str
    group: CommGroup
    of_shards: bool = False
    """Whether gathered elements are those of shards, of which the last may be filled up."""


def combined(values: Sequence[Value], op: str) -> Value:
    """Values combined by an operator; a single value stays as it is, or is squared.

    ``local`` combines nothing, and gives the first value.
    """
    if op == "square_add":
        return reduce(_OPERATORS["add"], [v * v for v in values])
    if op == "mean":
        return (reduce(_OPERATORS["add"], values) * (1 / len(values))).astype(values[0].dtype)
    if op == "local":
        return values[0]
    return reduce(_OPERATORS[op], values)


_OPERATORS: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "min": lambda a, b: a.minimum(b),
    "max": lambda a, b: a.maximum(b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}


def exchanged(
    collective: Collective, values: Sequence[Value], lens: tuple[int, ...]
) -> list[Value]:
    """The results of a collective for each replica.

    Args:
        collective: The collective.
        values: The value of each replica.
        lens: The lengths of each result, as the graph has them.

    Raises:
        popart_exception: The number of replicas is not the one with which the graph was built.
    """
    found: dict[int, Value] = {}
    for members in collective.group.groups(len(values)):
        given = [values[k] for k in members]
        found |= dict(zip(members, _results(collective, given, lens), strict=True))
    for value in found.values():
        if tuple(value.shape) != lens:
            raise popart_exception(
                f"A collective across {len(values)} replicas gives {tuple(value.shape)} and the graph has "
                f"{lens}; set ir.replication_factor before the graph is built."
            )
    return [found[k] for k in range(len(values))]


def _results(collective: Collective, given: Sequence[Value], lens: tuple[int, ...]) -> list[Value]:
    kind, op = collective.kind, collective.op
    if kind is Kind.REDUCE:
        return list(given) if op == "local" else [combined(given, op)] * len(given)
    flat = [v.reshape(-1) for v in given]
    if kind is Kind.GATHER:
        whole = flat[0].apply("concat", *flat[1:], axis=0) if len(flat) > 1 else flat[0]
        if collective.of_shards:
            whole = whole[: prod(lens)].reshape(lens)
        return [whole] * len(given)
    sources = flat if op == "local" else [combined(flat, op)] * len(flat)
    return [_shard(v, k, len(given)) for k, v in enumerate(sources)]


def _shard(flat: Value, k: int, count: int) -> Value:
    """The k-th of equal parts; the last ones are filled with zeros."""
    total = int(flat.shape[0])  # pyright: ignore[reportArgumentType] - lengths are fixed
    size = -(-total // count)
    if size * count > total:
        flat = flat.apply("pad", pads=(0, size * count - total))
    return flat[k * size : (k + 1) * size]
