"""Switch and Merge, which route a value along one of two branches."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op


@tf_op("Switch")
def switch(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The value on the branch that a constant predicate takes; what reads the other is not imported."""
    node.expect(inputs, 2)
    known = node.required_constant(inputs[1], "the predicate")
    taken = int(bool(node.one(known.reshape(-1), "the predicate")))
    node.importer.branches.close(node.node.name, 1 - taken)
    return [inputs[0], inputs[0]]


@tf_op("Merge")
def merge(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The value of the branch that is taken, and the number of the input that it came by."""
    node.expect(inputs, 1)
    return [inputs[0], node.scalar(DType.INT32, node.importer.branches.taken(node.node)[0])]
