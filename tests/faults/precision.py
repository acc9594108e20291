"""Layers that are right in float64 and wrong in half or bfloat16, put into a model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import onnx

import workbench as wb
from tests.faults.changed import Edit, changed, files, inserted, weight
from tests.faults.fault import INSIDE, NARROW, Fault, Plant, Planted, Wanted
from tests.models.graph import Graph
from tests.models.registry import MODELS

KIND = "precision"
EMBEDDED = "/embeddings/Add_14"
"""The node of small_encoder whose result, of mean 0 and variance 1, the layers read."""

Layer = Callable[[Graph, str], str]


def narrowed(model: str, edit: Edit, precision: str = "fp16", target: str = "cpu") -> Plant:
    """A build in a narrow type against the reference.

    Args:
        model: the name of the model.
        edit: puts a layer into it.
        precision: the narrow type.
        target: what it is compiled for.
    """

    @contextmanager
    def plant() -> Iterator[Planted]:
        with files(model=changed(model, edit)) as found:
            program = wb.parse_onnx(found["model"])
        clean = wb.compile(program, target="cpu")
        suspect = wb.compile(program, target=target, precision=precision)
        yield Planted(suspect, MODELS[model].inputs(), "ref", clean)

    return plant


def _row(g: Graph, op: str, x: str) -> str:
    """A reduction along the last axis."""
    if op == "ReduceSum":
        return g.add(op, x, np.array([-1]))
    return g.add(op, x, axes=[-1])


def norm_of_squares(g: Graph, x: str) -> str:
    """100 x over its 2-norm: the squares add up to more than 65504."""
    wide = g.add("Mul", x, 100.0)
    norm = g.add("Sqrt", _row(g, "ReduceSum", g.add("Mul", wide, wide)))
    return g.add("Mul", g.add("Div", wide, norm), 5.0)


def big_and_small(g: Graph, x: str) -> str:
    """x + big − big, where big is 1000 times the row's largest."""
    big = g.add("Mul", _row(g, "ReduceMax", x), 1000.0)
    return g.add("Sub", g.add("Add", x, big), big)


def many_terms(g: Graph, x: str) -> str:
    """The mean of 5,000 equal terms of about 30, as their sum over their number: the sum overflows."""
    term = g.add("Unsqueeze", g.add("Add", _row(g, "ReduceMax", x), 30.0), np.array([-1]))
    total = _row(g, "ReduceSum", g.add("Expand", term, np.array([1, 1, 1, 5000])))
    return g.add("Mul", x, g.add("Div", g.add("Squeeze", total, np.array([-1])), 5000.0))


def epsilon_lost(g: Graph, x: str) -> str:
    """x − x of the row's largest over its root mean square with epsilon 1e-8: in half 0 over 0."""
    same = g.add("Sub", g.add("Max", x, _row(g, "ReduceMax", x)), _row(g, "ReduceMax", x))
    square = _row(g, "ReduceMean", g.add("Mul", same, same))
    scaled = g.add("Div", same, g.add("Sqrt", g.add("Add", square, 1e-8)))
    return g.add("Add", scaled, x)


def log_of_nothing(g: Graph, x: str) -> str:
    """The logarithm of a softmax of 6 x, whose least values underflow to 0 in half."""
    return g.add("Mul", g.add("Log", g.add("Softmax", g.add("Mul", x, 6.0), axis=-1)), 0.1)


def exp_before_division(g: Graph, x: str) -> str:
    """A softmax of 6 x without its maximum: exp overflows in half."""
    power = g.add("Exp", g.add("Mul", x, 6.0))
    return g.add("Mul", g.add("Div", power, _row(g, "ReduceSum", power)), 10.0)


def variance_of_two_means(g: Graph, x: str) -> str:
    """x over its deviation, as the root of mean(x²) − mean(x)², of values about 30."""
    moved = g.add("Add", x, 30.0)
    mean, square = _row(g, "ReduceMean", moved), g.add("Mul", moved, moved)
    variance = g.add("Sub", _row(g, "ReduceMean", square), g.add("Mul", mean, mean))
    return g.add("Div", x, g.add("Sqrt", g.add("Abs", variance)))


def position_lost(g: Graph, x: str) -> str:
    """A sine of 300 + x: bfloat16 has one value in two between 256 and 512."""
    return g.add("Sin", g.add("Add", x, 300.0))


def power_overflows(g: Graph, x: str) -> str:
    """The cube of 50 |x| over 10⁴ + |x|: the cube overflows in half."""
    cube = g.add("Pow", g.add("Mul", g.add("Abs", x), 50.0), 3.0)
    return g.add("Div", cube, g.add("Add", g.add("Abs", x), 1e4))


def ratio_of_powers(g: Graph, x: str) -> str:
    """exp(6 |x|) over itself plus 1: infinity over infinity in half."""
    power = g.add("Exp", g.add("Mul", g.add("Abs", x), 6.0))
    return g.add("Div", power, g.add("Add", power, 1.0))


def product_overflows(g: Graph, x: str) -> str:
    """x · 300² · |x| over 10⁴ + |x|: the product overflows in half, and nothing is left for the quotient."""
    once = g.add("Mul", g.add("Mul", x, 300.0), g.add("Mul", g.add("Abs", x), 300.0))
    return g.add("Div", once, g.add("Add", g.add("Abs", x), 1e4))


LAYERS: dict[str, tuple[Layer, str, tuple[str, ...]]] = {
    "norm_of_squares": (norm_of_squares, "fp16", ("Mul_1", "ReduceSum_2")),
    "big_and_small": (big_and_small, "fp16", ("Add_2", "Sub_3")),
    "many_terms": (many_terms, "fp16", ("ReduceSum_4",)),
    "epsilon_lost": (epsilon_lost, "fp16", ("constant_0", "Add_6", "Sqrt_7", "Div_8")),
    "log_of_nothing": (log_of_nothing, "fp16", ("Softmax_1", "Log_2")),
    "exp_before_division": (exp_before_division, "fp16", ("Exp_1",)),
    "variance_of_two_means": (variance_of_two_means, "bf16", ("Mul_2", "Mul_4", "Sub_5")),
    "position_lost": (position_lost, "bf16", ("Add_0", "Sin_1")),
}  # fmt: skip
"""For each layer its type, and the nodes of the layer that are to be named."""


FUSED: dict[str, tuple[Layer, str, tuple[str, ...]]] = {
    "power_overflows_inside": (power_overflows, "fp16", ("Pow_2",)),
    "exp_overflows_inside": (ratio_of_powers, "fp16", ("Exp_2",)),
    "product_overflows_inside": (product_overflows, "fp16", ("Mul_3",)),
}
"""Likewise, where the overflow is between the instructions of one fused kernel."""


def _by(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda value: value * factor


def _moved_scale(model: onnx.ModelProto) -> None:
    """Make what a batch norm scales to 50,000 times as large, and the next weights as much smaller."""
    for name, factor in (("conv1.scale", 5e4), ("conv1.shift", 5e4), ("conv2.weight", 2e-5)):
        weight(f"block1.{name}", _by(factor))(model)


def _faults(
    kind: str, layers: dict[str, tuple[Layer, str, tuple[str, ...]]], most: int
) -> list[Fault]:
    return [
        Fault(
            name, kind, "small_encoder", narrowed("small_encoder", inserted(EMBEDDED, layer), precision),
            Wanted(tuple(f"/planted/{n}" for n in nodes), ("precision",), most=most),
        )
        for name, (layer, precision, nodes) in layers.items()
    ]  # fmt: skip


FAULTS = [
    *_faults(KIND, LAYERS, NARROW),
    *_faults("fused", FUSED, INSIDE),
    Fault(
        "mask_of_minus_a_billion", KIND, "small_encoder",
        narrowed("small_encoder", weight("/constant_2", _by(1e5))),
        Wanted(("/Mul_3", "/constant_2"), ("precision",)),
    ),
    Fault(
        "scale_moved_between_weights", KIND, "small_cnn",
        narrowed("small_cnn", _moved_scale, target="gpu"),
        Wanted(("/block1/BatchNormalization_12", "/block1/Relu_13"), ("precision",)),
    ),
]  # fmt: skip
