"""Recurrent networks: a node with three outputs, of which a program picks the last states by operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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


# Sequences of different lengths, as rewrite_rnn leaves them


@writes("rnn_var_sl_shift_sequence")
def shift_sequence(call: Call) -> str:
    """The first steps reversed, then all of them: the sequences end at the last step."""
    x, lens = call.inputs[0], _lens(call)
    moved = _backwards(call, _reversed(call, x, lens))
    steps = _steps(call)
    first = call.add("Sub", call.constant(steps), lens)
    own = call.constant(np.arange(steps).reshape(-1, 1))
    return _kept(call, call.add("GreaterOrEqual", own, first), moved, call.shapes[0].ndim - 2)


@writes("rnn_var_sl_shift_output")
def shift_output(call: Call) -> str:
    """Each direction's states where there are steps; those of a reverse one shifted to the front."""
    lens = _lens(call)
    own = call.constant(np.arange(_steps(call)).reshape(-1, 1))
    is_step = call.add("Less", own, lens)
    parts: list[str] = []
    for d, part in enumerate(_directions(call)):
        states = part
        if call.op.direction.reverses(d):
            back = _backwards(call, part)
            states = _reversed(call, back, lens)
        kept = _kept(call, is_step, states, 1)
        parts.append(call.add("Unsqueeze", kept, call.constant([1])))
    return call.add("Concat", *parts, axis=1)


@writes("rnn_var_sl_last_output")
def last_output(call: Call) -> str:
    """The first state in reverse, or after the steps are reversed; 0 for an empty sequence."""
    lens = _lens(call)
    parts: list[str] = []
    for d, part in enumerate(_directions(call)):
        states = part
        if not call.op.direction.reverses(d):
            states = _reversed(call, part, lens)
        first = call.add("Gather", states, call.constant(0), axis=0)
        kept = _kept(call, call.add("Greater", lens, call.constant(0)), first, 1)
        parts.append(call.add("Unsqueeze", kept, call.constant([0])))
    return call.add("Concat", *parts, axis=0)


def _steps(call: Call) -> int:
    """The number of steps of the first operand."""
    shape = call.shapes[0]
    if shape.dims is not None:
        raise call.refuse("the number of steps is known only at run time")
    return shape.lens[0]


def _lens(call: Call) -> str:
    """The lengths of the sequences, as ReverseSequence takes them."""
    return call.cast(call.inputs[1], call.shapes[1].type, DType.INT64)


def _directions(call: Call) -> list[str]:
    """The hidden states of each direction, without its axis."""
    count = range(call.op.direction.directions)
    return [call.add("Gather", call.inputs[0], call.constant(d), axis=1) for d in count]


def _reversed(call: Call, x: str, lens: str) -> str:
    """The first steps of each sequence in reverse, in a type that the operator takes."""
    own = call.type
    type = call.taken("ReverseSequence", own, DType.FLOAT)
    given = call.cast(x, own, type)
    return call.cast(call.add("ReverseSequence", given, lens, batch_axis=1, time_axis=0), type, own)


def _backwards(call: Call, x: str) -> str:
    """The steps from the last to the first."""
    ends = np.iinfo(np.int64).min
    return call.add("Slice", x, *(call.constant([n]) for n in (-1, ends, 0, -1)))


def _kept(call: Call, where: str, x: str, more: int) -> str:
    """The elements where a condition on the leading axes holds, and zeros; ``more`` axes follow those."""
    if more:
        known = 1 if call.op.name == "rnn_var_sl_last_output" else 2
        where = call.add("Unsqueeze", where, call.constant(list(range(known, known + more))))
    return call.add("Where", where, x, call.constant(0, call.type))
