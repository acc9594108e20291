"""Checks of operands that all operations share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.context import get_current_graph
from workbench.compat.popart.ir.tensors import Tensor


def check(**tensors: Tensor) -> None:
    """Check that operands are of the current graph and in one place.

    Raises:
        TypeError: One is not a tensor.
        ValueError: One is of another graph, or two are on different IPUs or tile sets.
    """
    check_in_graph(**tensors)
    check_tensor_ipu_and_tile_set(**tensors)


def check_in_graph(**tensors: Any) -> None:
    """Check that operands are tensors of the current graph.

    Raises:
        TypeError: One is not a tensor.
        ValueError: One is of another graph.
    """
    graph = get_current_graph()
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise TypeError(f"The input `{name}` is not a Tensor: {t!r} is a {type(t).__name__}.")
        if t not in graph:
            raise ValueError(
                f"The input tensor `{name}` is not in the current Graph {graph.name!r}: {t.id} is in "
                f"{t.scope!r}."
            )


def check_tensor_ipu_and_tile_set(**tensors: Tensor) -> None:
    """Check that operands that operations made are on one IPU and one tile set.

    Raises:
        ValueError: They are not.
    """
    made = [(n, t.producer, t.producer_index) for n, t in tensors.items() if t.producer is not None]
    ipus = ((n, op.ipu_of(k)) for n, op, k in made)
    _check_equal("IPUs", [(n, ipu) for n, ipu in ipus if ipu is not None])
    _check_equal("tile sets", [(n, op.tile_set) for n, op, _ in made])


def _check_equal(what: str, places: Sequence[tuple[str, object]]) -> None:
    for (a, one), (b, other) in pairwise(places):
        if one != other:
            raise ValueError(
                f"The input tensors `{a}` and `{b}` are located on different {what}: {one} != {other}"
            )


def check_all(name: str, tensors: Sequence[Tensor]) -> None:
    """Check a list of operands, as `check` does."""
    check(**{f"{name}[{k}]": t for k, t in enumerate(tensors)})


def check_same_type(op: str, *tensors: Tensor) -> None:
    """Check that operands have one element type.

    Raises:
        popart_exception: They do not.
    """
    types = {t.dtype for t in tensors}
    if len(types) > 1:
        given = ", ".join(map(repr, tensors))
        raise popart_exception(f"{op}: operands of different types: {given}; cast one of them")


def axes_of(t: Tensor, axis: Any) -> tuple[int, ...]:
    """The axes that an argument names, from the front; all for None.

    Raises:
        ValueError: One is out of range, or named twice.
    """
    given = range(t.rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in given:
        if not -max(t.rank, 1) <= a < max(t.rank, 1):
            raise ValueError(f"axis {a} is out of range for {t!r}")
    found = tuple(a % max(t.rank, 1) for a in given)
    if len(set(found)) < len(found):
        raise ValueError(f"axes {found} have duplicates")
    return found if t.rank else ()
