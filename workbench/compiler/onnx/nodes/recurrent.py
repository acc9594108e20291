"""Recurrent networks."""

from __future__ import annotations

from typing import Any

from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext, is_absent
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.operation import Operation, make

ACTIVATIONS = {
    "tanh": "tanh", "relu": "relu", "sigmoid": "sigmoid", "leakyrelu": "leaky_relu", "elu": "elu",
}  # fmt: skip
_SCALED = {"leakyrelu", "elu"}
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
        raise node.fail(
            f"direction={direction!r}; expected one of {', '.join(sorted(_DIRECTIONS))}"
        )
    attributes: dict[str, Any] = {
        "hidden_size": _hidden_size(node, inputs[2]),
        "actv_func": _activations(node, kind, 2 if direction == "bidirectional" else 1),
        "direction": choice(kind.lower(), "direction", direction),
        "clip": node.number("clip", 0.0),
    }
    if kind == "GRU":
        attributes["linear_before_reset"] = node.integer("linear_before_reset", 0)
    if kind == "LSTM":
        attributes["input_forget"] = node.integer("input_forget", 0)
    operands = _operands(node, inputs, count)
    every = node.add(kind.lower(), *operands, **attributes)
    outputs = [every, node.add("rnn_last_hs_output", every)]
    if kind == "LSTM":
        outputs.append(node.add("rnn_last_cell_output", every))
    if node.flag("layout"):
        first = node.transpose(outputs[0], 2, 0, 1, 3)
        outputs = [first, *[node.transpose(o, 1, 0, 2) for o in outputs[1:]]]
    return outputs


def _hidden_size(node: NodeContext, weights: Instruction) -> int:
    if weights.shape.is_dynamic or weights.shape.ndim != 3:
        raise node.fail(f"the recurrence weights are {weights.shape}; expected 3 known dimensions")
    hidden = weights.shape.lens[-1]
    if node.integer("hidden_size", hidden) != hidden:
        raise node.fail(f"hidden_size={node.integer('hidden_size')}; the weights have {hidden}")
    return hidden


def _operands(node: NodeContext, inputs: list[Instruction], count: int) -> list[Instruction]:
    """All operands, those left out as ``undefined``, with the sequence first."""
    operands = list(inputs)
    if len(operands) < count:
        operands += [node.add("undefined")] * (count - len(operands))
    if node.flag("layout"):
        for i in (0, 5, 6) if node.op_type == "LSTM" else (0, 5):
            if not is_absent(operands[i]):
                operands[i] = node.transpose(operands[i], 1, 0, 2)
    return operands


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
    alphas = iter(_alphas(node, sum(n in _SCALED for n in names)))
    return tuple(_activation(n, next(alphas, None) if n in _SCALED else None) for n in names)


def _activation(name: str, alpha: float | None) -> Operation:
    return make(ACTIVATIONS[name], **({} if alpha is None else {"alpha": alpha}))


def _alphas(node: NodeContext, takers: int) -> tuple[float, ...]:
    """The scales of the activations that have one, in their order."""
    alphas = node.numbers("activation_alpha", ())
    if len(alphas) > takers:
        raise node.fail(f"{len(alphas)} values in activation_alpha; {takers} activations take one")
    if betas := node.numbers("activation_beta", ()):
        raise node.fail(f"{len(betas)} values in activation_beta; no activation takes one")
    return alphas
