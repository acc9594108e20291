"""Steps with graphs of their own: branches and loops, which read values of the model around them."""

import onnx
from onnx import helper

from tests.onnx.graphs.growing import BOOL, FLOATS, Known, Model, Value, like, step

ALIKE = ["Neg", "Abs", "Identity", "Floor"]
"""What branches compute: results within the bound of what they read, on its grid or a coarser one."""


def _graph(name: str, nodes: list[onnx.NodeProto], inputs, outputs) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


def _info(name: str, x: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.type), x.lens)


@step
def branches(model: Model) -> None:
    condition = model.value(lambda v: v.type == BOOL and v.size == 1 and v.rank < 2)
    x = model.value(lambda v: v.type in FLOATS and v.grid > 0 and float(v.bound).is_integer())
    if condition and x:
        graphs = {}
        for side in ("then_branch", "else_branch"):
            name = model.name()
            node = helper.make_node(model.one_of(ALIKE), [x.name], [name])
            graphs[side] = _graph(side, [node], [], [_info(name, x)])
        model.add("If", [condition], like(x, low=-x.bound, high=x.bound), **graphs)


@step
def loops(model: Model) -> None:
    """A sum that grows by the same value each time, and all its stages.

    A second loop turns at least once: without a turn, the lens of a stage that an earlier loop decides stay
    unknown to the workbench.
    """
    x = model.value(lambda v: v.type in FLOATS[:2] and v.rank < 4)
    if x is None:
        return
    times = model.integer(1 if any(n.op_type == "Loop" for n in model.nodes) else 0, 3)
    turn, go, state, on, after, stage = (model.name() for _ in range(6))
    nodes = [
        helper.make_node("Identity", [go], [on]),
        helper.make_node("Add", [state, x.name], [after]),
        helper.make_node("Identity", [after], [stage]),
    ]
    one = helper.make_tensor_value_info
    inputs = [
        one(turn, onnx.TensorProto.INT64, []),
        one(go, onnx.TensorProto.BOOL, []),
        _info(state, x),
    ]
    outputs = [one(on, onnx.TensorProto.BOOL, []), _info(after, x), _info(stage, x)]
    body = _graph("body", nodes, inputs, outputs)
    bound, error = (times + 1) * x.bound, (times + 1) * x.error
    known = Known(x.type, x.lens, -bound, bound, x.grid, error)
    stages = Known(x.type, (times, *x.lens), -bound, bound, x.grid, error)
    model.add("Loop", [model.constant(times), "", x], known, stages, times=times, body=body)
