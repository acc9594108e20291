"""The operators of ai.onnx.ml compute what onnxruntime computes."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.onnx.models import declared, peer, same
from workbench.compiler.errors import EvaluationError, ModelError
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
random = np.random.default_rng(5)
X = random.uniform(-2, 2, (7, 3)).astype(np.float32)


def f(*lens, low=-1.0, high=1.0):
    return random.uniform(low, high, lens).astype(np.float32)


def model(op, inputs, attributes, outputs=1, version=3):
    """The model of one node of ai.onnx.ml."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(
        op, [f"x{i}" for i in range(len(inputs))], names, domain=ML, **attributes
    )
    graph = helper.make_graph(
        [node],
        op,
        [declared(f"x{i}", x) for i, x in enumerate(inputs)],
        [helper.make_empty_tensor_value_info(n) for n in names],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def run(made, inputs):
    return reference.run(parse_onnx(made), {f"x{i}": x for i, x in enumerate(inputs)})


def check(op, *inputs, outputs=1, version=3, expected=None, **attributes):
    made = model(op, inputs, attributes, outputs, version)
    wanted = expected or peer(made, {f"x{i}": x for i, x in enumerate(inputs)})
    found = run(made, inputs)
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        same(have, want)


def tensor(values, type=np.float32):
    return numpy_helper.from_array(np.array(values, type))


FEATURES = [
    partial(check, "ArrayFeatureExtractor", X, np.array([2, 0])),
    partial(check, "ArrayFeatureExtractor", X[0], np.array([[2, 0, 1]])),
    partial(check, "Binarizer", X, threshold=0.3),
    partial(check, "Scaler", X, offset=[0.5], scale=[2.0]),
    partial(check, "Scaler", X.astype(np.int64), offset=[0.5, 1, 2], scale=[2.0, 0.1, 3]),
    partial(check, "Imputer", X, imputed_value_floats=[9.0], replaced_value_float=float(X[0, 0])),
    partial(
        check, "Imputer", np.array([[1, np.nan, 3], [np.nan, 2, 4]], np.float32),
        imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"),
    ),
    partial(
        check, "Imputer", np.array([[1, -1, 3], [-1, 2, -1]]),
        imputed_value_int64s=[7, 8, 9], replaced_value_int64=-1,
    ),
    *[partial(check, "Normalizer", f(4, 3, low=0.1), norm=norm) for norm in ("MAX", "L1", "L2")],
    partial(check, "Normalizer", np.zeros((2, 3), np.float32), norm="L2"),
    partial(check, "FeatureVectorizer", X, f(7, 2), inputdimensions=[3, 2]),
    partial(check, "FeatureVectorizer", X, f(7, 2), inputdimensions=[2, 4]),
    partial(check, "OneHotEncoder", np.array([[3, 1], [5, 2]]), cats_int64s=[1, 3, 5]),
    partial(check, "OneHotEncoder", np.array([[3, 1], [5, 5]]), cats_int64s=[1, 3, 5], zeros=0),
    partial(check, "OneHotEncoder", np.array([3.0, 7.0], np.float32), cats_int64s=[1, 3, 5]),
    partial(
        check, "LabelEncoder", np.array([[3, 1], [5, 2]]), version=2,
        keys_int64s=[1, 3, 5], values_floats=[0.5, 1.5, 2.5], default_float=-7.0,
    ),
    partial(
        check, "LabelEncoder", np.array([1.5, np.nan, 2.0], np.float32), version=4,
        keys_floats=[1.5, float("nan")], values_int64s=[4, 9],
    ),
    partial(
        check, "LabelEncoder", np.array([3, 1, 9]), version=4,
        keys_tensor=tensor([1, 3], np.int64), values_tensor=tensor([0.25, 4], np.float64),
        default_tensor=tensor([-1], np.float64),
    ),
]  # fmt: skip

LINEAR = [
    partial(
        check, "LinearRegressor", X, coefficients=f(6).tolist(), intercepts=[0.1, -0.2], targets=2,
        post_transform=kind,
    )
    for kind in TRANSFORMS
]  # fmt: skip
LINEAR += [partial(check, "LinearRegressor", X, coefficients=f(3).tolist(), intercepts=[0.25])]
LINEAR += [
    partial(
        check, "LinearClassifier", X, outputs=2, post_transform=kind,
        coefficients=f(3 * count).tolist(), intercepts=f(count).tolist(), classlabels_ints=labels,
    )
    for kind in TRANSFORMS
    for count, labels in ((1, [4, 9]), (2, [4, 9]), (4, [3, 1, 7, 2]))
]  # fmt: skip
LINEAR += [
    partial(
        check, "LinearRegressor", np.abs(X) / 9, coefficients=[0.9, 0, 0, 0, 0.7, 0.1], targets=2,
        intercepts=[0.05, 0.05], post_transform="PROBIT",
    )
]  # fmt: skip


def forest(trees, depth, **more):
    """Complete trees whose nodes compare by all rules, by the names of the older operators."""
    inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
    nodes = [(t, n) for t in range(trees) for n in range(total)]
    rules = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_LEQ"]
    return {
        "nodes_treeids": [t for t, _ in nodes],
        "nodes_nodeids": [n for _, n in nodes],
        "nodes_featureids": [int(v) for v in random.integers(0, 3, len(nodes))],
        "nodes_values": f(len(nodes)).tolist(),
        "nodes_modes": [rules[(t + n) % 5] if n < inner else "LEAF" for t, n in nodes],
        "nodes_truenodeids": [2 * n + 1 if n < inner else 0 for _, n in nodes],
        "nodes_falsenodeids": [2 * n + 2 if n < inner else 0 for _, n in nodes],
        "nodes_missing_value_tracks_true": [int(n % 2) for _, n in nodes],
    } | more


def votes(prefix, trees, depth, targets, low=-1.0):
    """A vote of each leaf for each of some targets."""
    leaves = [(t, n) for t in range(trees) for n in range(2**depth - 1, 2 ** (depth + 1) - 1)]
    each = [(t, n, target) for (t, n) in leaves for target in targets]
    return {
        f"{prefix}_treeids": [t for t, _, _ in each],
        f"{prefix}_nodeids": [n for _, n, _ in each],
        f"{prefix}_ids": [i for _, _, i in each],
        f"{prefix}_weights": f(len(each), low=low).tolist(),
    }


MISSING = np.where(random.random(X.shape) < 0.2, np.float32(np.nan), X)
TREES = [
    partial(
        check, "TreeEnsembleRegressor", x, n_targets=2, aggregate_function=how,
        post_transform=kind, **forest(4, 3), **votes("target", 4, 3, [0, 1]), **base,
    )
    for x, how, kind, base in (
        (X, "SUM", "NONE", {}),
        (MISSING, "AVERAGE", "NONE", {"base_values": [0.5, -0.5]}),
        (X, "MIN", "LOGISTIC", {}),
        (X, "MAX", "SOFTMAX", {}),
        (X, "SUM", "SOFTMAX_ZERO", {}),
        (X.astype(np.float64), "SUM", "NONE", {}),
    )
]  # fmt: skip
TREES += [
    partial(
        check, "TreeEnsembleClassifier", X, outputs=2, version=1, classlabels_int64s=[3, 1, 7],
        post_transform=kind, **forest(3, 2), **votes("class", 3, 2, [0, 1, 2]), **base,
    )
    for kind, base in product(TRANSFORMS, ({}, {"base_values": [0.1, 0.2, 0.3]}))
]  # fmt: skip
TREES += [
    partial(
        check, "TreeEnsembleClassifier", X, outputs=2, version=1, classlabels_int64s=[4, 9],
        post_transform=kind, **forest(3, 2), **votes("class", 3, 2, [0], low), **base,
    )
    for kind, base, low in product(TRANSFORMS, ({}, {"base_values": [0.1]}), (-1.0, 0.0))
]  # fmt: skip
TREES += [
    partial(
        check, "TreeEnsemble", MISSING, version=5, n_targets=2, aggregate_function=how,
        tree_roots=[0, 3], nodes_modes=tensor([0, 3, 2, 1, 5], np.uint8),
        nodes_featureids=[0, 1, 2, 2, 0], nodes_splits=tensor([0.1, -0.2, 0.3, 0, 0.5]),
        nodes_truenodeids=[1, 0, 2, 4, 0], nodes_falsenodeids=[2, 1, 3, 1, 2],
        nodes_trueleafs=[0, 1, 1, 0, 1], nodes_falseleafs=[0, 1, 1, 1, 1],
        nodes_missing_value_tracks_true=[1, 0, 0, 1, 0],
        leaf_targetids=[0, 1, 0, 1], leaf_weights=tensor([0.5, -0.25, 2, 1]),
    )
    for how in range(4)
]  # fmt: skip


def machine(sizes, **more):
    """Attributes of a support vector machine with so many vectors of each class."""
    total, pairs = sum(sizes), len(sizes) * (len(sizes) - 1) // 2
    return {
        "vectors_per_class": list(sizes),
        "support_vectors": f(total * 3).tolist(),
        "coefficients": f((len(sizes) - 1) * total).tolist(),
        "rho": f(pairs).tolist(),
        "classlabels_ints": [4, 9, 2, 6][: len(sizes)],
        "kernel_params": [0.4, 0.3, 2.0],
    } | more


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
MACHINES = [
    partial(
        check, "SVMRegressor", X, n_supports=4, kernel_type=kind, kernel_params=[0.4, 0.3, 2.0],
        support_vectors=f(12).tolist(), coefficients=f(4).tolist(), rho=[0.2], one_class=one,
    )
    for kind, one in product(KERNELS, (0, 1))
]  # fmt: skip
MACHINES += [partial(check, "SVMRegressor", X, coefficients=f(3).tolist(), rho=[0.2])]
MACHINES += [
    partial(check, "SVMClassifier", X, outputs=2, kernel_type=kind, **machine((3, 2, 4)))
    for kind in KERNELS
]
MACHINES += [
    partial(
        check, "SVMClassifier", X, outputs=2, kernel_type="RBF",
        **machine(sizes, prob_a=f(n).tolist(), prob_b=f(n).tolist()),
    )
    for sizes, n in (((3, 2), 1), ((3, 2, 4), 3), ((1, 2, 2, 1), 6))
]  # fmt: skip
MACHINES += [
    partial(check, "SVMClassifier", X, outputs=2, kernel_type="RBF", **machine((3, 2))),
    partial(
        check, "SVMClassifier", X, outputs=2, classlabels_ints=[4, 9, 1],
        coefficients=f(9).tolist(), rho=[0.2], kernel_params=[0.4, 0.3, 2.0],
    ),
]  # fmt: skip

ALL = [*FEATURES, *LINEAR, *TREES, *MACHINES]


@pytest.mark.parametrize("case", ALL, ids=[f"{i}-{c.args[0]}" for i, c in enumerate(ALL)])
def test_it_computes_what_onnxruntime_computes(case):
    case()


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LabelEncoder", {"keys_int64s": [1], "values_strings": ["a"]}),
        ("OneHotEncoder", {"cats_strings": ["a"]}),
        ("LinearClassifier", {"coefficients": [1.0] * 3, "classlabels_strings": ["a"]}),
        ("ZipMap", {"classlabels_strings": ["a"]}),
        ("CategoryMapper", {"cats_strings": ["a"], "cats_int64s": [1]}),
    ],
)
def test_strings_are_refused_by_name(op, attributes):
    with pytest.raises(ModelError, match=r"strings (and maps )?are not supported"):
        parse_onnx(model(op, [X.astype(np.int64)], attributes, 1, 1))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"nodes_truenodeids": [99] * 7}, "which does not exist"),
        ({"nodes_modes": ["WHAT"] * 7}, "expected LEAF"),
        ({"target_ids": [5] * 4}, "out of range"),
        ({"target_nodeids": [0] * 4}, "which is not a leaf"),
        ({"nodes_values": [0.0]}, "expected 7 each"),
    ],
)
def test_damaged_trees_are_refused(change, match):
    attributes = forest(1, 2) | votes("target", 1, 2, [0]) | {"n_targets": 1} | change
    with pytest.raises(ModelError, match=match):
        parse_onnx(model("TreeEnsembleRegressor", [X], attributes))


def test_a_tree_that_runs_in_a_circle_ends():
    attributes = forest(1, 2) | votes("target", 1, 2, [0]) | {"n_targets": 1}
    attributes |= {"nodes_truenodeids": [0] * 7, "nodes_falsenodeids": [0] * 7}
    with pytest.raises(EvaluationError, match="branches form a cycle"):
        run(model("TreeEnsembleRegressor", [X], attributes), [X])


def test_an_unknown_category_is_an_error_where_it_should_be():
    attributes = {"cats_int64s": [1, 3], "zeros": 0}
    with pytest.raises(EvaluationError, match="7 is not among the keys"):
        run(model("OneHotEncoder", [np.array([3, 7])], attributes), [np.array([3, 7])])


def test_members_are_compared_one_by_one():
    values = [1.0, 4.0, np.nan, np.nan, 2.0, np.nan]
    attributes = {
        "n_targets": 1, "tree_roots": [0, 1, 2], "nodes_modes": tensor([6, 6, 6], np.uint8),
        "nodes_featureids": [0, 0, 1], "nodes_splits": tensor([0, 0, 0]),
        "membership_values": tensor(values), "leaf_targetids": [0, 0],
        "nodes_truenodeids": [0] * 3, "nodes_falsenodeids": [1] * 3, "nodes_trueleafs": [1] * 3,
        "nodes_falseleafs": [1] * 3, "leaf_weights": tensor([1, 0]),
    }  # fmt: skip
    x = np.array([[1, 0], [4, 2], [3, 2], [np.nan, 2]], np.float32)
    (found,) = run(model("TreeEnsemble", [x], attributes, version=5), [x])
    same(found, np.array([[1], [2], [1], [1]], np.float32))


def test_a_batch_of_any_size():
    attributes = forest(4, 3) | votes("class", 4, 3, [0, 1, 2]) | {"classlabels_int64s": [3, 1, 7]}
    made = model("TreeEnsembleClassifier", [X], attributes, 2, 1)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    program = parse_onnx(made, default_dyn_dim_value=Dim(1, 64))
    for x in (X, X[:2]):
        found = reference.run(program, {"x0": x})
        for have, want in zip(found, peer(made, {"x0": x}), strict=True):
            same(have, want)
