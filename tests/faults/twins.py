"""One network as a TensorFlow graph and as an ONNX model, with a weight changed in the first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx

import workbench as wb
from tests.faults.fault import Fault, Plant, Planted, Wanted
from tests.models.graph import Graph
from tests.models.registry import Inputs
from tests.tf.graphs import Graph as TensorFlow
from tests.tf.graphs import Type
from workbench.compiler.ir.program import Program
from workbench.compiler.tf import parse_tf

KIND = "twin"


@dataclass(frozen=True)
class Twin:
    """A network in both formats.

    Attributes:
        graph: its TensorFlow graph, of given weights.
        model: its ONNX model.
        inputs: the inputs as the programs have them.
    """

    graph: bytes
    model: onnx.ModelProto
    inputs: Inputs

    def programs(self) -> tuple[Program, Program]:
        """The programs of the graph and of the model."""
        return parse_tf(self.graph, output_names=["y"]), wb.parse_onnx(
            self.model.SerializeToString()
        )


def perceptron(change: float = 1.0) -> Twin:
    """Three dense layers; the nodes have the same names in both.

    Args:
        change: the factor of the second layer's weights in the graph.
    """
    random = np.random.default_rng(20)
    widths = (16, 32, 32, 8)
    graph, model = TensorFlow(), Graph("perceptron")
    x, z = graph.given("x", 4, 16), model.input("x", [4, 16])
    for k, (source, target) in enumerate(pairwise(widths)):
        scope = model.scope = f"dense_{k}"
        weight = random.standard_normal((source, target), np.float32) / np.float32(source**0.5)
        bias = 0.1 * random.standard_normal(target, np.float32)
        factor = np.float32(change if k == 1 else 1)
        given = graph.const(f"{scope}/kernel", weight * factor, "float32")
        x = graph.node(f"{scope}/MatMul", "MatMul", x, given, T=Type("float32"))
        given = graph.const(f"{scope}/bias", bias, "float32")
        x = graph.node(f"{scope}/BiasAdd", "BiasAdd", x, given, T=Type("float32"))
        x = graph.node(f"{scope}/Relu", "Relu", x, T=Type("float32"))
        z = model.add("Relu", model.add("Add", model.add("MatMul", z, weight), bias))
        for node, name in zip(model.nodes[-3:], ("MatMul", "BiasAdd", "Relu"), strict=True):
            node.name = f"{scope}/{name}"
    graph.node("y", "Identity", x, T=Type("float32"))
    model.output(z, "y", [4, 8])
    inputs = {"x": random.standard_normal((4, 16), np.float32)}
    return Twin(graph.bytes(), model.model(17), inputs)


def convolutions(change: float = 1.0) -> Twin:
    """Three convolutions and a mean, channels last in the graph; no node has the same name in both.

    Args:
        change: the factor of the second convolution's weights in the graph.
    """
    random = np.random.default_rng(20)
    graph, model = TensorFlow(), Graph("convolutions")
    x, z = graph.given("x", 1, 12, 12, 3), model.input("x", [1, 3, 12, 12])
    kinds = {"T": Type("float32"), "data_format": "NHWC"}
    for k, (source, target) in enumerate(((3, 8), (8, 8), (8, 4))):
        weight = random.standard_normal((target, source, 3, 3), np.float32) / np.float32(source)
        factor = np.float32(change if k == 1 else 1)
        given = graph.const(f"w{k}", weight.transpose(2, 3, 1, 0) * factor, "float32")
        x = graph.node(
            f"conv_{k}", "Conv2D", x, given, strides=[1, 1, 1, 1], padding="SAME", **kinds
        )
        x = graph.node(f"relu_{k}", "Relu", x, T=Type("float32"))
        z = model.add("Relu", model.add("Conv", z, weight, pads=[1, 1, 1, 1]))
    axes = graph.const("axes", [1, 2])
    graph.node("y", "Mean", x, axes, T=Type("float32"), keep_dims=False)
    model.output(model.add("Flatten", model.add("GlobalAveragePool", z)), "y", [1, 4])
    inputs = {"x": random.standard_normal((1, 3, 12, 12), np.float32)}
    return Twin(graph.bytes(), model.model(17), inputs)


def _planted(make: Callable[..., Twin]) -> Plant:
    @contextmanager
    def plant() -> Iterator[Planted]:
        program, reference = make(1.05).programs()
        clean, _ = make().programs()
        builds = (wb.compile(p, target="cpu") for p in (program, clean))
        yield Planted(next(builds), make().inputs, reference, next(builds))

    return plant


FAULTS = [
    Fault(
        "twin_by_names", KIND, "perceptron", _planted(perceptron),
        Wanted(("dense_1/MatMul", "dense_1/kernel"), ("model",)),
    ),
    Fault(
        "twin_by_values", KIND, "convolutions", _planted(convolutions),
        Wanted(("conv_1", "w1"), ("model",)),
    ),
]  # fmt: skip
