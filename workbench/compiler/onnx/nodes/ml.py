"""Operators of ai.onnx.ml on features, and its linear models."""

from __future__ import annotations

import math

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx import scores
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

_UNSUPPORTED = (
    "StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "CategoryMapper",
    "DictVectorizer", "CastMap", "ZipMap",
)  # fmt: skip


@onnx_op(*_UNSUPPORTED)
def unsupported(node: NodeContext, _: list[Instruction]) -> Instruction:
    """Operators on strings, and on maps whose keys may be strings."""
    raise node.fail("strings and maps are not supported; expected tensors of numbers")


def wide(node: NodeContext, x: Instruction) -> Instruction:
    """Features as floats; doubles are not converted."""
    return x if x.shape.type is DType.DOUBLE else node.convert(x, DType.FLOAT)


def rows(node: NodeContext, x: Instruction) -> Instruction:
    """Features as a matrix with a row for each sample; a single sample may be a vector."""
    if x.shape.ndim not in (1, 2):
        raise node.fail(f"input {x.shape}; expected one or two dimensions")
    return node.unsqueeze(x, 0) if x.shape.ndim == 1 else x


def width(node: NodeContext, x: Instruction) -> int:
    """The number of features: the length of the last axis."""
    found = node.lens(x)[-1]
    if not isinstance(found, int):
        raise node.fail(f"input {x.shape}; expected a fixed number of features")
    return found


@onnx_op("ArrayFeatureExtractor")
def array_feature_extractor(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Some of the features of each sample."""
    node.expect(inputs, 2)
    x, index = inputs
    if not node.rank(x):
        raise node.fail(f"input {x.shape} without dimensions; expected features on its last axis")
    if node.strict:
        return node.add("gather", x, index, axis=x.shape.ndim - 1)
    if x.shape.ndim == 1:
        x = node.unsqueeze(x, 0)
    if index.shape.ndim != 1:
        index = node.reshape(index, -1)
    return node.add("gather", x, index, axis=x.shape.ndim - 1)


@onnx_op("Binarizer")
def binarizer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """1 above a threshold, else 0."""
    node.expect(inputs, 1)
    type = inputs[0].shape.type
    threshold = node.scalar(DType.FLOAT, node.number("threshold", 0.0))
    return node.convert(node.common("greater", inputs[0], threshold), type)


@onnx_op("Scaler")
def scaler(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Features minus an offset, times a scale."""
    node.expect(inputs, 1)
    x = node.convert(inputs[0], DType.FLOAT)
    for name, op in (("offset", "sub"), ("scale", "mul")):
        if values := node.numbers(name, ()):
            x = node.common(op, x, _per_feature(node, x, np.array(values, np.float32)))
    return x


def _per_feature(node: NodeContext, x: Instruction, values: Array) -> Instruction:
    """A literal of one number, or of one for each feature."""
    features = width(node, x)
    if len(values) not in (1, features):
        raise node.fail(f"{len(values)} numbers for {features} features; expected 1 or {features}")
    return node.literal(values)


@onnx_op("Imputer")
def imputer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Features with a given value replaced by other values."""
    node.expect(inputs, 1)
    x = inputs[0]
    type = x.shape.type
    kind = "float" if type.is_float else "int64"
    read = node.numbers if type.is_float else node.integers
    values = read(f"imputed_value_{kind}s", ())
    if not values:
        raise node.fail(f"attribute 'imputed_value_{kind}s' is missing; {x.shape} requires it")
    number = node.number if type.is_float else node.integer
    replaced = number(f"replaced_value_{kind}", 0)
    if math.isnan(replaced):
        missing = node.add("isnan", x)
    else:
        missing = node.common("equal", x, node.scalar(type, replaced))
    other = node.fit(_per_feature(node, x, np.array(values, type.numpy)), node.lens(x))
    return node.add("where", node.convert(missing, DType.BOOL), other, x)


@onnx_op("Normalizer")
def normalizer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Each sample over its largest element, its sum or its length; unchanged if that is 0."""
    node.expect(inputs, 1)
    x, norm = node.convert(inputs[0], DType.FLOAT), node.text("norm", "MAX")
    axis = x.shape.ndim - 1
    match norm:
        case "MAX":
            size = node.add("reduce_max", x, axes=(axis,))
        case "L1":
            size = node.add("reduce_sum", node.add("abs", x), axes=(axis,))
        case "L2":
            size = node.add("sqrt", node.add("reduce_sum", node.add("mul", x, x), axes=(axis,)))
        case _:
            raise node.fail(f"norm={norm!r}; expected MAX, L1 or L2")
    is_zero = node.convert(node.common("equal", size, node.scalar(DType.FLOAT, 0)), DType.BOOL)
    one = node.multibroadcast(node.scalar(DType.FLOAT, 1), node.lens(size))
    return node.common("div", x, node.add("where", is_zero, one, size))


@onnx_op("FeatureVectorizer")
def feature_vectorizer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Features of several inputs side by side, each cut or filled with zeros to its length."""
    node.expect(inputs, 1, len(inputs))
    widths = node.integers("inputdimensions", [width(node, i) for i in inputs])
    if len(widths) != len(inputs):
        raise node.fail(
            f"{len(widths)} inputdimensions; expected one for each of {len(inputs)} inputs"
        )
    parts: list[Instruction] = []
    for given, wanted in zip(inputs, widths, strict=True):
        x = rows(node, node.convert(given, DType.FLOAT))
        found = width(node, x)
        if wanted < found:
            x = node.slice(x, [1], [0], [wanted])
        elif wanted > found:
            x = node.add("pad", x, pads=(0, 0, 0, wanted - found))
        parts.append(x)
    return node.add("concat", *parts, axis=1)


@onnx_op("OneHotEncoder")
def one_hot_encoder(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A new last axis with a 1 at the index of the category, if it is known."""
    node.expect(inputs, 1)
    if node.has("cats_strings") and node.texts("cats_strings"):
        raise node.fail("attribute 'cats_strings': strings are not supported")
    categories = node.literal(np.array(node.integers("cats_int64s"), np.int64))
    x = node.convert(inputs[0], DType.INT64)
    if not node.flag("zeros", True):  # then an unknown category is an error
        x = node.add("lookup", x, categories, categories)
    found = node.common("equal", node.unsqueeze(x, x.shape.ndim), categories)
    return node.convert(found, DType.FLOAT)


@onnx_op("LabelEncoder")
def label_encoder(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value for each key, or a default."""
    node.expect(inputs, 1)
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if keys.shape != values.shape:
        raise node.fail(f"{keys.size} keys and {values.size} values; expected one value per key")
    literals = [node.literal(v) for v in (keys, values, _default(node, values.dtype))]
    return node.add("lookup", node.convert(inputs[0], DType.of(keys.dtype)), *literals)


def _listed(node: NodeContext, what: str) -> Array:
    """The keys or values, which may be given in one of several attributes."""
    if node.has(f"{what}_strings") and node.texts(f"{what}_strings"):
        raise node.fail(f"attribute '{what}_strings': strings are not supported")
    if node.has(f"{what}_tensor"):
        return node.tensor(f"{what}_tensor").numpy().reshape(-1)
    if node.has(f"{what}_int64s"):
        return np.array(node.integers(f"{what}_int64s"), np.int64)
    return np.array(node.numbers(f"{what}_floats"), np.float32)


def _default(node: NodeContext, dtype: np.dtype[np.generic]) -> Array:
    if node.has("default_tensor"):
        return node.tensor("default_tensor").numpy().reshape(1).astype(dtype)
    if DType.of(dtype).is_float:
        return np.array([node.number("default_float", -0.0)], dtype)
    return np.array([node.integer("default_int64", -1)], dtype)


# Linear models


def _linear(node: NodeContext, x: Instruction, targets: int) -> Instruction:
    """``x @ coefficients.T + intercepts``."""
    x = rows(node, node.convert(x, DType.FLOAT))
    weights = np.array(node.numbers("coefficients"), np.float32)
    features = width(node, x)
    if weights.size != targets * features:
        raise node.fail(f"{weights.size} coefficients; expected {targets} times {features}")
    result = node.add("dot", x, node.literal(weights.reshape(targets, features).T.copy()))
    added = node.numbers("intercepts", ())
    if not added:
        return result
    if len(added) != targets:
        raise node.fail(f"{len(added)} intercepts; expected {targets}")
    return node.common("add", result, node.vector(DType.FLOAT, added))


@onnx_op("LinearRegressor")
def linear_regressor(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A linear regression."""
    node.expect(inputs, 1)
    found = _linear(node, inputs[0], node.integer("targets", 1))
    return scores.transformed(node, found, scores.transform_of(node))


@onnx_op("LinearClassifier")
def linear_classifier(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The class of the highest score, and the scores; a single score stands for the second of two."""
    node.expect(inputs, 1)
    labels, kind = scores.labels_of(node), scores.transform_of(node)
    count = len(node.numbers("coefficients")) // max(1, width(node, inputs[0]))
    found = _linear(node, inputs[0], count)
    if count == 1 and len(labels) == 2:
        return [scores.decided(node, found, 0.0, labels), scores.both(node, found, kind, True)]
    if count != len(labels):
        raise node.fail(f"{count} scores for {len(labels)} labels; expected one score per label")
    return [scores.chosen(node, found, labels), scores.transformed(node, found, kind)]
