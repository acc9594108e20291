"""Models whose lengths are ranges: one program gives what onnxruntime gives, at every size."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models import samples, test_models
from tests.models.registry import MODELS, Inputs
from tests.models.test_models import relative_rms
from workbench.compiler.ir.shape import Dim


@dataclass(frozen=True)
class Ranged:
    """A model, the ranges that it is imported with, and inputs of several sizes in these.

    Attributes:
        name: the model.
        options: options of ``parse_onnx``.
        inputs: makes inputs of given lens.
        sizes: lens to run at.
        stacked: whether the model itself takes one sample, so that onnxruntime runs them one by one.
    """

    name: str
    options: dict[str, Any]
    inputs: Callable[..., Inputs]
    sizes: tuple[tuple[int, ...], ...]
    stacked: bool = False


def images(name: str) -> Callable[..., Inputs]:
    """So many images, each another."""

    def make(count: int) -> Inputs:
        one = samples.image()
        return {name: np.concatenate([np.roll(one, 17 * i, 3) for i in range(count)])}

    return make


def tokens(vocabulary: int) -> Callable[..., Inputs]:
    """So many sequences of a length."""
    return lambda batch, length: samples.tokens(vocabulary, sequence=length, batch=batch)


def noise(name: str) -> Callable[..., Inputs]:
    """Normal noise of these lens."""
    return lambda *lens: {name: np.random.default_rng(7).standard_normal(lens, dtype=np.float32)}


def files(count: int) -> Inputs:
    """The same file from several places on."""
    return {"bytes": np.concatenate([np.roll(samples.file_bytes(), i, 1) for i in range(count)])}


BATCH = {"batch": Dim(1, 16)}
MANY = {"data_0": [Dim(1, 4), 3, 224, 224]}
PIXELS = images("pixel_values")
TABLE = [
    Ranged("pplcnet_orient", {"default_dyn_dim_value": Dim(1, 8)}, images("x"), ((1,), (3,))),
    Ranged("magika", {"default_dyn_dim_value": Dim(1, 8)}, files, ((1,), (4,))),
    Ranged(
        "mtcnn_p",
        {"dim_params": {"N": Dim(1, 4), "M1": Dim(12, 512), "M2": Dim(12, 512)}},
        noise("input_1"),
        ((1, 48, 64, 3), (2, 91, 33, 3)),
    ),
    Ranged(
        "light_squeezenet",
        {"map_dyn_input_dims": MANY},
        images("data_0"),
        ((1,), (2,)),
        stacked=True,
    ),
    Ranged(
        "light_densenet121", {"map_dyn_input_dims": MANY}, images("data_0"), ((2,),), stacked=True
    ),
    Ranged("resnet50_dynamic", {"dim_params": BATCH}, PIXELS, ((1,), (2,))),
    Ranged("vit_base_dynamic", {"dim_params": BATCH}, PIXELS, ((1,), (2,))),
    Ranged(
        "bert_base_dynamic",
        {"dim_params": {**BATCH, "sequence": Dim(1, 512)}},
        tokens(30522),
        ((1, 9), (2, 33)),
    ),
    Ranged(
        "gpt2_dynamic",
        {"dim_params": {**BATCH, "sequence": Dim(1, 256)}},
        tokens(50257),
        ((1, 7), (3, 1), (2, 40)),
    ),
]


session = functools.lru_cache(maxsize=1)(test_models.session)


def expected(ranged: Ranged, inputs: Inputs) -> list[np.ndarray]:
    """The outputs of onnxruntime."""
    if not ranged.stacked:
        return session(ranged.name).run(None, inputs)
    ((name, array),) = inputs.items()
    runs = [session(ranged.name).run(None, {name: array[i : i + 1]}) for i in range(len(array))]
    return [np.concatenate(column) for column in zip(*runs, strict=True)]


def _parameters() -> list:
    """Every model; the heavy ones are left to `make models`."""
    heavy = pytest.mark.models
    return [
        pytest.param(r, id=r.name, marks=[heavy] if MODELS[r.name].heavy else []) for r in TABLE
    ]


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("ranged", _parameters())
def test_one_program_equals_onnxruntime_at_every_size(ranged: Ranged, target: str):
    build = wb.compile(wb.parse_onnx(MODELS[ranged.name].path, **ranged.options), target=target)
    for size in ranged.sizes:
        inputs = ranged.inputs(*size)
        result = build.run(inputs, progress=False)
        for i, want in enumerate(expected(ranged, inputs)):
            assert result[i].shape == want.shape
            assert relative_rms(result[i], want) <= MODELS[ranged.name].tolerance
