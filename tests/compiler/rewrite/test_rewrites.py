"""Operations rewritten into others: the values are those of the operations, for any attributes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.passes.test_rules import differing
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run
from workbench.compiler.text.parsing import parse_operation

SMALL = st.integers(1, 3)


def noise(*lens: int, seed: int = 0, type: type = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens).astype(type)


def built(name: str, *inputs: np.ndarray, literals: tuple[int, ...] = (), **attributes) -> tuple:
    """A program of one operation, with these inputs as parameters or literals, and its inputs."""
    program, given_ = Program(), {}
    made = []
    for i, array in enumerate(inputs):
        if i in literals:
            made.append(program.main.add_literal(array))
        else:
            given_[f"x{i}"] = array
            made.append(program.main.add_parameter(f"x{i}", Shape(array.dtype, array.shape)))
    program.main.add_return(program.main.add(name, *made, **attributes))
    return program, given_


def names(program: Program) -> list[str]:
    return [i.name for i in program.main]


def before_and_after(program: Program, inputs: dict, name: str, **options) -> tuple:
    """Values before and after a pass."""
    before = run(program, inputs)
    run_pass(pass_named(name, **options), program)
    validate(program)
    return before, run(program, inputs)


def check(program: Program, inputs: dict, name: str, limit: float = 1e-12, **options) -> None:
    for one, other in zip(*before_and_after(program, inputs, name, **options), strict=True):
        assert one.dtype == other.dtype
        assert differing(one, other) <= limit, program


# Recurrent networks

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
ACTIVATIONS = ("tanh", "sigmoid", "relu", "elu", "leaky_relu", "softsign")


@st.composite
def networks(draw, most: int = 4, any_form: bool = False) -> tuple[Program, dict]:
    """A recurrent network with some of its operands, and those who ask for its states.

    In any form, it may be bounded, its gates coupled, and its sequences empty.
    """
    kind = draw(st.sampled_from(sorted(GATES)))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    steps, batch, width, hidden = draw(st.tuples(st.integers(1, most), SMALL, SMALL, SMALL))
    count, wide = 1 + (direction == "bidirectional"), GATES[kind] * hidden
    program, inputs = Program(), {}

    def parameter(name: str, array: np.ndarray):
        inputs[name] = array
        return program.main.add_parameter(name, Shape(array.dtype, array.shape))

    operands = [
        parameter("x", noise(steps, batch, width)),
        parameter("w", noise(count, wide, width, seed=1)),
        parameter("r", noise(count, wide, hidden, seed=2)),
    ]
    least = 1 - any_form
    lens = np.array(
        draw(st.lists(st.integers(least, steps), min_size=batch, max_size=batch)), np.int32
    )
    known = draw(st.sampled_from(["none", "equal", "differ", "unknown"]))
    lens[...] = lens[0] if known == "equal" else lens
    wanted = {
        "bias": noise(count, 2 * wide, seed=3),
        "lens": lens,
        "h": noise(count, batch, hidden, seed=4),
        "c": noise(count, batch, hidden, seed=5),
        "p": noise(count, 3 * hidden, seed=6),
    }
    for name in list(wanted)[: 5 if kind == "lstm" else 3]:
        if name == "lens" and known in ("equal", "differ"):
            operands.append(program.main.add_literal(lens))
        elif known != "none" if name == "lens" else draw(st.booleans()):
            operands.append(parameter(name, wanted[name]))
        else:
            operands.append(program.main.add("undefined"))
    functions = draw(st.lists(st.sampled_from(ACTIVATIONS), max_size=3 * count))
    listed = "{" + ", ".join(functions) + "}"
    extra = f",linear_before_reset={draw(st.integers(0, 1))}" if kind == "gru" else ""
    if any_form:
        extra += f",clip={draw(st.sampled_from([0, 0.3]))}"
        extra += f",input_forget={draw(st.integers(0, 1))}" if kind == "lstm" else ""
    text = f"{kind}[hidden_size={hidden},actv_func={listed},direction={direction}{extra}]"
    network = program.main.add(parse_operation(text), *operands)
    asked = ["rnn_last_hs_output"] + ["rnn_last_cell_output"] * (kind == "lstm")
    found = [program.main.add(n, network) for n in asked if draw(st.booleans())]
    program.main.add_return(*found, *[network] * (not found or draw(st.booleans())))
    return program, inputs


@given(networks())
def test_a_network_step_by_step_gives_its_values(case):
    program, inputs = case
    check(program, inputs, "rewrite_rnn")
    assert not {"rnn", "gru", "lstm"} & set(names(program))


@given(networks(6, any_form=True))
def test_a_network_as_a_loop_gives_its_values(case):
    program, inputs = case
    check(program, inputs, "loop_rnn", few_steps=True)
    assert not {"rnn", "gru", "lstm"} & set(names(program))
    (loop,) = [i for i in program.main if i.name == "loop"]
    assert "dot" in {i.name for i in loop.modules[0]}


@pytest.mark.parametrize(("steps", "clip"), [(4, 0), (5, 0), (4, 0.5)])
def test_few_steps_are_left_to_be_unrolled_if_they_can_be(steps: int, clip: float):
    sizes = noise(steps, 2, 3), noise(1, 12, 3), noise(1, 12, 3)
    program, _ = built("lstm", *sizes, hidden_size=3, clip=clip)
    recording = pass_named("loop_rnn").run(program)
    assert ("loop" in names(program)) == (steps > 4 or clip > 0)
    if not recording[0].edits:
        assert "4 steps, which are unrolled" in recording.near_misses()[0].reason


def test_lengths_that_are_not_integers_are_left_to_the_run():
    operands = noise(5, 2, 3), noise(1, 3, 3), noise(1, 3, 3), noise(1, 6), noise(1, 2, 3)
    program, _ = built("rnn", *operands, hidden_size=3)
    recording = pass_named("loop_rnn").run(program)
    assert "are not integers" in recording.near_misses()[0].reason


def test_a_loop_that_nobody_asks_for_all_states_of_stacks_none():
    program, _ = built("gru", noise(9, 2, 4), noise(1, 9, 4), noise(1, 9, 3), hidden_size=3)
    end = program.main.last
    assert end is not None
    network = end.inputs[0]
    program.main.set_inputs(end, [program.main.insert(end, "rnn_last_hs_output", network)])
    run_pass(pass_named("loop_rnn"), program)
    (loop,) = [i for i in program.main if i.name == "loop"]
    assert len(loop.shape.subs or ()) == 1


def test_a_network_that_nobody_asks_for_all_steps_of_keeps_only_the_last():
    program = Program()
    sizes = [(5, 2, 4), (1, 12, 4), (1, 12, 3)]
    operands = [
        program.main.add_parameter(n, Shape(lens=s)) for n, s in zip("xwr", sizes, strict=True)
    ]
    network = program.main.add("lstm", *operands, hidden_size=3)
    program.main.add_return(program.main.add("rnn_last_hs_output", network))
    run_pass(pass_named("rewrite_rnn"), program)
    assert "concat" not in names(program)
    assert names(program).count("unsqueeze") == 1


# Windows

LENGTHS = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@st.composite
def poolings(draw) -> tuple[Program, dict]:
    """Pooling with any attributes, over few elements."""
    lengths = draw(LENGTHS)
    rank = len(lengths)

    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    dilations, stride = some(1, 3), some(1, 3)
    padding = some(0, 2) + some(0, 2)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, lengths, strict=True)]
    lens = [s + draw(st.integers(0, 3)) for s in spans]
    x = noise(1, 2, *lens)
    x = np.where(x > 1.2, np.inf, np.where(x < -1.2, -np.inf, x))
    attributes = {
        "mode": draw(st.sampled_from(["average", "max", "lpnorm"])),
        "ceil_mode": draw(st.booleans()),
        "count_include_pad": draw(st.booleans()),
        "lp_order": draw(st.integers(1, 3)),
    }
    attributes["mode"] = PoolingMode(attributes["mode"])
    return built(
        "pooling",
        x,
        lengths=tuple(lengths),
        dilations=dilations,
        stride=stride,
        padding=padding,
        **attributes,
    )


@given(poolings(), st.sampled_from(["rewrite_pooling", "insert_pad"]))
def test_pooling_keeps_its_values(case, name: str):
    check(*case, name)


@given(poolings(), st.integers(0, 2), st.sampled_from([0.0, -np.inf]), st.booleans())
def test_a_pad_before_pooling_keeps_its_values(case, pad: int, value: float, positive: bool):
    program, inputs = case
    pooling = program.main.outputs[0]
    (x,) = pooling.inputs
    rank = x.shape.ndim - 2
    pads = (0, 0, *[pad] * rank, 0, 0, *[1] * rank)
    data = program.main.insert(pooling, "abs", x) if positive else x
    padded = program.main.insert(pooling, "pad", data, pads=pads, value=value)
    program.main.set_inputs(pooling, [padded])
    check(program, inputs, "eliminate_pad")


def test_padding_can_be_taken_out_of_what_has_padding():
    program, _ = built("neg", noise(2, 3))
    with pytest.raises(OperationError, match="ops has 'relu'; expected some of convolution"):
        run_pass(pass_named("insert_pad", ops=("convolution", "relu")), program)


# Places


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.floats(0.3, 2.6), min_size=3, max_size=3),
    st.sampled_from(["nearest", "linear"]),
    st.sampled_from(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]),
    st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    st.booleans(),
)
def test_resizing_keeps_its_values(lens, scales, mode, coordinates, nearest, by_sizes):
    sizes = tuple(max(1, int(n * s)) for n, s in zip(lens, scales, strict=False))
    large = tuple(max(s, 1 / n) for n, s in zip(lens, scales, strict=False))
    target = {"sizes": sizes} if by_sizes else {"scales": large}
    modes = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    program, inputs = built("resize", noise(*lens), mode=mode, **modes, **target)
    check(program, inputs, "rewrite_resize")
    assert "resize" not in names(program)


def test_a_way_to_place_elements_that_nobody_knows_is_left_for_the_run():
    program, _ = built("resize", noise(2, 4), scales=(2.0, 2.0))
    with Recording(program) as recording:
        run_pass(pass_named("rewrite_resize"), program)
    (miss,) = recording.near_misses()
    assert "coordinate_transformation_mode ''; expected one of half_pixel" in miss.reason


@given(st.integers(8, 60), st.integers(0, 1), st.integers(1, 6), st.booleans(), st.booleans())
def test_the_largest_of_parts_are_the_largest(n: int, axis: int, k: int, largest: bool, ties: bool):
    lens = (n, 2) if axis == 0 else (2, n)
    x = noise(*lens).round(0 if ties else 6)
    x.flat[n // 2] = np.nan
    program, inputs = Program(), {"x": x}
    made = program.main.add(
        "topk",
        program.main.add_parameter("x", Shape(x.dtype, x.shape)),
        k=k,
        axis=axis,
        largest=largest,
    )
    parts = [program.main.add("get_tuple_elem", made, index=i) for i in (0, 1)]
    program.main.add_return(*parts)
    before, after = before_and_after(program, inputs, "rewrite_topk", split_threshold=8)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


# Numbers


def variance(x: np.ndarray) -> tuple[Program, dict]:
    program = Program()
    value = program.main.add_parameter("x", Shape(x.dtype, x.shape))
    mean = program.main.add("reduce_mean", value, axes=(1,))
    spread = program.main.add("multibroadcast", mean, out_lens=x.shape)
    distance = program.main.add("sqdiff", value, spread)
    program.main.add_return(program.main.add("reduce_mean", distance, axes=(1,)))
    return program, {"x": x}


def test_a_variance_keeps_its_two_passes_which_lose_nothing():
    x = noise(8, 4096, type=np.float32) + np.float32(1000)
    exact = x.astype(np.float64).var(1, keepdims=True)
    _, (ours,) = before_and_after(*variance(x), "rewrite_reduce")
    one_pass = (x * x).mean(1, keepdims=True) - x.mean(1, keepdims=True) ** 2
    errors = [float(np.max(np.abs(v - exact) / exact)) for v in (ours, one_pass)]
    assert errors[0] < 1e-6
    assert errors[1] > 1e4 * errors[0]


@pytest.mark.parametrize(("type", "below"), [(np.float32, 150), (np.float16, 30)])
def test_a_logarithm_of_softmax_stays_finite(type: type, below: float):
    x = np.array([[0, -below, -1]], type)
    program, inputs = built("logsoftmax", x, axis=1)
    before, after = before_and_after(program, inputs, "rewrite_reduce")
    assert np.isfinite(after[0]).all()
    np.testing.assert_allclose(after[0], before[0], rtol=2e-3)
    with np.errstate(divide="ignore"):
        powers = np.exp(x.astype(np.float32))
        assert np.isneginf(np.log((powers / powers.sum()).astype(type))).any()


def test_squares_of_half_are_divided_before_they_overflow():
    x = np.array([300, 500, -1000, 7], np.float16)
    program = Program()
    value = program.main.add_parameter("x", Shape(x.dtype, x.shape))
    nine = program.main.add(
        "multibroadcast", program.main.add_literal(np.float16(64)), out_lens=(4,)
    )
    square = program.main.add("mul", value, value)
    program.main.add_return(program.main.add("div", square, nine))
    (before,), (after,) = before_and_after(program, {"x": x}, "rewrite_low_precision")
    assert np.isinf(before[:3]).all()
    np.testing.assert_allclose(after, x.astype(np.float32) ** 2 / 64, rtol=2e-3)


def test_a_branch_that_is_inlined_keeps_the_ids_of_its_work():
    program = Program()
    x = program.main.add_parameter("x", Shape(lens=(2,)))
    condition = program.main.add_literal(np.array([True]))
    then, other = (program.create_module(n) for n in ("then", "else"))
    kept = then.add("exp", x)
    then.add_return(kept)
    other.add_return(x)
    made = program.main.add("if", condition, modules=(then, other))
    program.main.add_return(program.main.add("get_tuple_elem", made, index=0))
    with Recording(program) as recording:
        run_pass(pass_named("inline_module"), program)
    assert program.find(kept.id) is kept
    assert kept.module is program.main
    assert [e.rule for s in recording.steps for e in s.edits] == ["find_known_branch"]
