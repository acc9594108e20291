"""Switch and Merge, which route a value along one of two branches."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op


@tf_op("Switch")
def switch(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The value, on the branch that a constant predicate takes; what reads the other is not imported.

    If the predicate is known only at run time, both branches are computed.
    """
    node.expect(inputs, 2)
    known, branches = node.constant(inputs[1]), node.importer.branches
    if known is None:
        branches.keep_both(node.node.name, inputs[1])
    else:
        taken = int(bool(node.one(known.reshape(-1), "the predicate")))
        branches.close(node.node.name, 1 - taken)
    return [inputs[0], inputs[0]]


@tf_op("Merge")
def merge(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The value of the branch that is taken, and the number of the input that it came by."""
    node.expect(inputs, 1, 2)
    branches = node.importer.branches
    numbers = [node.scalar(DType.INT32, k) for k in branches.taken(node.node)]
    if len(inputs) == 1:
        return [inputs[0], numbers[0]]
    found = branches.deciding(node.node)
    if found is None:
        raise node.fail("its inputs are not the two branches of one predicate")
    if len({(i.shape.type, node.lens(i)) for i in inputs}) > 1:
        shapes = " and ".join(str(i.shape) for i in inputs)
        raise node.fail(f"branches {shapes}; expected equal types and lens")
    predicate, first_if_true = found
    return [_chosen(node, predicate, pair, first_if_true) for pair in (inputs, numbers)]


def _chosen(
    node: NodeContext, predicate: Instruction, pair: list[Instruction], first_if_true: bool
) -> Instruction:
    """The first value of a pair or the second, as the predicate says."""
    if_true, if_false = pair if first_if_true else pair[::-1]
    return node.add("where", node.fit(predicate, node.lens(if_true)), if_true, if_false)
