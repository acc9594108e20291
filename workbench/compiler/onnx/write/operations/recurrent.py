"""Recurrent networks: a node with three outputs, of which a program picks the last states by operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.nodes.recurrent import ACTIVATIONS
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import writes
from workbench.compiler.ops.recurrent import Recurrent

_NAMES = {op: op.title().replace("_", "") for op in ACTIVATIONS.values()}
"""ONNX's names of activations: ``LeakyRelu`` for ``leaky_relu``."""
_LENS = 4
"""The operand that holds the lengths of sequences."""
_OUTPUTS = {"rnn": 2, "gru": 2, "lstm": 3}


@writes(*_OUTPUTS)
def recurrent(call: Call) -> str:
    """RNN, GRU or LSTM; the names of its last states are kept with the name of all."""
    op: Recurrent = call.op
    functions = [f for i in range(op.direction.directions) for f in op.activations(i)]
    unknown = [f.name for f in functions if f.name not in _NAMES]
    if unknown:
        raise call.refuse(f"ONNX's networks have no activation {unknown[0]}")
    attributes: dict[str, Any] = {
        "hidden_size": op.hidden_size,
        "direction": str(op.direction.value),
        "activations": [_NAMES[f.name] for f in functions],
        "activation_alpha": _scales(functions, "alpha"),
        "activation_beta": _scales(functions, "beta"),
        "clip": op.clip or None,
    }
    for name in ("linear_before_reset", "input_forget"):
        if name in op.attributes():
            attributes[name] = getattr(op, name)
    own, op_type = call.type, op.name.upper()
    work = call.taken(op_type, own, DType.FLOAT)
    inputs = [
        "" if _is_empty(shape) else call.cast(x, shape.type, DType.INT32 if at == _LENS else work)
        for at, (x, shape) in enumerate(zip(call.inputs, call.shapes, strict=True))
    ]
    made = call.several(op_type, _OUTPUTS[op.name], *inputs, **attributes)
    every, *last = (call.cast(v, work, own) for v in made)
    call.block.last_states[call.instruction] = last
    return every


def _is_empty(shape: Shape) -> bool:
    """Whether an operand without elements stands for one that is left out."""
    return shape.dims is None and not shape.elements


def _scales(functions: Sequence[Operation], name: str) -> list[float] | None:
    """The scales of the activations that have one, in turn."""
    return [getattr(f, name) for f in functions if name in f.attributes()] or None


@writes("rnn_last_hs_output", "rnn_last_cell_output")
def last_state(call: Call) -> str:
    """The second or the third output of the network."""
    found = call.block.last_states.get(call.operands[0])
    if found is None:
        raise call.refuse("its operand is not a network, so its last state is not known")
    return found[1 if call.op.name == "rnn_last_cell_output" else 0]
