"""Generators of operators with graphs of their own."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers

F, L, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, type: int = F, lens: Any = None) -> Any:
    return helper.make_tensor_value_info(name, type, lens)


def graph(name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, name, inputs, outputs)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


@covers("If")
def if_(pick: Pick) -> Example:
    """The branches see the condition of the graph around, and nothing else."""
    constants = [
        helper.make_tensor(f"c{i}", F, [2], pick.array("float", (2,)).tolist()) for i in range(2)
    ]
    branches = [
        graph(f"branch{i}", [
            node("Constant", "", f"k{i}", value=c), node("Cast", "x0", f"n{i}", to=F),
            node(pick.one_of(["Add", "Mul", "Sub"]), f"k{i} n{i}", f"r{i}"),
        ], [], [value(f"r{i}", F, [2])])
        for i, c in enumerate(constants)
    ]  # fmt: skip
    condition = np.array(pick.flag()).reshape(pick.one_of([(), (1,)]))
    attributes = {"then_branch": branches[0], "else_branch": branches[1]}
    return Example([condition], attributes, fixed=(0,) if pick.flag() else ())


@covers("Loop")
def loop(pick: Pick) -> Example:
    """Sums grow with the count until they are large; each step is kept."""
    limit = helper.make_tensor("limit", F, [], [float(pick.integer(0, 12))])
    body = graph("body", [
        node("Cast", "i", "step", to=F), node("Add", "total step", "next"),
        node("Mul", "next factor", "seen"), node("ReduceMax", "next", "top", keepdims=0),
        node("Constant", "", "limit", value=limit),
        node("Less", "top limit", "go"), node("Identity", "factor", "same"),
    ], [value("i", L, []), value("c", B, []), value("total", F, [2]), value("factor", F, [])],
        [value("go", B, []), value("next", F, [2]), value("same", F, []), value("seen", F, [2])])  # fmt: skip
    trips = np.array(pick.integer(0, 5), np.int64)
    condition = np.array(pick.flag() or pick.flag())
    start, factor = pick.array("float", (2,)), pick.scalar("float")
    given = [trips, condition if pick.flag() else None, start, factor]
    return Example(given, {"body": body}, outputs=3, fixed=(0,) if pick.flag() else ())


@covers("Scan")
def scan(pick: Pick) -> Example:
    """A running product over one or two sequences, forwards or backwards."""
    two = pick.flag()
    nodes = [node("Mul", "state a", "next"), node("Add", "next b" if two else "next a", "out")]
    inputs = [value("state", F, [2]), value("a", F, [2])] + ([value("b", F, [2])] if two else [])
    body = graph("body", nodes, inputs, [value("next", F, [2]), value("out", F, [2])])
    steps, axis = pick.integer(1, 4), pick.integer(0, 1) if pick.opset >= 9 else 1
    old = pick.opset < 9
    lens = (2, steps, 2) if old else ((steps, 2), (2, steps))[axis]
    sequences = [pick.array("float", lens) for _ in range(2 if two else 1)]
    count = len(sequences)
    attributes: dict[str, Any] = {"body": body, "num_scan_inputs": count}
    if old:
        attributes |= pick.some(directions=[pick.integer(0, 1) for _ in range(count)])
        return Example([None, pick.array("float", (2, 2)), *sequences], attributes, outputs=2)
    attributes |= pick.some(scan_input_directions=[pick.integer(0, 1) for _ in range(count)])
    attributes |= pick.some(
        scan_output_directions=[pick.integer(0, 1)], scan_output_axes=[pick.integer(-2, 1)]
    )
    if axis:
        attributes["scan_input_axes"] = [pick.one_of([1, -1])] * count
    return Example([pick.array("float", (2,)), *sequences], attributes, outputs=2, slack=10)
