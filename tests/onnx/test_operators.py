"""Every operator with a handler computes what onnxruntime or ONNX's reference computes."""

import math

import numpy as np
import onnx
import pytest

from tests.onnx import cases, cases_heavy, cases_images, cases_recurrent, cases_signal
from tests.onnx.against_onnxruntime import fused
from tests.onnx.against_onnxruntime.pick import GENERATORS
from tests.onnx.models import Case, peer, same
from workbench.compiler.onnx import operators, parse_onnx
from workbench.compiler.run import reference

TABLES = [
    v
    for m in (cases, cases_heavy, cases_images, cases_recurrent, cases_signal)
    for k, v in vars(m).items()
    if k[0] != "_" and k.isupper() and isinstance(v, list)
]
CASES = [case for table in TABLES for case in table]
ML = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "ai.onnx.ml"}

# Operators that no case of a table can check; each has a test below or in another file.
ELSEWHERE = {"If", "Loop", "Scan"} | {"ATen", "BiasAdd", "BiasSplitGelu", "ImageScaler", "NhwcConv"}
ELSEWHERE |= {"GroupNorm", "MatMulBnb4", "Multinomial"}
ELSEWHERE |= {"DynamicScale", "MXFixNeuron", "MXQuantizeDequantize"}
ELSEWHERE |= {"Bernoulli", "ImageDecoder", "TfIdfVectorizer"}  # test_signal_nodes.py
ELSEWHERE |= {"Optional", "OptionalGetElement", "OptionalHasElement"}  # test_sequences.py
ELSEWHERE |= {"SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"}
ELSEWHERE |= {"SequenceLength", "SplitToSequence", "ConcatFromSequence"}
ELSEWHERE |= {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"}
ELSEWHERE |= {n.rpartition(".")[2] for n, g in GENERATORS.items() if g.__module__ == fused.__name__}
ELSEWHERE |= {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_computes_what_its_peers_compute(case: Case):
    case.check()


def test_every_operator_has_a_case():
    assert set(operators()) <= {case.op for case in CASES} | ELSEWHERE | ML


def run(op, inputs, attributes, *expected, **more):
    Case(op, inputs, attributes, expected=expected, **more).check()


def test_bias_split_gelu():
    x, bias = cases.f(1, 3, 8), cases.f(8)
    left, right = np.split(x + bias, 2, axis=-1)
    gelu = right * 0.5 * (1 + np.vectorize(math.erf)(right / np.sqrt(2)))
    run("BiasSplitGelu", [x, bias], {}, (left * gelu).astype(np.float32), domain="com.microsoft")


def test_image_scaler():
    x = cases.f(1, 2, 3, 3)
    scaled = x * np.float32(0.5) + np.array([1, 2], np.float32).reshape(2, 1, 1)
    run("ImageScaler", [x], {"scale": 0.5, "bias": [1.0, 2.0]}, scaled)


def test_embedding_bag():
    table, index = cases.f(5, 3), np.array([1, 3, 1])
    inputs = [table, index, np.array([0])]
    attributes = {"operator": "embedding_bag", "mode": 0}
    run("ATen", inputs, attributes, table[index].sum(0, keepdims=True), domain="org.pytorch.aten")


def test_nhwc_conv_is_a_conv_with_channels_last():
    x, weights = cases.f(1, 4, 5, 2), cases.f(3, 2, 2, 2)
    plain = Case("Conv", [np.moveaxis(x, 3, 1), np.moveaxis(weights, 3, 1)])
    (result,) = peer(plain.model(), plain.arrays())
    run("NhwcConv", [x, weights], {}, np.moveaxis(result, 1, 3), domain="com.microsoft")


def test_group_norm_of_images_with_channels_last():
    x, gamma, beta = cases.f(1, 3, 3, 4), cases.f(4), cases.f(4)
    plain = Case(
        "GroupNormalization", [np.moveaxis(x, 3, 1), gamma, beta], {"num_groups": 2}, opset=21
    )
    (y,) = peer(plain.model(), plain.arrays())
    y = np.moveaxis(y, 1, 3)
    attributes = {"groups": 2, "activation": 1}
    run("GroupNorm", [x, gamma, beta], attributes, y / (1 + np.exp(-y)), domain="com.microsoft")


def test_packed_queries_keys_and_values():
    packed = cases.f(2, 3, 2, 3, 4)
    parts = [packed[:, :, :, k].reshape(2, 3, 8) for k in range(3)]
    plain = Case("MultiHeadAttention", parts, {"num_heads": 2}, domain="com.microsoft")
    (wanted,) = peer(plain.model(), plain.arrays())
    run("MultiHeadAttention", [packed], {"num_heads": 2}, wanted, domain="com.microsoft")


@pytest.mark.parametrize("kind", ["RandomNormal", "RandomUniform"])
@pytest.mark.parametrize("like", [False, True])
def test_random_numbers_are_drawn_once_from_the_seed(kind, like):
    inputs = [cases.f(20, 50)] if like else []
    attributes = {"seed": 3.0} if like else {"seed": 3.0, "shape": [20, 50]}
    made = Case(kind + "Like" * like, inputs, attributes)
    first, second = (reference.run(parse_onnx(made.model()), made.arrays()) for _ in range(2))
    same(first[0], second[0])
    mean, spread = (0.0, 1.0) if kind == "RandomNormal" else (0.5, 12**-0.5)
    assert first[0].mean() == pytest.approx(mean, abs=0.1)
    assert first[0].std() == pytest.approx(spread, abs=0.1)


def test_multinomial_draws_what_is_likely():
    x = np.log(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], np.float32) + 1e-9)
    case = Case("Multinomial", [x], {"sample_size": 50, "seed": 1.0})
    (drawn,) = reference.run(parse_onnx(case.model()), case.arrays())
    assert drawn.dtype == np.int32
    assert set(drawn[0]) == {1}
    assert set(drawn[1]) == {0, 2}
