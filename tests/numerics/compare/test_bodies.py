"""The nodes that differ in the bodies of two models' Loops and Ifs."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import workbench as wb
from tests.faults.changed import Edit, changed, node_of, operator, swapped
from workbench.compiler.ir.instruction import Instruction
from workbench.numerics.compare.bodies import changed_inside


def _constant(reader: str, factor: np.float32) -> Edit:
    """Multiply the constant that a node reads second, in whichever graph it stands."""

    def edit(model: onnx.ModelProto) -> None:
        name = node_of(model.graph, reader).input[1]
        (tensor,) = (t for g in _graphs(model.graph) for t in g.initializer if t.name == name)
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * factor, name))

    return edit


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """A graph and those inside it."""
    inner = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [graph, *(g for body in inner for g in _graphs(body))]


def _body(name: str, *edits: Edit) -> Instruction:
    """The instruction of a model's main module that has bodies."""
    program = wb.parse_onnx(changed(name, *edits).SerializeToString())
    return next(i for i in program.main if i.modules)


@pytest.mark.parametrize(
    ("model", "edits", "nodes"),
    [
        ("small_branches", [], []),
        ("small_branches", [swapped("/cold/Sub_0")], ["/cold/Sub_0"]),
        ("small_branches", [operator("/warm/mild/Mul_0", "Add")], ["/warm/mild/Mul_0"]),
        ("small_branches", [_constant("/warm/mild/Mul_0", np.float32(3))], ["/warm/mild/Mul_0"]),
        (
            "small_branches",
            [operator("/warm/Greater_0", "Less"), operator("/warm/hot/Exp_1", "Abs")],
            ["/warm/Greater_0", "/warm/hot/Exp_1"],
        ),
        ("small_loop", [], []),
        ("small_loop", [operator("/body/Mul_7", "Add")], ["/body/Mul_7"]),
    ],
)
def test_changed_nodes_are_named_in_whichever_body_they_are(model, edits, nodes):
    assert list(changed_inside(_body(model), _body(model, *edits))) == nodes


def test_other_names_tell_nothing():
    assert list(changed_inside(_body("small_branches"), _body("small_loop"))) == []
