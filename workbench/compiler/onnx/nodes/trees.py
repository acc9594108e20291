"""Ensembles of decision trees: TreeEnsemble, and the two older operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx import scores
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.ml import rows, wide, width
from workbench.compiler.onnx.registry import onnx_op

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_EQUAL, _MEMBER = 4, 6


@dataclass
class _Trees:
    """The tables of a ``tree_ensemble``; a negative branch ``b`` is the leaf ``-1 - b``."""

    roots: list[int] = field(default_factory=list[int])
    features: list[int] = field(default_factory=list[int])
    values: list[float] = field(default_factory=list[float])
    modes: list[int] = field(default_factory=list[int])
    branches: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    missing: list[bool] = field(default_factory=list[bool])

    def apply(self, node: NodeContext, x: Instruction, votes: Array, aggregate: str) -> Instruction:
        """Append the operation; ``votes`` has a row per leaf, with NaN for no vote."""
        if aggregate not in _AGGREGATES:
            raise node.fail(f"aggregate_function={aggregate!r}; expected {', '.join(_AGGREGATES)}")
        type = x.shape.type.numpy
        tables = (
            np.array(self.roots, np.int64),
            np.array(self.features, np.int64),
            np.array(self.values, type),
            np.array(self.modes, np.uint8),
            np.array(self.branches, np.int64).reshape(-1, 2),
            np.array(self.missing, np.bool_),
            votes.astype(type),
        )
        literals = [node.literal(t) for t in tables]
        return node.add("tree_ensemble", x, *literals, aggregate=aggregate.lower())


def _empty_votes(node: NodeContext, leaves: int, targets: int) -> Array:
    if targets < 1:
        raise node.fail(f"{targets} targets; expected at least 1")
    check_size(Shape(DType.DOUBLE, (leaves, targets)), node.op_type)
    return np.full((leaves, targets), np.nan)


def _expect_lengths(node: NodeContext, count: int, *columns: Sequence[object] | Array) -> None:
    lengths = [len(c) for c in columns]
    if any(n != count for n in lengths):
        raise node.fail(f"tables of {lengths} rows; expected {count} each")


def _in_range(node: NodeContext, what: str, values: Sequence[int], count: int) -> None:
    wrong = next((v for v in values if not 0 <= v < count), None)
    if wrong is not None:
        raise node.fail(f"{what} {wrong} is out of range; expected 0 to {count - 1}")


# TreeEnsemble


@onnx_op("TreeEnsemble")
def tree_ensemble(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A regression by trees whose leaves have one target each."""
    node.expect(inputs, 1)
    x = rows(node, inputs[0])
    targets, which = node.integers("leaf_targetids"), node.integer("n_targets")
    weights = node.tensor("leaf_weights").numpy().reshape(-1)
    _expect_lengths(node, len(weights), targets)
    _in_range(node, "target", targets, which)
    votes = _empty_votes(node, len(weights), which)
    votes[np.arange(len(weights)), list(targets)] = weights
    order = node.integer("aggregate_function", 1)
    _in_range(node, "aggregate_function", (order,), len(_AGGREGATES))
    found = _of_nodes(node, len(weights)).apply(node, x, votes, _AGGREGATES[order])
    kind = node.integer("post_transform", 0)
    _in_range(node, "post_transform", (kind,), len(scores.TRANSFORMS))
    return scores.transformed(node, found, scores.TRANSFORMS[kind])


def _of_nodes(node: NodeContext, leaves: int) -> _Trees:
    """The tables of nodes whose branches and leaves are distinguished by flags."""
    modes = [int(m) for m in node.tensor("nodes_modes").numpy().reshape(-1)]
    count = len(modes)
    features = node.integers("nodes_featureids")
    values = [float(v) for v in node.tensor("nodes_splits").numpy().reshape(-1)]
    missing = node.integers("nodes_missing_value_tracks_true", ()) or (0,) * count
    sides = [
        (node.integers(f"nodes_{side}nodeids"), node.integers(f"nodes_{side}leafs"))
        for side in ("true", "false")
    ]
    _expect_lengths(node, count, features, values, missing, *sides[0], *sides[1])
    _in_range(node, "mode", modes, _MEMBER + 1)
    for ids, flags in sides:
        for place, is_leaf in zip(ids, flags, strict=True):
            _in_range(node, "leaf" if is_leaf else "node", (place,), leaves if is_leaf else count)
    (yes, yes_leaf), (no, no_leaf) = sides
    branches = [
        (-1 - a if a_leaf else a, -1 - b if b_leaf else b)
        for a, a_leaf, b, b_leaf in zip(yes, yes_leaf, no, no_leaf, strict=True)
    ]
    roots = list(node.integers("tree_roots"))
    _in_range(node, "root", roots, count)
    made = _Trees(
        [branches[r][0] if branches[r][0] == branches[r][1] < 0 else r for r in roots],
        list(features), values, modes, branches, [bool(m) for m in missing],
    )  # fmt: skip
    _unroll_members(node, made)
    return made


def _unroll_members(node: NodeContext, trees: _Trees) -> None:
    """Unroll tests for membership into chains of tests for equality."""
    places = [i for i, mode in enumerate(trees.modes) if mode == _MEMBER]
    if not places:
        return
    given = node.tensor("membership_values").numpy().reshape(-1).astype(np.float64)
    ends = np.flatnonzero(np.isnan(given))
    if len(ends) != len(places):
        raise node.fail(
            f"{len(ends)} lists of members for {len(places)} nodes; expected one per node"
        )
    for place, members in zip(places, np.split(given, ends + 1), strict=False):
        _unroll(trees, place, members[:-1].tolist() or [np.nan])


def _unroll(trees: _Trees, place: int, members: list[float]) -> None:
    yes, no = trees.branches[place]
    trees.modes[place], trees.values[place] = _EQUAL, members[0]
    for value in members[1:]:
        fresh = len(trees.modes)
        trees.branches[place] = (yes, fresh)
        trees.features.append(trees.features[place])
        trees.values.append(value)
        trees.modes.append(_EQUAL)
        trees.branches.append((yes, no))
        trees.missing.append(trees.missing[place])
        place = fresh


# TreeEnsembleRegressor and TreeEnsembleClassifier


def _numbers(node: NodeContext, name: str) -> list[float]:
    """Floats, given as a list or as a tensor."""
    if node.has(f"{name}_as_tensor"):
        return [float(v) for v in node.tensor(f"{name}_as_tensor").numpy().reshape(-1)]
    return list(node.numbers(name, ()))


def _of_ids(node: NodeContext, what: str, targets: int) -> tuple[_Trees, Array]:
    """The tables and votes of nodes that are identified by a tree id and a node id."""
    owners, ids = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    names = list(zip(owners, ids, strict=False))
    place = {name: i for i, name in enumerate(names)}
    modes, values = node.texts("nodes_modes"), _numbers(node, "nodes_values")
    features = node.integers("nodes_featureids")
    missing = node.integers("nodes_missing_value_tracks_true", ()) or (0,) * len(names)
    sides = (node.integers("nodes_truenodeids"), node.integers("nodes_falsenodeids"))
    _expect_lengths(
        node, len(names), owners, ids, list(place), modes, values, features, missing, *sides
    )
    leaves = {i: n for n, i in enumerate(i for i, m in enumerate(modes) if m == "LEAF")}
    inner = [i for i, mode in enumerate(modes) if mode != "LEAF"]
    code = {i: n for n, i in enumerate(inner)} | {i: -1 - n for i, n in leaves.items()}

    def branch(i: int, side: Sequence[int]) -> int:
        found = place.get((owners[i], side[i]))
        if found is None:
            raise node.fail(
                f"node {ids[i]} of tree {owners[i]} leads to {side[i]}, which does not exist"
            )
        return code[found]

    unknown = next((m for m in modes if m != "LEAF" and m not in _MODES), None)
    if unknown is not None:
        raise node.fail(f"mode {unknown!r}; expected LEAF or one of {', '.join(_MODES)}")
    first = {tree: i for i, tree in reversed(list(enumerate(owners)))}
    made = _Trees(
        [code[i] for _, i in sorted(first.items())],
        [features[i] for i in inner],
        [values[i] for i in inner],
        [_MODES.index(modes[i]) for i in inner],
        [(branch(i, sides[0]), branch(i, sides[1])) for i in inner],
        [bool(missing[i]) for i in inner],
    )
    votes = _empty_votes(node, len(leaves), targets)
    _cast_votes(node, what, votes, {names[i]: n for i, n in leaves.items()})
    return made, votes


def _cast_votes(
    node: NodeContext, what: str, votes: Array, leaves: dict[tuple[int, int], int]
) -> None:
    owners, ids = node.integers(f"{what}_treeids"), node.integers(f"{what}_nodeids")
    targets, weights = node.integers(f"{what}_ids"), _numbers(node, f"{what}_weights")
    _expect_lengths(node, len(owners), ids, targets, weights)
    _in_range(node, what, targets, votes.shape[1])
    for owner, name, target, weight in zip(owners, ids, targets, weights, strict=True):
        if (owner, name) not in leaves:
            raise node.fail(f"votes of node {name} of tree {owner}, which is not a leaf")
        row = votes[leaves[owner, name]]
        row[target] = weight if np.isnan(row[target]) else row[target] + weight


def _with_base(node: NodeContext, found: Instruction) -> Instruction:
    base = _numbers(node, "base_values")
    if not base:
        return found
    if len(base) != width(node, found):
        raise node.fail(
            f"{len(base)} base_values; expected one for each of {width(node, found)} scores"
        )
    return node.common("add", found, node.vector(found.shape.type, base))


@onnx_op("TreeEnsembleRegressor")
def tree_ensemble_regressor(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A regression by trees whose leaves may vote for several targets."""
    node.expect(inputs, 1)
    x = wide(node, rows(node, inputs[0]))
    trees, votes = _of_ids(node, "target", node.integer("n_targets"))
    found = trees.apply(node, x, votes, node.text("aggregate_function", "SUM"))
    found = node.convert(_with_base(node, found), DType.FLOAT)
    return scores.transformed(node, found, scores.transform_of(node))


@onnx_op("TreeEnsembleClassifier")
def tree_ensemble_classifier(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The class with the most votes, and the votes; for two classes, only one may have votes."""
    node.expect(inputs, 1)
    x = wide(node, rows(node, inputs[0]))
    labels, kind = scores.labels_of(node), scores.transform_of(node)
    single = set(node.integers("class_ids")) == {0} and len(labels) <= 2
    trees, votes = _of_ids(node, "class", 1 if single else len(labels))
    found = trees.apply(node, x, votes, "SUM")
    found = node.convert(_with_base(node, found), DType.FLOAT)
    if not single:
        return [scores.chosen(node, found, labels), scores.transformed(node, found, kind)]
    if len(labels) == 1:
        label = scores.decided(node, found, 0.0, (0, 1))
        return [label, scores.transformed(node, found, kind)]
    shares = min(_numbers(node, "class_weights")) >= 0
    label = scores.decided(node, found, 0.5 if shares else 0.0, labels)
    return [label, scores.both(node, found, kind, shares)]
