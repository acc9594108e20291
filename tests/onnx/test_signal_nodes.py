"""Tokens, images, random numbers and training: what the tables of cases have no room for."""

import io

import numpy as np
import pytest

from tests.onnx import cases
from tests.onnx.models import Case, same
from workbench.compiler.errors import EvaluationError, ModelError
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

GRAMS = {
    "min_gram_length": 1, "max_gram_length": 3, "ngram_counts": [0, 3, 7],
    "ngram_indexes": [0, 1, 2, 4, 3, 5, 6], "pool_int64s": [2, 3, 5, 5, 4, 5, 6, 1, 3, 3, 7, 8],
    "weights": [0.5, 1.0, 2.0, 0.25, 3.0, 1.5, 0.1],
}  # fmt: skip
GRAMS |= {"ngram_counts": [0, 3, 9], "ngram_indexes": [0, 1, 2, 4, 3, 5, 6]}


def run(case):
    return reference.run(parse_onnx(case.model()), case.arrays())


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 2])
def test_ngrams_are_counted_as_onnxruntime_counts_them(mode, skips):
    tokens = np.random.default_rng(3).integers(1, 9, (3, 12))
    attributes = GRAMS | {"mode": mode, "max_skip_count": skips}
    Case("TfIdfVectorizer", [tokens], attributes).check()
    Case("TfIdfVectorizer", [tokens[0].astype(np.int32)], attributes).check()
    Case("TfIdfVectorizer", [tokens], attributes | {"min_gram_length": 2}).check()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pool_strings": ["a"]}, "strings are not supported"),
        ({"ngram_counts": [0, 99]}, "a pool of 12"),
        ({"ngram_indexes": [0]}, "1 ngram_indexes for"),
        ({"weights": [1.0]}, "1 weights for"),
        ({"mode": "WHAT"}, "expected TF"),
    ],
)
def test_damaged_pools_are_refused(change, match):
    attributes = GRAMS | {"mode": "TFIDF", "max_skip_count": 0} | change
    with pytest.raises(ModelError, match=match):
        parse_onnx(Case("TfIdfVectorizer", [np.arange(5)], attributes).model())


def png(pixels):
    from PIL import Image

    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, format="PNG")
        return np.frombuffer(file.getvalue(), np.uint8)


def test_an_image_is_read():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    (found,) = run(Case("ImageDecoder", [png(pixels)], {"pixel_format": "BGR"}))
    same(found, pixels[..., ::-1])
    (found,) = run(Case("ImageDecoder", [png(pixels[..., 0])]))
    same(found, np.repeat(pixels[..., :1], 3, axis=2))


@pytest.mark.parametrize("damage", ["nothing", "noise", "cut", "huge", "other format"])
def test_bytes_that_are_no_image_are_refused(damage):
    data = png(np.zeros((40, 40, 3), np.uint8))
    made = {
        "nothing": data[:0].copy(),
        "noise": np.arange(200).astype(np.uint8),
        "cut": data[: len(data) // 2],
        "huge": np.frombuffer(b"P6 99999 99999 255\n", np.uint8),
        "other format": np.frombuffer(
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", np.uint8
        ),
    }[damage]
    with pytest.raises(EvaluationError, match="image_decode"):
        run(Case("ImageDecoder", [made]))


def test_bernoulli_draws_what_is_likely():
    x = np.tile(np.array([0.0, 0.25, 1.0], np.float32), (4000, 1))
    case = Case("Bernoulli", [x], {"dtype": 6, "seed": 4.0})
    first, second = run(case)[0], run(case)[0]
    same(first, second)
    assert first.dtype == np.int32
    np.testing.assert_allclose(first.mean(axis=0), [0, 0.25, 1], atol=0.03)


def test_nodes_without_a_seed_draw_numbers_of_their_own_and_the_same_ones_again():
    case = Case("RandomUniform", [], {"shape": [5]})
    other = case.model()
    other.graph.node[0].name = "another node"
    first, second = (run(case)[0] for _ in range(2))
    same(first, second)
    assert not np.allclose(first, reference.run(parse_onnx(other), {})[0])


def test_training_drops_elements_and_scales_the_rest():
    x = cases.f(50, 40, low=1.0)
    inputs = [x, np.array(0.25, np.float32), np.array(True)]
    case = Case("Dropout", inputs, {"seed": 3}, outputs=2, fixed=(2,))
    y, mask = reference.run(parse_onnx(case.model()), {"x0": x, "x1": inputs[1]})
    assert mask.mean() == pytest.approx(0.75, abs=0.05)
    same(y, np.where(mask, x / np.float32(0.75), np.float32(0)))


def test_training_moves_the_statistics_of_a_batch_normalisation():
    x, weights = cases.f(4, 3, 5), [cases.f(3, low=0.5) for _ in range(4)]
    attributes = {"training_mode": 1, "momentum": 0.7}
    Case("BatchNormalization", [x, *weights], attributes, outputs=3, opset=15).check()


@pytest.mark.parametrize("op", ["Add", "Less", "Pow"])
def test_an_axis_says_where_the_second_input_lies(op):
    a, b = cases.f(2, 3, 4, low=0.5), cases.f(3, low=0.5)
    wanted = {"Add": np.add, "Less": np.less, "Pow": np.power}[op](a, b[:, None])
    case = Case(op, [a, b], {"axis": 1, "broadcast": 1}, opset=6)
    same(run(case)[0], wanted)
