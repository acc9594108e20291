"""Ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import (
    expect,
    expect_floats,
    expect_integers,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_MODES: tuple[Callable[[Array, Array], Array], ...] = (
    np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal,
)  # fmt: skip
_SUMS = ("sum", "average")
_AGGREGATES = (*_SUMS, "min", "max")


@operation
class TreeEnsemble(Operation):
    """The votes ``[N, targets]`` of the leaves of decision trees that each row of ``x [N, F]`` reaches.

    Inputs are ``x``, the trees' roots; for each node the feature and the value that it compares,
    the comparison (0 to 5: ≤, <, ≥, >, =, ≠), the branches if it is true and false, whether NaN counts
    as true; and for each leaf its votes (NaN: no vote). A branch or root ``b`` is a node, or the leaf
    ``-1 - b`` if it is negative. Targets without votes are 0.
    """

    name = "tree_ensemble"
    not_differentiable = "comparisons are flat, and no gradient is written for the votes of leaves"
    on_host = "tables of trees"
    family = Family.REDUCE
    dynamic = True
    aggregate: str = "sum"

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A row for each row of the first input, with as many elements as a leaf has votes."""
        expect_count(self, inputs, 8)
        expect_tensors(self, inputs[:1])
        expect_static(self, inputs[1:])
        expect_floats(self, inputs, 0, 3, 7)
        expect_integers(self, inputs, 1, 2, 4, 5)
        known = self.aggregate in _AGGREGATES
        expect(self, known, f"aggregate {self.aggregate!r}; expected {', '.join(_AGGREGATES)}")
        ranks = [s.ndim for s in inputs]
        wanted = [2, 1, 1, 1, 1, 2, 1, 2]
        expect(self, ranks == wanted, f"inputs of ranks {ranks}; expected {wanted}")
        nodes = inputs[2].lens[0]
        fits = all(s.lens[0] == nodes for s in inputs[3:7]) and inputs[5].lens[1] == 2
        expect(self, fits, f"tables of {[s.lens for s in inputs[2:7]]}; expected {nodes} rows each")
        targets = inputs[7].lens[1]
        if inputs[0].dims is not None:
            return ranged(inputs[7].type, (inputs[0].dims[0], Dim(targets, targets)))
        return Shape(inputs[7].type, (inputs[0].lens[0], targets))

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """All rows descend all trees, one step at a time."""
        x, roots, votes = inputs[0], inputs[1], widened(inputs[7])
        self._check(*inputs)
        if not roots.size:
            return np.zeros((len(x), votes.shape[1]), inputs[7].dtype)
        found, dtype = votes[-1 - self._leaves(*inputs[:7])], inputs[7].dtype
        if self.aggregate in _SUMS:
            total: Array = np.nansum(found, axis=1)
            average = self.aggregate == "average"
            return rounded(total / votes.dtype.type(len(roots)) if average else total, dtype)
        best: Array = (np.fmin if self.aggregate == "min" else np.fmax).reduce(found, axis=1)
        return rounded(np.where(np.isnan(best), votes.dtype.type(0), best), dtype)

    def _leaves(self, x: Array, roots: Array, features: Array, *tables: Array) -> Array:
        values, modes, branches, missing = tables
        at: Array = np.tile(roots.astype(np.int64), len(x))
        places: Array = np.arange(len(at))
        kinds: list[int] = np.unique(modes).tolist()
        for _ in range(len(features) + 1):
            places = places[at[places] >= 0]
            if not places.size:
                return at.reshape(len(x), len(roots))
            node = at[places]
            given, limit, mode = x[places // len(roots), features[node]], values[node], modes[node]
            holds = missing[node].astype(np.bool_) & np.isnan(given)
            for kind in kinds:
                holds |= (mode == kind) & _MODES[kind](given, limit)
            at[places] = np.where(holds, branches[node, 0], branches[node, 1])
        raise EvaluationError("tree_ensemble: branches form a cycle; expected trees")

    def _check(self, x: Array, roots: Array, features: Array, *tables: Array) -> None:
        modes, branches, votes = tables[1], tables[2], tables[4]
        for what, found, low, high in (
            ("feature", features, 0, x.shape[1]),
            ("mode", modes, 0, len(_MODES)),
            ("branch", branches, -len(votes), len(features)),
            ("root", roots, -len(votes), len(features)),
        ):
            if found.size and not low <= int(found.min()) <= int(found.max()) < high:
                raise EvaluationError(
                    f"tree_ensemble: {what}s from {found.min()} to {found.max()}; "
                    f"expected {low} to {high - 1}"
                )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Two trees with all comparisons, branch modes and aggregations, and missing values."""
        x = noise(6, 3)
        x[0, 0] = x[3, 1] = np.nan
        features, modes = np.array([0, 1, 2, 1, 0, 2]), np.arange(6, dtype=np.uint8)
        branches = np.array([[1, 2], [-1, -2], [-3, -4], [4, 5], [-5, -6], [-2, -3]])
        missing, values = np.array([1, 0, 1, 1, 0, 0], np.bool_), noise(6, seed=1)
        votes = noise(6, 2, seed=2)
        votes[1, 0] = votes[4, 1] = np.nan
        tables = [features, values, modes, branches, missing, votes]
        for aggregate in _AGGREGATES:
            yield cls(aggregate), [x, np.array([0, 3, -1]), *tables]
