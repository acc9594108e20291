"""Class probabilities from pairwise probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.ranges import (
    dims_of,
    expect,
    expect_floats,
    expect_rank,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_ROUNDS = 100
_ACCURACY = 0.005


@operation
class CouplePairs(Operation):
    """Class probabilities ``[N, classes]`` that agree best with the pairwise ones.

    The input ``[N, pairs]`` has, for the pairs (0, 1), (0, 2)… (1, 2)…, the probability of the first class
    of each. The method is the second one of Wu, Lin and Weng (2004), which support vector machines use.
    """

    name = "couple_pairs"
    not_differentiable = "the number of its rounds depends on the data"
    on_host = "greedy matching, one pair after another"
    family = Family.REDUCE
    dynamic = True
    classes: int = 2

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A probability for each class."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        expect_floats(self, inputs, 0)
        expect_rank(self, inputs, 2, 2)
        x, k = inputs[0], self.classes
        expect(self, k > 1, f"{k} classes; expected at least 2")
        rows, pairs = dims_of(x)
        fits = pairs == Dim(k * (k - 1) // 2, k * (k - 1) // 2)
        expect(self, fits, f"input {x}; expected {k * (k - 1) // 2} columns")
        if x.dims is not None:
            return ranged(x.type, (rows, Dim(k, k)))
        return Shape(x.type, (x.lens[0], k))

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Coordinate descent, until the probabilities of a row no longer change."""
        pairs: Array = widened(inputs[0])
        q = self._quadratic(pairs)
        p: Array = np.full((len(pairs), self.classes), 1 / self.classes, pairs.dtype)
        for _ in range(max(_ROUNDS, self.classes)):
            qp: Array = np.einsum("nij,nj->ni", q, p)
            pqp: Array = np.sum(p * qp, axis=1)
            moving = np.abs(qp - pqp[:, None]).max(axis=1, initial=0) >= _ACCURACY / self.classes
            if not moving.any():
                break
            p[moving] = _step(q[moving], p[moving], qp[moving], pqp[moving])
        return rounded(p, inputs[0].dtype)

    def _quadratic(self, pairs: Array) -> Array:
        """The matrix of the quadratic form that the probabilities minimise, for each row."""
        k = self.classes
        first, second = np.triu_indices(k, 1)
        r: Array = np.zeros((len(pairs), k, k), pairs.dtype)
        r[:, first, second], r[:, second, first] = pairs, 1 - pairs
        q = -r * r.transpose(0, 2, 1)
        q[:, np.arange(k), np.arange(k)] = np.square(r).sum(axis=1)
        return q

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Two classes and four."""
        yield cls(2), [np.array([[0.25], [0.9]], np.float32)]
        random = np.random.default_rng(0)
        yield cls(4), [random.uniform(0.1, 0.9, (3, 6)).astype(np.float32)]


def _step(q: Array, p: Array, qp: Array, pqp: Array) -> Array:
    """The probabilities after updating each of them once."""
    for t in range(p.shape[1]):
        moved = (pqp - qp[:, t]) / q[:, t, t]
        scale = 1 + moved
        p[:, t] += moved
        pqp = (pqp + moved * (moved * q[:, t, t] + 2 * qp[:, t])) / scale**2
        qp = (qp + moved[:, None] * q[:, t]) / scale[:, None]
        p = p / scale[:, None]
    return p
