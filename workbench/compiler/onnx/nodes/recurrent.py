"""Recurrent networks."""

from __future__ import annotations

from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext, is_absent
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.operation import Operation, make

ACTIVATIONS = {
    "tanh": "tanh", "relu": "relu", "sigmoid": "sigmoid", "leakyrelu": "leaky_relu", "elu": "elu",
}  # fmt: skip
_DEFAULTS = {
    "RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh"),
}  # fmt: skip
_DIRECTIONS = {"forward", "reverse", "bidirectional"}


@onnx_op("RNN", "GRU", "LSTM")
def recurrent(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """One operation for the network, and those that pick its last outputs."""
    kind = node.op_type
    count = 8 if kind == "LSTM" else 6
    node.expect(inputs, 3, count)
    direction = node.text("direction", "forward").lower()
    if direction not in _DIRECTIONS:
        raise node.fail(f"direction={direction!r}; expected one of {', '.join(sorted(_DIRECTIONS))}")
    hidden = inputs[2].shape.lens[-1]
    if node.integer("hidden_size", hidden) != hidden:
        raise node.fail(f"hidden_size={node.integer('hidden_size')}; the weights have {hidden}")
    attributes: dict[str, object] = {
        "hidden_size": hidden,
        "actv_func": _activations(node, kind, 2 if direction == "bidirectional" else 1),
        "direction": choice(kind.lower(), "direction", direction),
        "clip": node.number("clip", 0.0),
    }
    if kind == "GRU":
        attributes["linear_before_reset"] = node.integer("linear_before_reset", 0)
    if kind == "LSTM":
        attributes["input_forget"] = node.integer("input_forget", 0)
    operands = list(inputs)
    if len(operands) < count:
        operands += [node.add("undefined")] * (count - len(operands))
    batch_first = node.flag("layout")
    if batch_first:
        for i in (0, 5, 6) if kind == "LSTM" else (0, 5):
            if not is_absent(operands[i]):
                operands[i] = node.transpose(operands[i], 1, 0, 2)
    every = node.add(kind.lower(), *operands, **attributes)
    outputs = [every, node.add("rnn_last_hs_output", every)]
    if kind == "LSTM":
        outputs.append(node.add("rnn_last_cell_output", every))
    if batch_first:
        first = node.transpose(outputs[0], 2, 0, 1, 3)
        outputs = [first, *[node.transpose(o, 1, 0, 2) for o in outputs[1:]]]
    return outputs


def _activations(node: NodeContext, kind: str, directions: int) -> tuple[Operation, ...]:
    default = _DEFAULTS[kind] * directions
    names = tuple(n.lower() for n in node.texts("activations", ())) or default
    if len(names) == 2 * len(default):
        names = names[: len(default)]
    if len(names) != len(default):
        raise node.fail(f"{len(names)} activations; expected {len(default)}")
    for name in names:
        if name not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            raise node.fail(f"activation {name!r} is not supported; expected one of {known}")
    return tuple(make(ACTIVATIONS[n]) for n in names)
