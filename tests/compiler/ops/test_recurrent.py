"""Networks step by step, and their last states."""

import numpy as np
import pytest

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation, all_operations, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.sequences import Direction
from workbench.compiler.run import reference
from workbench.compiler.text.printing import parse, to_text

OPERATIONS = all_operations()

NETWORKS = ("rnn", "gru", "lstm")
every_network = pytest.mark.parametrize("name", NETWORKS)
LAST = {"rnn_last_hs_output": NETWORKS, "rnn_last_cell_output": ("lstm",)}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def operands(name, directions, lens):
    """Operands in double precision; absent ones are empty."""
    random, gates = np.random.default_rng(3), {"rnn": 1, "gru": 3, "lstm": 4}[name]
    wide, h, state = gates * 3, 3, (directions, len(lens), 3)
    sizes = [
        (5, len(lens), 2),
        (directions, wide, 2),
        (directions, wide, h),
        (directions, 2 * wide),
    ]
    found = [random.standard_normal(s) for s in [*sizes, (0,), state]]
    if name == "lstm":
        found += [random.standard_normal(state), random.standard_normal((directions, 9))]
    found[4] = np.array(lens, np.int32)
    return found


def step(name, x, state, w, r, bias, peephole):
    """One step of one sequence, as ONNX writes it."""
    wb, rb = np.split(bias, 2)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
    a, b = np.split(w @ x + wb, gates), np.split(r @ state[0] + rb, gates)
    if name == "rnn":
        return (np.tanh(a[0] + b[0]),)
    if name == "gru":
        z, reset = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        rh = np.split(r, 3)[2] @ (reset * state[0]) + np.split(rb, 3)[2]
        return ((1 - z) * np.tanh(a[2] + rh) + z * state[0],)
    c, (pi, po, pf) = state[1], np.split(peephole, 3)
    i, f = sigmoid(a[0] + b[0] + pi * c), sigmoid(a[2] + b[2] + pf * c)
    c = f * c + i * np.tanh(a[3] + b[3])
    return sigmoid(a[1] + b[1] + po * c) * np.tanh(c), c


def one_by_one(name, given, reversing):
    """Every sequence alone, without padding: the hidden states, the last states."""
    x, w, r, bias, lens, *states = given
    directions = len(w)
    peephole = states.pop() if name == "lstm" else np.zeros((directions, 0))
    every, last = np.zeros((5, directions, len(lens), 3)), [np.zeros_like(s) for s in states]
    for d in range(directions):
        for b, n in enumerate(lens):
            state = tuple(s[d, b] for s in states)
            for t in reversed(range(n)) if reversing[d] else range(n):
                state = step(name, x[t, b], state, w[d], r[d], bias[d], peephole[d])
                every[t, d, b] = state[0]
            for whole, one in zip(last, state, strict=True):
                whole[d, b] = one if n else 0
    return every, *last


def program_of(op, given):
    """A network, and the operations that pick its last states."""
    program = Program()
    found = [program.main.add_parameter(f"x{i}", Argument.of(x).shape) for i, x in enumerate(given)]
    every = program.main.add(op, *found)
    last = [program.main.add(n, every) for n, of in LAST.items() if op.name in of]
    program.main.add_return(every, *last)
    return program, {f"x{i}": x for i, x in enumerate(given)}


@every_network
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("lens", [(5, 5, 5), (3, 0, 5), (2, 2, 2), (0, 0, 0), (1, 4, 2)])
def test_a_batch_of_several_lens_is_each_sequence_alone(name, direction, lens):
    given = operands(name, direction.directions, lens)
    op = make(name, hidden_size=3, direction=direction)
    found = reference.run(*program_of(op, given))
    reversing = [direction.reverses(d) for d in range(direction.directions)]
    for have, want in zip(found, one_by_one(name, given, reversing), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


@every_network
@pytest.mark.parametrize("direction", Direction)
def test_shifted_sequences_and_outputs_are_the_network_of_several_lens(name, direction):
    """MIGraphX's form of a network: whole steps, on sequences moved to the end if reversed."""
    lens = np.array([3, 0, 5, 1], np.int32)
    given = operands(name, direction.directions, lens)
    op = make(name, hidden_size=3, direction=direction)
    wanted, hidden = reference.run(*program_of(op, given))[:2]
    parts = []
    for d in range(direction.directions):
        back = direction.reverses(d)
        own = [x if i in (0, 4) else x[d : d + 1] for i, x in enumerate(given)]
        own[4] = np.zeros(0)
        if back:
            own[0] = make("rnn_var_sl_shift_sequence").compute(own[0], lens)
        one = make(name, hidden_size=3, direction=Direction.REVERSE if back else Direction.FORWARD)
        parts.append(one.compute(*own))
    every = np.concatenate(parts, 1)
    shifted = make("rnn_var_sl_shift_output", direction=direction).compute(every, lens)
    np.testing.assert_allclose(shifted, wanted, rtol=1e-12)
    last = make("rnn_var_sl_last_output", direction=direction).compute(shifted, lens)
    np.testing.assert_allclose(last, hidden, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("rnn", "", ["tanh", "tanh"]),
        ("rnn", "relu", ["relu", "relu"]),
        ("rnn", "relu tanh", ["relu", "tanh"]),
        ("gru", "", ["sigmoid tanh"] * 2),
        ("gru", "relu", ["relu relu"] * 2),
        ("gru", "relu elu", ["relu elu"] * 2),
        ("gru", "relu elu tanh", ["relu elu", "tanh relu"]),
        ("lstm", "", ["sigmoid tanh tanh"] * 2),
        ("lstm", "relu elu", ["relu elu elu"] * 2),
        ("lstm", "relu elu tanh", ["relu elu tanh"] * 2),
        ("lstm", "relu elu tanh sigmoid", ["relu elu tanh", "sigmoid sigmoid sigmoid"]),
        ("lstm", "relu elu tanh sigmoid elu", ["relu elu tanh", "sigmoid elu elu"]),
    ],
)
def test_short_lists_of_activations_are_completed(name, given, wanted):
    op = make(name, actv_func=tuple(make(n) for n in given.split()))
    assert [" ".join(f.name for f in op.activations(d)) for d in (0, 1)] == wanted


@pytest.mark.parametrize("name", LAST)
def test_a_last_state_is_refused_where_it_cannot_be_known(name):
    given = operands("rnn", 1, (5,))
    every = make("rnn", hidden_size=3).compute(*given)
    for value in (every + 0, every[:], np.asarray(every)):
        with pytest.raises(EvaluationError, match=f"{name}: .* itself, not one computed from it"):
            make(name).compute(value)
    if name == "rnn_last_cell_output":
        with pytest.raises(EvaluationError, match="expected the value of lstm itself"):
            make(name).compute(every)


@pytest.mark.parametrize("name", LAST)
def test_last_states_count_their_inputs(name):
    shape = Argument.of(np.zeros((2, 1, 3, 4))).shape
    assert str(make(name).compute_shape([shape])) == "double_type, {1, 3, 4}, {12, 4, 1}"
    for wrong in ([], [shape, shape]):
        with pytest.raises(ShapeError, match=name):
            make(name).compute_shape(wrong)


def test_arithmetic_on_hidden_states_gives_plain_arrays():
    every = make("rnn", hidden_size=3).compute(*operands("rnn", 1, (5,)))
    assert type(every * 2) is np.ndarray
    assert type(every.sum(0)) is np.ndarray


@every_network
def test_a_program_with_a_network_prints_and_parses_back(name):
    actv_func = (make("leaky_relu", alpha=0.2), make("elu", alpha=0.5), make("tanh"))
    op = make(name, hidden_size=3, actv_func=actv_func[: {"rnn": 1, "gru": 2, "lstm": 3}[name]])
    program, _ = program_of(op, operands(name, 1, (5, 2)))
    assert "leaky_relu[alpha=0.2]" in to_text(program)
    assert to_text(parse(to_text(program))) == to_text(program)


@every_network
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 4}, r"input 1 is .*; expected lens \[1, \d+, 2\]"),
        ({"direction": Direction.BIDIRECTIONAL}, r"input 1 is .*; expected lens \[2, \d+, 2\]"),
        ({"clip": -1.0}, "clip=-1.0; expected 0 or a positive bound"),
        ({"actv_func": (make("add"),)}, "activation add; expected a function of one tensor"),
        ({"actv_func": (make("dot"),)}, "activation dot; expected a function of one tensor"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(name, changes, message):
    shapes = [Argument.of(x).shape for x in operands(name, 1, (5, 2))]
    with pytest.raises(ShapeError, match=f"{name}: {message}"):
        make(name, **{"hidden_size": 3} | changes).compute_shape(shapes)


@every_network
def test_operands_of_another_type_are_refused(name):
    shapes = [Argument.of(x).shape for x in operands(name, 1, (5, 2))]
    op: Operation = make(name, hidden_size=3)
    for i, wanted in ((2, "double_type"), (4, "an integer type"), (5, "double_type")):
        other = [*shapes]
        other[i] = type(shapes[i])(DType.FLOAT, shapes[i].lens)
        with pytest.raises(ShapeError, match=f"input {i} is float_type; expected {wanted}"):
            op.compute_shape(other)


def test_the_work_of_an_lstm_is_mostly_products():
    op = OPERATIONS["lstm"](hidden_size=100)  # pyright: ignore[reportCallIssue]
    lens = [(7, 2, 50), (1, 400, 50), (1, 400, 100)]
    shapes = [Argument.of(np.zeros(n, np.float32)).shape for n in lens]
    flops = op.flops(shapes, op.compute_shape(shapes))
    products = 2 * 7 * 2 * 400 * (50 + 100)
    assert products < flops < 1.1 * products
