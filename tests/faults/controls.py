"""Comparisons of two sides that are both right: none may raise an alarm."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

import workbench as wb
from tests.faults.changed import changed, files
from tests.faults.dumps import dump
from tests.faults.fault import Control, Plant, Planted
from tests.faults.twins import Twin, convolutions, perceptron
from tests.models.registry import MODELS
from workbench.compiler.builds.build import Build
from workbench.compiler.ir.program import Program
from workbench.numerics.precision.quantize import quantize


def _plain(program: Program) -> Build:
    """The build that defines what a program means."""
    return wb.compile(program, target="ref")


def built(model: str, target: str = "cpu", **options: Any) -> Control:
    """A build against the reference."""

    @contextmanager
    def plant() -> Iterator[Planted]:
        program = wb.parse_onnx(MODELS[model].path)
        suspect = wb.compile(program, target=target, **options)
        yield Planted(suspect, MODELS[model].inputs(), clean=_plain(program))

    what = "_".join([target, *map(str, options.values())])
    return Control(f"{model}_on_{what}", model, plant)


def _two(model: str, other: Callable[[str], Any], **options: Any) -> Plant:
    """A build for `cpu` against something made of the model's name."""

    @contextmanager
    def plant() -> Iterator[Planted]:
        program = wb.parse_onnx(MODELS[model].path)
        suspect = wb.compile(program, target="cpu", **options)
        yield Planted(suspect, MODELS[model].inputs(), other(model), _plain(program))

    return plant


def _program(model: str) -> Program:
    return wb.parse_onnx(MODELS[model].path)


def _saved_and_loaded(model: str) -> Program:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.npz"
        wb.save(_program(model), path)
        return wb.load(path)


def _dumped(model: str) -> Any:
    return dump(changed(model), MODELS[model].inputs())


def _renamed(model: str) -> Program:
    """The program of a model whose nodes and inner tensors have other names."""
    made = changed(model)
    outside = {v.name for v in (*made.graph.input, *made.graph.output)}
    for node in made.graph.node:
        node.name = node.name.replace("/", "_other_")
        for names in (node.input, node.output):
            renamed = [n if n in outside or not n else f"other{n}" for n in names]
            del names[:]
            names.extend(renamed)
    for tensor in made.graph.initializer:
        tensor.name = f"other{tensor.name}"
    return wb.parse_onnx(made.SerializeToString())


def _quantized(model: str) -> Plant:
    @contextmanager
    def plant() -> Iterator[Planted]:
        program, inputs = _program(model), MODELS[model].inputs()
        suspect = wb.compile(quantize(program, "int8", inputs), target="cpu")
        yield Planted(suspect, inputs, program, _plain(program))

    return plant


@contextmanager
def _two_pipelines() -> Iterator[Planted]:
    program, inputs = _program("small_encoder"), MODELS["small_encoder"].inputs()
    one, other = (wb.compile(program, target="cpu", passes=p) for p in ("optimize", "gpu"))
    yield Planted(one, inputs, other, _plain(program))


@contextmanager
def _two_files() -> Iterator[Planted]:
    model = changed("mtcnn_p")
    same = onnx.ModelProto.FromString(model.SerializeToString())
    same.doc_string = "the same"
    with files(one=model, other=same) as paths:
        clean = _plain(_program("mtcnn_p"))
        yield Planted(paths["one"], MODELS["mtcnn_p"].inputs(), paths["other"], clean)


def _twins(make: Callable[..., Twin]) -> Plant:
    @contextmanager
    def plant() -> Iterator[Planted]:
        program, reference = make().programs()
        suspect = wb.compile(program, target="cpu")
        yield Planted(suspect, make().inputs, reference, _plain(reference))

    return plant


CONTROLS = [
    built("small_encoder"),
    built("small_decoder"),
    built("magika"),
    built("pplcnet_orient"),
    built("silero_16k_static"),
    built("blazeface128"),
    built("small_branches"),
    built("small_loop"),
    built("small_cnn", "gpu"),
    built("mtcnn_p", "gpu"),
    built("small_encoder", "gpu"),
    built("small_encoder", precision="fp16"),
    built("blazeface128", precision="fp16"),
    built("small_cnn", precision="bf16"),
    built("small_cnn", "gpu", precision="fp16"),
    built("small_loop", precision="fp16"),
    built("small_scan", precision="fp16"),
    built("small_branches", precision="bf16"),
    Control("small_cnn_in_int8", "small_cnn", _quantized("small_cnn")),
    Control("small_decoder_in_int8", "small_decoder", _quantized("small_decoder")),
    Control("magika_in_int8", "magika", _quantized("magika")),
    Control("two_pipelines", "small_encoder", _two_pipelines),
    Control("two_equal_files", "mtcnn_p", _two_files),
    Control("saved_and_loaded", "small_decoder", _two("small_decoder", _saved_and_loaded)),
    Control("dump_of_itself", "small_encoder", _two("small_encoder", _dumped)),
    Control("dump_of_a_trained_model", "mtcnn_p", _two("mtcnn_p", _dumped)),
    Control("dump_in_half", "small_cnn", _two("small_cnn", _dumped, precision="fp16")),
    Control("renamed", "small_cnn", _two("small_cnn", _renamed)),
    Control("twin_perceptrons", "perceptron", _twins(perceptron)),
    Control("twin_convolutions", "convolutions", _twins(convolutions)),
]
