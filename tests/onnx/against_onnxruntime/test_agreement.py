"""Importer and reference compute what onnxruntime computes, for every operator that both have."""

import importlib
import pkgutil
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from tests.onnx import against_onnxruntime as room
from tests.onnx.against_onnxruntime.agreement import Unsupported, check
from tests.onnx.against_onnxruntime.kernels import in_both
from tests.onnx.against_onnxruntime.pick import GENERATORS, Pick
from tests.profiles import IS_DEEP

for _file in pkgutil.iter_modules(room.__path__):
    if not _file.name.startswith("test_"):
        importlib.import_module(f"{room.__name__}.{_file.name}")

RANDOM = {
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
}  # fmt: skip
TEXT = {
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "ai.onnx.ml.CastMap",
    "ai.onnx.ml.CategoryMapper", "ai.onnx.ml.DictVectorizer", "ai.onnx.ml.ZipMap",
}  # fmt: skip
LEFT_OUT = RANDOM | TEXT
"""Each side has random numbers of its own; there are no strings and no maps in programs."""

EXAMPLES = {"ref": 200, "cpu": 40} if IS_DEEP else {"ref": 15, "cpu": 5}
SOURCES = st.randoms(use_true_random=False)


@pytest.mark.parametrize("target", EXAMPLES)
@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_agrees_with_onnxruntime(name: str, target: str):
    @settings(max_examples=EXAMPLES[target], suppress_health_check=list(HealthCheck))
    @given(source=SOURCES)
    def agrees(source: random.Random) -> None:
        pick = Pick(name, source)
        with np.errstate(all="ignore"):
            example = GENERATORS[name](pick)
            note((pick.version, example))
            try:
                check(pick, example, target)
            except Unsupported:
                assume(False)

    agrees()


def test_every_operator_of_both_has_a_generator():
    assert in_both() - LEFT_OUT == set(GENERATORS)
