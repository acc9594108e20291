"""A schedule that keeps little memory alive, within the order that operations need."""

from __future__ import annotations

from collections import Counter

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensors import Tensor


def scheduled(graph: Graph) -> tuple[Op, ...]:
    """The operations: of those that are ready, the one that leaves the least memory alive is next.

    Equal ones keep the order in which they were made.
    """
    left = {op: len(set(op.needs)) for op in graph.ops()}
    users: dict[Op, list[Op]] = {op: [] for op in left}
    for op in left:
        for earlier in set(op.needs):
            users[earlier].append(op)
    ready = [op for op, waits in left.items() if not waits]
    uses = Counter(t for op in left for t in set(op.inputs))
    kept = set(graph.get_output_tensors())
    order: list[Op] = []
    while ready:
        best = min(ready, key=lambda op: (_growth(op, uses, kept), op.id))
        order.append(best)
        ready.remove(best)
        uses.subtract(set(best.inputs))
        for op in users[best]:
            left[op] -= 1
            if not left[op]:
                ready.append(op)
    return tuple(order)


def _growth(op: Op, uses: Counter[Tensor], kept: set[Tensor]) -> int:
    """The bytes that the operation adds, less those of its inputs that nothing else needs."""
    made = sum(_bytes(t) for t in op.outputs) if op.view is None else 0
    last = {t for t in op.inputs if uses[t] == 1 and t.producer is not None and t not in kept}
    return made - sum(_bytes(t) for t in last)


def _bytes(tensor: Tensor) -> int:
    return tensor.nelms * tensor.dtype.as_numpy()().itemsize
