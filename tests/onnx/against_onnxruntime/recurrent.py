"""Generators of recurrent networks."""

from typing import Any

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
KINDS = ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Softsign", "Elu", "Affine"]
ALPHAS = {"LeakyRelu": 0.1, "HardSigmoid": 0.3, "Elu": 0.7, "Affine": 0.5}
BETAS = {"HardSigmoid": 0.4, "Affine": 0.2}


@covers("RNN", "GRU", "LSTM")
def network(pick: Pick) -> Example:
    type = "float"  # onnxruntime registers double, and has no code for it; nor has it for layout=1
    steps, batch, width, hidden = (pick.integer(1, 4) for _ in range(4))
    direction = pick.one_of(["forward", "reverse", "bidirectional"])
    count, gates = 2 if direction == "bidirectional" else 1, GATES[pick.op]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    attributes |= activations(pick, count) if pick.flag() else {}
    attributes |= pick.some(clip=pick.number(0.5, 2))
    if pick.op == "GRU":
        attributes |= pick.some(linear_before_reset=pick.integer(0, 1))
    if pick.op == "LSTM":
        attributes |= pick.some(input_forget=pick.integer(0, 1))

    def values(*lens: int) -> Any:
        return pick.array(type, lens, -1, 1)

    state = (count, batch, hidden)
    required = [
        values(steps, batch, width),
        values(count, gates * hidden, width),
        values(count, gates * hidden, hidden),
    ]
    lengths = pick.array("int32", (batch,), 0, steps)
    optional = [values(count, 2 * gates * hidden), lengths, values(*state)]
    if pick.op == "LSTM":
        optional += [values(*state), values(count, 3 * hidden)]
    given = [v if pick.flag() else None for v in optional]
    outputs = 3 if pick.op == "LSTM" else 2
    return Example([*required, *given], attributes, outputs=outputs, summed=True, slack=5)


def activations(pick: Pick, directions: int) -> dict[str, Any]:
    """An activation for each gate of each direction, with what they are scaled by."""
    names = [pick.one_of(KINDS) for _ in range(ACTIVATIONS[pick.op] * directions)]
    found: dict[str, Any] = {"activations": names}
    # A list is read from the front by those that want a number, so all that do are given one.
    alphas, betas = ([t[n] for n in names if n in t] for t in (ALPHAS, BETAS))
    found |= {"activation_alpha": alphas} if alphas else {}
    return found | ({"activation_beta": betas} if betas else {})
