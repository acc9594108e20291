"""Values of IPUs or replicas combined: in one program of all replicas, or by collectives between programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from workbench.compat.popart.errors import popart_exception
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType

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
    return [_checked(found[k], len(values), lens) for k in range(len(values))]


def connected(collective: Collective, value: Value, replicas: int, lens: tuple[int, ...]) -> Value:
    """The result of a collective where each replica is a run of its own.

    Args:
        collective: The collective.
        value: The value of the replica.
        replicas: The number of replicas.
        lens: The lengths of the result, as the graph has them.

    Raises:
        popart_exception: The number of replicas is not the one with which the graph was built.
    """
    return _checked(_Apart(collective, replicas).result(value, lens), replicas, lens)


def _checked(value: Value, replicas: int, lens: tuple[int, ...]) -> Value:
    if tuple(value.shape) != lens:
        raise popart_exception(
            f"A collective across {replicas} replicas gives {tuple(value.shape)} and the graph has "
            f"{lens}; set ir.replication_factor before the graph is built."
        )
    return value


def _results(collective: Collective, given: Sequence[Value], lens: tuple[int, ...]) -> list[Value]:
    kind, op = collective.kind, collective.op
    if kind is Kind.REDUCE:
        return list(given) if op == "local" else [combined(given, op)] * len(given)
    flat = [v.reshape(-1) for v in given]
    if kind is Kind.GATHER:
        whole = flat[0].apply("concat", *flat[1:], axis=0) if len(flat) > 1 else flat[0]
        return [_gathered(collective, whole, lens)] * len(given)
    sources = flat if op == "local" else [combined(flat, op)] * len(flat)
    return [_shard(v, k, len(given)) for k, v in enumerate(sources)]


def _gathered(collective: Collective, whole: Value, lens: tuple[int, ...]) -> Value:
    """The elements of all replicas, without those that only fill up the last shards."""
    return whole[: prod(lens)].reshape(lens) if collective.of_shards else whole


def _shard(flat: Value, k: int, count: int) -> Value:
    """The k-th of equal parts; the last ones are filled with zeros."""
    flat = _filled(flat, count)
    size = _length(flat) // count
    return flat[k * size : (k + 1) * size]


def _filled(flat: Value, count: int) -> Value:
    """A row with zeros at its end, so that it has equal parts."""
    missing = -_length(flat) % count
    return flat.apply("pad", pads=(0, missing)) if missing else flat  # pyright: ignore[reportReturnType]


def _length(flat: Value) -> int:
    return int(flat.shape[0])  # pyright: ignore[reportArgumentType] - lengths are fixed


_DIRECT = ("add", "mul", "min", "max")
"""The operators of the core's collectives; mean and the sum of squares are computed from sums."""
_GATHERED = (DType.BOOL, DType.INT16, DType.UINT16)
"""The types that libraries of devices do not reduce: all values are gathered, and combined everywhere."""


class _Apart:
    """A collective between programs, one for each replica."""

    def __init__(self, collective: Collective, replicas: int) -> None:
        group = collective.group
        first = group.groups(replicas)[0]
        stride = first[1] - first[0] if len(first) > 1 else 1
        self.collective, self.size = collective, len(first)
        self.groups = {"replicas": replicas, "size": len(first), "stride": stride}

    def result(self, value: Value, lens: tuple[int, ...]) -> Value:
        kind, op = self.collective.kind, self.collective.op
        if kind is Kind.GATHER:
            return _gathered(self.collective, self._across("all_gather", value.reshape(-1)), lens)
        if kind is Kind.REDUCE:
            return value if op == "local" else self._combined(value, "all_reduce")
        if op == "local":
            return self._scattered(value.reshape(-1), combine="local")
        return self._combined(value.reshape(-1), "reduce_scatter")

    def _combined(self, value: Value, name: str) -> Value:
        """The combined values of the group; a part of them for ``reduce_scatter``."""
        op = self.collective.op
        if op == "square_add":
            value, op = value * value, "add"
        if value.dtype in _GATHERED or op not in (*_DIRECT, "mean"):
            whole = self._everywhere(value, op)
            return whole if name == "all_reduce" else self._scattered(whole, combine="local")
        direct = "add" if op == "mean" else op
        if name == "all_reduce":
            found = self._across(name, value, combine=direct)
        else:
            found = self._scattered(value, combine=direct)
        return (found * (1 / self.size)).astype(value.dtype) if op == "mean" else found

    def _everywhere(self, value: Value, op: str) -> Value:
        """The values of the group, gathered, and combined by each replica."""
        rows = self._across("all_gather", value.apply("unsqueeze", axes=(0,)))  # pyright: ignore[reportArgumentType]
        return combined([rows[k] for k in range(self.size)], op)

    def _scattered(self, flat: Value, combine: str) -> Value:
        return self._across("reduce_scatter", _filled(flat, self.size), combine=combine)

    def _across(self, name: str, value: Value, **attributes: str) -> Value:
        if self.size == 1:
            return value
        found = value.apply(name, **self.groups, **attributes)
        assert isinstance(found, Value)
        return found
