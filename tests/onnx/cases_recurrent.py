"""Single nodes of the recurrent networks."""

import numpy as np

from tests.onnx.cases import F, f, n
from tests.onnx.models import Case

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
LENS = n(3, 0, 4, 1, type=np.int32)
STEPS, BATCH, WIDTH, HIDDEN = 4, 4, 3, 5


def network(op, directions=1, type=F, **more):
    """A network with all operands; those whose name is given None are left out."""
    wide = GATES[op] * HIDDEN
    state = (directions, BATCH, HIDDEN)
    lens = {
        "x": (STEPS, BATCH, WIDTH),
        "w": (directions, wide, WIDTH),
        "r": (directions, wide, HIDDEN),
        "bias": (directions, 2 * wide),
        "lens": (BATCH,),
        "h": state,
    }
    if op == "LSTM":
        lens |= {"c": state, "peephole": (directions, 3 * HIDDEN)}
    values = {k: f(*v, low=-1.0, high=1.0, type=type) for k, v in lens.items()}
    values["lens"] = LENS
    inputs = [more.pop(k, v) for k, v in values.items()]
    while inputs[-1] is None:
        inputs.pop()
    tolerance = {np.float16: 2e-3}.get(type, 1e-4)
    count = 3 if op == "LSTM" else 2
    attributes = {"hidden_size": HIDDEN, **more}
    return Case(op, inputs, attributes, outputs=count, tolerance=tolerance)


_NO_STATES = {"bias": None, "lens": None, "h": None, "c": None, "peephole": None}
_WHOLE = {"lens": None, "peephole": None}
_BOTH = {"direction": "bidirectional"}


def _given(op, **more):
    left_out = {k: v for k, v in more.items() if k not in {"c", "peephole"} or op == "LSTM"}
    return network(op, **left_out)


RECURRENT = [
    case
    for op, count in ACTIVATIONS.items()
    for case in (
        _given(op, **_NO_STATES),
        _given(op, **_WHOLE),
        _given(op),
        _given(op, direction="reverse"),
        _given(op, directions=2, **_BOTH),
        _given(op, directions=2, **_BOTH, lens=None),
        _given(op, directions=2, **_BOTH, h=None, c=None),
        _given(op, clip=0.3),
        _given(op, directions=2, **_BOTH, clip=0.05),
        _given(op, **_WHOLE, type=np.float16),
        _given(op, activations=["Sigmoid"] * count),
        _given(op, activations=["LeakyRelu", "Tanh", "Elu"][:count], activation_alpha=[0.2]),
        _given(op, activations=["Elu", "Relu", "LeakyRelu"][-count:]),
        _given(op, directions=2, **_BOTH, activations=["Tanh", "LeakyRelu"] * count,
               activation_alpha=[0.1 * k for k in range(count)]),
    )
]  # fmt: skip

_ALL = ["Affine", "HardSigmoid", "ScaledTanh", "LeakyRelu", "ThresholdedRelu", "Elu", "Softsign",
        "Softplus"]  # fmt: skip
_ALPHAS = {"Affine": 0.7, "HardSigmoid": 0.3, "ScaledTanh": 0.9, "LeakyRelu": 0.2,
           "ThresholdedRelu": 0.1, "Elu": 0.5}  # fmt: skip
_BETAS = {"Affine": 0.1, "HardSigmoid": 0.4, "ScaledTanh": 0.8}


def _scaled(op, first):
    """A network with the activations from this one on, each with scales of its own."""
    names = [(_ALL * 2)[first + k] for k in range(2 * ACTIVATIONS[op])]
    alphas, betas = ([s[n] for n in names if n in s] for s in (_ALPHAS, _BETAS))
    scales = {"activation_alpha": alphas, "activation_beta": betas}
    scales = {k: v for k, v in scales.items() if v}
    # Without a bound, onnxruntime's Softplus overflows.
    return _given(op, directions=2, **_BOTH, activations=names, clip=3.0, **scales)


SCALED = [_scaled(op, first) for op in GATES for first in range(len(_ALL))]

RESET = [
    network("GRU", linear_before_reset=1, **more)
    for more in ({}, {"direction": "reverse"}, {"bias": None}, {"clip": 0.2}, {"lens": None})
] + [network("GRU", directions=2, linear_before_reset=1, **_BOTH)]

COUPLED = [
    network("LSTM", input_forget=1),
    network("LSTM", input_forget=1, peephole=None, clip=0.3),
    network("LSTM", directions=2, input_forget=1, **_BOTH),
]

# onnxruntime has no batches first; ONNX's reference has no sequences of several lens.
BATCH_FIRST = [
    _given(op, layout=1, direction=direction, directions=directions, lens=None,
           x=f(BATCH, STEPS, WIDTH), h=f(BATCH, directions, HIDDEN), c=f(BATCH, directions, HIDDEN))
    for op in GATES
    for direction, directions in (("forward", 1), ("reverse", 1), ("bidirectional", 2))
]  # fmt: skip
