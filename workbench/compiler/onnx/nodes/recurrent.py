"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation, attribute_names, find, make
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext, is_absent
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Size

ACTIVATIONS = {
    "tanh": "tanh", "relu": "relu", "sigmoid": "sigmoid", "leakyrelu": "leaky_relu", "elu": "elu",
    "affine": "affine", "hardsigmoid": "hard_sigmoid", "scaledtanh": "scaled_tanh",
    "softplus": "softplus", "softsign": "softsign", "thresholdedrelu": "thresholded_relu",
}  # fmt: skip
_DEFAULTS = {
    "RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh"),
}  # fmt: skip
_DIRECTIONS = {"forward", "reverse", "bidirectional"}


@onnx_op("RNN", "GRU", "LSTM")
def recurrent(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """One operation for the network, and operations that pick its last outputs."""
    return network(node, node.op_type, inputs)


def network(node: NodeContext, kind: str, inputs: list[Instruction]) -> list[Instruction]:
    """A network of this kind with a node's attributes."""
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
    operands = _operands(node, kind, inputs, count)
    every = node.add(kind.lower(), *operands, **attributes)
    outputs = [every, node.add("rnn_last_hs_output", every)]
    if kind == "LSTM":
        outputs.append(node.add("rnn_last_cell_output", every))
    if node.flag("layout"):
        first = node.transpose(outputs[0], 2, 0, 1, 3)
        outputs = [first, *[node.transpose(o, 1, 0, 2) for o in outputs[1:]]]
    return outputs


def _hidden_size(node: NodeContext, weights: Instruction) -> int:
    if weights.shape.ndim != 3:
        raise node.fail(f"the recurrence weights are {weights.shape}; expected 3 dimensions")
    hidden = node.lens(weights)[-1]
    if isinstance(hidden, Size):
        return node.integer("hidden_size")
    if node.integer("hidden_size", hidden) != hidden:
        raise node.fail(
            f"hidden_size={node.integer('hidden_size')}; expected {hidden}, as the weights have"
        )
    return hidden


def _operands(
    node: NodeContext, kind: str, inputs: list[Instruction], count: int
) -> list[Instruction]:
    """All operands, omitted ones as ``undefined``, with the sequence axis first."""
    operands = list(inputs)
    if len(operands) < count:
        operands += [node.add("undefined")] * (count - len(operands))
    if node.flag("layout"):
        for i in (0, 5, 6) if kind == "LSTM" else (0, 5):
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
    alphas, betas = (_scales(node, names, n) for n in ("alpha", "beta"))
    return tuple(
        make(ACTIVATIONS[name], **alpha, **beta)
        for name, alpha, beta in zip(names, alphas, betas, strict=True)
    )


def _scales(node: NodeContext, names: Sequence[str], scale: str) -> list[dict[str, float]]:
    """The scale of each activation, if given: activations that have one take the values in turn."""
    values = node.numbers(f"activation_{scale}", ())
    takers = [scale in attribute_names(find(ACTIVATIONS[name])) for name in names]
    if len(values) > sum(takers):
        raise node.fail(
            f"{len(values)} values in activation_{scale}; expected at most {sum(takers)}, one for "
            "each activation that takes one"
        )
    left = iter(values)
    found = [next(left, None) if takes else None for takes in takers]
    return [{} if value is None else {scale: value} for value in found]
