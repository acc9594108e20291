"""Generators of ai.onnx.ml: features, linear models, support vectors and trees."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers

POST = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def features(pick: Pick, count: int, type: str = "float") -> Any:
    """A few samples."""
    return pick.array(type, (pick.integer(1, 4), count))


def numbers(pick: Pick, count: int) -> list[float]:
    """Coefficients."""
    return [pick.number(-2, 2) for _ in range(count)]


@covers("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(pick: Pick) -> Example:
    type = pick.type("T", ["float", "double", "int32", "int64"])
    lens = pick.lens(1, 3, empty=False)
    index = pick.array("int64", (pick.integer(1, 3),), 0, lens[-1] - 1)
    return Example([pick.array(type, lens), index])


@covers("ai.onnx.ml.Binarizer")
def binarizer(pick: Pick) -> Example:
    x = pick.array("float", pick.lens(1, 2, empty=False))
    return Example([x], pick.some(threshold=pick.number(-1, 1)))


@covers("ai.onnx.ml.Scaler")
def scaler(pick: Pick) -> Example:
    count = pick.integer(1, 4)
    type = pick.type("T", ["float", "double", "int32", "int64"])
    single = pick.flag()
    attributes = {k: numbers(pick, 1 if single else count) for k in ("offset", "scale")}
    return Example([features(pick, count, type)], attributes)


@covers("ai.onnx.ml.Imputer")
def imputer(pick: Pick) -> Example:
    count = pick.integer(1, 4)
    if pick.flag():
        x = pick.array("int64", (2, count), 0, 2)
        values = [pick.integer(5, 9) for _ in range(pick.one_of([1, count]))]
        return Example([x], {"imputed_value_int64s": values, "replaced_value_int64": 1})
    x = features(pick, count)
    x[0, 0] = np.nan
    values = numbers(pick, pick.one_of([1, count]))
    return Example([x], {"imputed_value_floats": values, "replaced_value_float": float("nan")})


@covers("ai.onnx.ml.Normalizer")
def normalizer(pick: Pick) -> Example:
    return Example(
        [features(pick, pick.integer(1, 4))], pick.some(norm=pick.one_of(["MAX", "L1", "L2"]))
    )


@covers("ai.onnx.ml.FeatureVectorizer")
def feature_vectorizer(pick: Pick) -> Example:
    type, rows = pick.type("T1", ["float", "double", "int32", "int64"]), pick.integer(1, 3)
    counts = [pick.integer(1, 3) for _ in range(pick.integer(1, 3))]
    arrays = [pick.array(type, (rows, n)) for n in counts]
    return Example(arrays, {"inputdimensions": counts})


@covers("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(pick: Pick) -> Example:
    type = pick.type("T", ["float", "double", "int32", "int64"])
    x = np.trunc(pick.array(type, pick.lens(1, 2, empty=False), 0, 4)).astype(
        pick.array(type, ()).dtype
    )
    return Example([x], {"cats_int64s": [0, 1, 2, 3, 4]} | pick.some(zeros=1))


@covers("ai.onnx.ml.LabelEncoder")
def label_encoder(pick: Pick) -> Example:
    pick.version = max(pick.version, 2)  # the first is for strings
    keys, values = pick.order(4), pick.order(4)
    x = pick.array("int64", pick.lens(1, 2, empty=False), 0, 6)
    if pick.flag():
        return Example([x], {"keys_int64s": keys, "values_int64s": values, "default_int64": -7})
    given = {"keys_int64s": keys, "values_floats": [v / 2 for v in values], "default_float": -1.5}
    return Example([x], given)


@covers("ai.onnx.ml.LinearRegressor")
def linear_regressor(pick: Pick) -> Example:
    count, targets = pick.integer(1, 4), pick.integer(1, 3)
    attributes: dict[str, Any] = {
        "coefficients": numbers(pick, count * targets),
        "targets": targets,
    }
    attributes |= pick.some(intercepts=numbers(pick, targets))
    return Example([features(pick, count)], attributes, summed=True)


@covers("ai.onnx.ml.LinearClassifier")
def linear_classifier(pick: Pick) -> Example:
    count, classes = pick.integer(1, 4), pick.integer(3, 4)
    attributes: dict[str, Any] = {
        "coefficients": numbers(pick, count * classes),
        "intercepts": numbers(pick, classes),
        "classlabels_ints": pick.order(classes),
        "post_transform": pick.one_of(POST[:3]),
    }
    return Example([features(pick, count)], attributes, outputs=2, summed=True, slack=5)


def kernel(pick: Pick) -> dict[str, Any]:
    """A kernel of support vectors."""
    kind = pick.one_of(["LINEAR", "POLY", "RBF", "SIGMOID"])
    return {"kernel_type": kind, "kernel_params": [0.3, 0.5, 2.0]}


@covers("ai.onnx.ml.SVMRegressor")
def svm_regressor(pick: Pick) -> Example:
    count, vectors = pick.integer(1, 3), pick.integer(1, 4)
    attributes: dict[str, Any] = kernel(pick) | {
        "coefficients": numbers(pick, vectors),
        "support_vectors": numbers(pick, vectors * count),
        "n_supports": vectors,
        "rho": numbers(pick, 1),
    }
    return Example([features(pick, count)], attributes, summed=True, slack=10)


@covers("ai.onnx.ml.SVMClassifier")
def svm_classifier(pick: Pick) -> Example:
    count, classes = pick.integer(1, 3), 3
    each = [pick.integer(1, 2) for _ in range(classes)]
    vectors = sum(each)
    attributes: dict[str, Any] = kernel(pick) | {
        "classlabels_ints": pick.order(classes),
        "coefficients": numbers(pick, vectors * (classes - 1)),
        "support_vectors": numbers(pick, vectors * count),
        "vectors_per_class": each,
        "rho": numbers(pick, classes * (classes - 1) // 2),
    }
    return Example([features(pick, count)], attributes, outputs=2, summed=True, slack=10)


def tree(pick: Pick, features_: int) -> dict[str, Any]:
    """Nodes of one tree with two levels of branches and four leaves."""
    modes = [pick.one_of(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])] * 3 + ["LEAF"] * 4
    return {
        "nodes_treeids": [0] * 7,
        "nodes_nodeids": list(range(7)),
        "nodes_featureids": [pick.integer(0, features_ - 1) for _ in range(3)] + [0] * 4,
        "nodes_values": numbers(pick, 3) + [0.0] * 4,
        "nodes_modes": modes,
        "nodes_truenodeids": [1, 3, 5, 0, 0, 0, 0],
        "nodes_falsenodeids": [2, 4, 6, 0, 0, 0, 0],
        "nodes_missing_value_tracks_true": [pick.integer(0, 1) for _ in range(3)] + [0] * 4,
    }


@covers("ai.onnx.ml.TreeEnsembleRegressor")
def tree_ensemble_regressor(pick: Pick) -> Example:
    count = pick.integer(1, 3)
    attributes = tree(pick, count) | {
        # Each leaf has both: a target that gets none misses its base value, too, in onnxruntime.
        "target_treeids": [0] * 8,
        "target_nodeids": [3, 3, 4, 4, 5, 5, 6, 6],
        "target_ids": [0, 1] * 4,
        "target_weights": numbers(pick, 8),
        "n_targets": 2,
        "aggregate_function": pick.one_of(["SUM", "AVERAGE"]),
    }
    attributes |= pick.some(base_values=numbers(pick, 2))
    x = features(pick, count)
    if pick.flag():
        x[0, 0] = np.nan
    return Example([x], attributes, summed=True)


@covers("ai.onnx.ml.TreeEnsembleClassifier")
def tree_ensemble_classifier(pick: Pick) -> Example:
    count = pick.integer(1, 3)
    attributes = tree(pick, count) | {
        "class_treeids": [0] * 4,
        "class_nodeids": [3, 4, 5, 6],
        "class_ids": [0, 1, 2, pick.integer(0, 2)],
        "class_weights": [pick.number(0.1, 2) for _ in range(4)],
        "classlabels_int64s": pick.order(3),
        "post_transform": pick.one_of(POST[:3]),
    }
    return Example([features(pick, count)], attributes, outputs=2, summed=True, slack=5)


@covers("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(pick: Pick) -> Example:
    """Two trees of one branch each."""
    type, count = pick.type("T", ["float", "double"]), pick.integer(1, 3)
    code = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}[type]

    def tensor(values: list[float]) -> Any:
        return helper.make_tensor("t", code, [len(values)], values)

    modes = bytes(pick.integer(0, 3) for _ in range(2))
    attributes = {
        "n_targets": 2,
        "aggregate_function": pick.integer(0, 3),
        "post_transform": 0,
        "tree_roots": [0, 1],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [2], modes, raw=True),
        "nodes_featureids": [pick.integer(0, count - 1) for _ in range(2)],
        "nodes_splits": tensor(numbers(pick, 2)),
        "nodes_truenodeids": [0, 2],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 3],
        "nodes_falseleafs": [1, 1],
        "leaf_targetids": [0, 0, 1, 1],
        "leaf_weights": tensor(numbers(pick, 4)),
    }
    return Example([features(pick, count, type)], attributes, summed=True)
