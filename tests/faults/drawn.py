"""Drawn faults: models changed at random places, and how many culprits are named first.

`python -m tests.faults.drawn --count 100 --seed 1` prints every miss and the total.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from onnx import numpy_helper

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.program import Program
from workbench.numerics.metrics.metrics import compare_arrays

SUBJECTS = ("small_cnn", "small_encoder", "small_decoder", "mtcnn_p", "blazeface128")
LIKE = {
    "Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Relu": "Tanh", "Sigmoid": "Tanh",
    "Tanh": "Sigmoid", "Sqrt": "Abs", "Erf": "Tanh", "Exp": "Abs", "ReduceMean": "ReduceMax",
    "ReduceSum": "ReduceMax", "MaxPool": "AveragePool", "GlobalAveragePool": "GlobalMaxPool",
    "Softmax": "LogSoftmax",
}  # fmt: skip
"""An operator that takes the same operands."""
EFFECT = 1e-5
"""The relative RMS of an output from which a change counts."""


@dataclass(frozen=True)
class Change:
    """A change of a model.

    Attributes:
        text: what was changed.
        outputs: the outputs of the nodes that may be named.
        weights: the initializers that may be named.
    """

    text: str
    outputs: tuple[tuple[str, ...], ...]
    weights: tuple[str, ...] = ()


Mutate = Callable[[onnx.GraphProto, random.Random], Change | None]


def a_weight(graph: onnx.GraphProto, draw: random.Random) -> Change | None:
    """Scale, shift or disturb a tensor, or zero a part of it."""
    tensors = [t for t in graph.initializer if t.data_type == 1 and np.prod(t.dims) > 1]
    if not tensors:
        return None
    tensor = draw.choice(tensors)
    old = numpy_helper.to_array(tensor)
    how, changed = draw.choice(list(_disturbed(old, draw)))
    made = numpy_helper.from_array(np.ascontiguousarray(changed, np.float32), tensor.name)
    tensor.CopyFrom(made)
    users = tuple(tuple(n.output) for n in graph.node if tensor.name in n.input)
    return Change(f"{how} {tensor.name}", users, (tensor.name,))


def _disturbed(old: np.ndarray, draw: random.Random) -> Iterator[tuple[str, np.ndarray]]:
    yield "scaled", old * 1.05
    yield "turned", np.roll(old, 1, axis=0)
    noise = np.random.default_rng(draw.randrange(1 << 30)).standard_normal(old.shape)
    yield "disturbed", old + noise * np.abs(old).mean() * 0.02
    zeroed = old.copy()
    zeroed[draw.randrange(len(old))] = 0
    yield "zeroed", zeroed


def an_operator(graph: onnx.GraphProto, draw: random.Random) -> Change | None:
    """Replace an operator by one that takes the same operands."""
    nodes = [n for n in graph.node if n.op_type in LIKE]
    if not nodes:
        return None
    node = draw.choice(nodes)
    text = f"{node.op_type} → {LIKE[node.op_type]} at {node.name}"
    node.op_type = LIKE[node.op_type]
    return Change(text, (tuple(node.output),))


def an_attribute(graph: onnx.GraphProto, draw: random.Random) -> Change | None:
    """Change a number among a node's attributes."""
    found = [(n, a) for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.FLOAT]
    if not found:
        return None
    node, attribute = draw.choice(found)
    attribute.f = attribute.f * 1.3 + 0.01
    return Change(f"{attribute.name} of {node.name}", (tuple(node.output),))


def the_order(graph: onnx.GraphProto, draw: random.Random) -> Change | None:
    """Swap the operands of a subtraction or division."""
    nodes = [n for n in graph.node if n.op_type in ("Sub", "Div")]
    if not nodes:
        return None
    node = draw.choice(nodes)
    first, second = node.input
    node.input[:] = [second, first]
    return Change(f"operands of {node.name}", (tuple(node.output),))


MUTATIONS: tuple[Mutate, ...] = (a_weight, a_weight, an_operator, an_attribute, the_order)


@cache
def _original(name: str) -> tuple[onnx.ModelProto, Program, dict[str, np.ndarray]]:
    model = onnx.load(MODELS[name].path)
    return model, wb.parse_onnx(model), MODELS[name].inputs()


def _outputs(program: Program, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(wb.compile(program, target="cpu", record=False).run(inputs).values())


def _has_effect(mine: list[np.ndarray], right: list[np.ndarray]) -> bool:
    pairs = list(zip(mine, right, strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return True
    return any(compare_arrays(a, b).error > EFFECT for a, b in pairs)


def tried(draw: random.Random) -> str | None:
    """Draw a change and compare; None if it has no effect, "" if it is named first, else the miss."""
    name = draw.choice(SUBJECTS)
    model, original, inputs = _original(name)
    changed = deepcopy(model)
    change = draw.choice(MUTATIONS)(changed.graph, draw)
    if change is None:
        return None
    try:
        program = wb.parse_onnx(changed)
        mine = _outputs(program, inputs)
    except WorkbenchError:  # the change makes no model
        return None
    if not _has_effect(mine, _outputs(original, inputs)):
        return None
    build = wb.compile(program, target=draw.choice(["cpu", "ref"]))
    report = wb.compare(build, inputs=inputs, reference=original, progress=False)
    named = report.culprits()[0].sources if report.culprits() else ()
    nodes = {s.name for s in program.source_nodes.values() if s.outputs in change.outputs}
    is_right = not report.passed and bool(set(named) & (nodes | set(change.weights)))
    return "" if is_right else f"{name}: {change.text}: named {named or 'nothing'}"


def main() -> int:
    """Draw, print the misses and the total; 1 if there is a miss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draw, found = random.Random(asked.seed), list[str]()
    while len(found) < asked.count:
        outcome = tried(draw)
        if outcome is not None:
            found.append(outcome)
            if outcome:
                print(outcome)
    misses = sum(map(bool, found))
    print(f"{len(found) - misses} of {len(found)} named first")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
