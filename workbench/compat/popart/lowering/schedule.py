"""A schedule that keeps little memory alive, within the order that operations need."""

from __future__ import annotations

from collections import Counter

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensors import Tensor


def scheduled(graph: Graph) -> tuple[Op, ...]:
    """The operations: of those that are ready, next comes the one after which least memory is alive.

    Equal ones keep the order in which they were made.
    """
    left = list(graph.ops())
    uses = Counter(t for op in left for t in set(op.inputs))
    kept = set(graph.get_output_tensors())
    done: set[Op] = set()
    order: list[Op] = []
    while left:
        ready = [op for op in left if done.issuperset(op.needs)]
        best = min(ready, key=lambda op: _growth(op, uses, kept))
        order.append(best)
        left.remove(best)
        done.add(best)
        uses.subtract(set(best.inputs))
    return tuple(order)


def _growth(op: Op, uses: Counter[Tensor], kept: set[Tensor]) -> int:
    """The bytes that the operation adds, less those of its inputs that nothing else needs."""
    made = sum(_bytes(t) for t in op.outputs) if op.view is None else 0
    last = {t for t in op.inputs if uses[t] == 1 and t.producer is not None and t not in kept}
    return made - sum(_bytes(t) for t in last)


def _bytes(tensor: Tensor) -> int:
    return tensor.nelms * tensor.dtype.as_numpy()().itemsize
