"""Memory of a run: what is used again, what must not be, and work shared by threads."""

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings

from tests.compiler.programs import inputs_for, programs
from workbench.compiler.arrays import memory, parallel
from workbench.compiler.builds.build import compile
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops import elementwise, special
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.knobs import knobs

FLOAT = np.dtype(np.float32)
BIG = (64, 1024)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch):
    """Arrays of a few elements are placed, cut into parts of two and shared by three threads."""
    monkeypatch.setattr(memory, "LARGE", 1)
    monkeypatch.setattr(elementwise, "LARGE", 1)
    monkeypatch.setattr(elementwise, "_PART", 2)
    monkeypatch.setattr(elementwise, "BLOCK", 2)
    monkeypatch.setattr(parallel, "WAKING", 0)
    with knobs.scope(threads=3):
        yield


def chain() -> Program:
    """relu(x · 2 + x), negated, and a constant made of a literal; large enough to be placed."""
    program = Program("chain")
    main = program.main
    x = main.add_parameter("x", Shape("float", BIG))
    two = main.add("multibroadcast", main.add_literal(np.float32([2.0])), out_lens=BIG)
    double = main.add("mul", x, main.add("exp", two))
    main.add_return(main.add("neg", main.add("relu", main.add("add", double, x))))
    return program


def big(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(BIG, np.float32)


# Buffers


def test_a_buffer_is_free_when_the_last_view_of_it_is_gone():
    buffers = memory.Buffers()
    value = buffers.empty(BIG, FLOAT)
    view = value.T[1:]
    del value
    other = buffers.empty(BIG, FLOAT)
    assert (buffers.made, buffers.reused) == (2, 0)
    assert not np.shares_memory(view, other)
    del view
    again = buffers.empty((8, 4096), FLOAT)
    assert (buffers.made, buffers.reused) == (2, 1)
    assert not np.shares_memory(again, other)


def test_a_larger_value_takes_the_place_of_a_free_buffer():
    buffers = memory.Buffers()
    buffers.empty(BIG, FLOAT)
    buffers.empty((2, *BIG), FLOAT)
    assert buffers.bytes == 2 * 64 * 1024 * 4


def test_a_view_that_broadcasts_is_no_spare():
    buffers = memory.Buffers()
    values = [buffers.empty(BIG, FLOAT)]
    values[0] = np.broadcast_to(values[0], BIG)  # to the lens that it has: read-only all the same
    assert buffers.spare(values, (0,)) is None


def test_a_value_that_anything_else_refers_to_is_no_spare():
    buffers = memory.Buffers()
    values = [buffers.empty(BIG, FLOAT), np.zeros(BIG, FLOAT), np.broadcast_to(FLOAT.type(1), BIG)]
    assert buffers.spare(values, (0,)) is not None
    assert buffers.spare(values, (1, 2)) is None
    view = values[0][:1]
    assert buffers.spare(values, (0,)) is None
    del view
    held = values[0]
    assert buffers.spare(values, (0,)) is None
    del held
    values.append(values[0])
    assert buffers.spare(values, (0, 3)) is None


# Runs


def test_a_second_run_makes_only_what_its_caller_keeps():
    interpreter = PlannedInterpreter(chain())
    kept = [interpreter.run({"x": big()})]
    (buffers,) = interpreter.idle
    made, offered = buffers.made, buffers.offered
    assert made == 1, "mul is placed, and all that follows is written over it"
    assert offered == 3
    kept.append(interpreter.run({"x": big()}))
    assert buffers.made == made + 1
    del kept[:]
    assert buffers.bytes == 0


def test_inputs_and_earlier_results_stay_as_they_were():
    interpreter, x = PlannedInterpreter(chain()), big()
    first = interpreter.run({"x": x})[0]
    before = first.copy()
    interpreter.run({"x": big(1)})
    assert np.array_equal(x, big())
    assert np.array_equal(first, before)


def test_what_a_hook_keeps_is_never_written_over():
    values: list[tuple[np.ndarray, np.ndarray]] = []

    def keep(_: object, value: np.ndarray, inputs: list[np.ndarray]) -> None:
        values.extend((v, v.copy()) for v in (value, *inputs))

    PlannedInterpreter(chain()).run({"x": big()}, hook=keep)
    assert len(values) > 10
    assert all(np.array_equal(value, then) for value, then in values)


def test_constants_are_computed_once(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []
    exponential = type(make("exp"))
    monkeypatch.setattr(exponential, "compute", lambda _, x: calls.append(1) or np.exp(x))
    interpreter = PlannedInterpreter(chain())
    results = [interpreter.run({"x": big()})[0] for _ in range(3)]
    assert len(calls) == 1
    assert all(np.array_equal(r, results[0]) for r in results)


@pytest.mark.parametrize("target", ["ref", "cpu", "auto"])
def test_results_have_memory_of_their_own(target: str):
    """Writing to a result changes no input, no literal, no other result and no later run."""
    program = Program("shared")
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 3)))
    one = main.add_literal(np.ones((2, 3), np.float32))
    for value in (x, one, main.add("exp", one), main.add("neg", x)):
        main.add("multibroadcast", value, out_lens=(2, 2, 3))
        main.add("transpose", value, permutation=(1, 0))
        main.add("slice", value, axes=(0,), starts=(1,), ends=(2,))
    main.add_return(*main, x, one)
    build = compile(program, target)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    before = [r.copy() for r in build.run({"x": array}).outputs]
    results = build.run({"x": array}).outputs
    for number, result in enumerate(results):
        result[...] = number + 7
    np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))
    assert all((r == number + 7).all() for number, r in enumerate(results))
    for again, wanted in zip(build.run({"x": array}).outputs, before, strict=True):
        np.testing.assert_array_equal(again, wanted)


@pytest.mark.usefixtures("everything_is_large")
@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_reuse_and_threads_change_no_bit(program: Program):
    plain, interpreter, inputs = (
        PlannedInterpreter(program),
        PlannedInterpreter(program),
        inputs_for(program),
    )
    given_inputs = {name: x.copy() for name, x in inputs.items()}
    with knobs.scope(threads=1):
        expected = plain.run(inputs, hook=lambda *_: None)  # a hook forbids to write over values
    first = interpreter.run(inputs)
    then = [x.copy() for x in first]
    second = interpreter.run(inputs)
    for found in (first, then, second):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))
    assert all(np.array_equal(inputs[n], x, equal_nan=True) for n, x in given_inputs.items())


def test_threads_may_run_one_interpreter():
    interpreter, inputs = PlannedInterpreter(chain()), [big(i) for i in range(4)]
    expected = [PlannedInterpreter(chain()).run({"x": x})[0] for x in inputs]
    found: dict[int, np.ndarray] = {}

    def work(i: int) -> None:
        for _ in range(20):
            found[i] = interpreter.run({"x": inputs[i]})[0]

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(np.array_equal(found[i], expected[i]) for i in range(4))


# Threads


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_part_is_done_once(threads: int):
    done: list[int] = []
    with knobs.scope(threads=threads):
        parallel.spread(done.append, 7, parallel.WAKING)
    assert sorted(done) == list(range(7))


def test_parts_may_be_spread_within_parts_and_fail():
    def outer(i: int) -> None:
        parallel.spread(lambda k: inner.append((i, k)), 3, parallel.WAKING)
        if i == 3:
            raise ArithmeticError("part 3")

    inner: list[tuple[int, int]] = []
    with knobs.scope(threads=2), pytest.raises(ArithmeticError, match="part 3"):
        parallel.spread(outer, 4, parallel.WAKING)
    assert len(inner) == 12


@pytest.mark.parametrize("name", ["softmax", "pooling", "convolution", "prelu", "erf"])
def test_results_do_not_depend_on_the_number_of_threads(name: str):
    x, w = np.random.default_rng(0).standard_normal((2, 24, 96, 96), np.float32), big()[:24, :25]
    depthwise = {"group": 24, "padding": (2, 2), "stride": (2, 1)}
    three = {"mode": "max", "lengths": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    op, operands = {
        "softmax": (make("softmax", axis=1), [x]),
        "pooling": (make("pooling", **three), [x]),
        "convolution": (make("convolution", **depthwise), [x, w.reshape(24, 1, 5, 5)]),
        "prelu": (make("prelu"), [x, np.broadcast_to(w[:, :1, None], x.shape)]),
        "erf": (make("erf"), [x.transpose(0, 2, 3, 1)]),
    }[name]
    found: list[np.ndarray] = []
    for threads in (1, 2, 5):
        with knobs.scope(threads=threads):
            found.append(op.compute(*operands))
    assert all(f.tobytes() == found[0].tobytes() for f in found)


# Operations


@pytest.mark.parametrize(
    ("size", "stride", "made"), [(1, 1, 1), (1, 2, 2), (3, 1, 3)], ids=["1x1", "1x1 by 2", "3x3"]
)
def test_a_convolution_copies_no_more_than_it_must(size: int, stride: int, made: int):
    buffers, around = memory.Buffers(), size // 2
    op = make("convolution", padding=(around, around), stride=(stride, stride))
    x, w = np.ones((1, 32, 64, 64), np.float32), np.ones((64, 32, size, size), np.float32)
    with memory.using(buffers):
        op.compute(x, w)
    assert buffers.made == made, "the result; steps or padding; columns"


DEPTHWISE = [
    ((2, 5, 9, 8), (5, 1, 3, 3), {"padding": (1, 1), "group": 5}),
    ((1, 4, 9, 8), (12, 1, 3, 2), {"stride": (2, 3), "dilation": (2, 1), "group": 4}),
    ((1, 3, 11), (3, 1, 4), {"padding": (2,), "stride": (2,), "dilation": (1,), "group": 3}),
    ((2, 40, 60, 60), (40, 1, 5, 5), {"padding": (0, 1, 4, 3), "stride": (1, 2), "group": 40}),
]


@pytest.mark.parametrize(("lens", "taps", "attributes"), DEPTHWISE)
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_depthwise_convolution_is_one_for_each_channel(lens, taps, attributes, channels_last):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s, np.float32) for s in (lens, taps))
    if channels_last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    found = make("convolution", **attributes).compute(x, w)
    each = make("convolution", **{**attributes, "group": 1})
    times = taps[0] // lens[1]
    for k in range(taps[0]):
        one = x[:, k // times][:, None]
        expected = each.compute(one, w[k][None])
        np.testing.assert_allclose(found[:, k], expected[:, 0], rtol=1e-5, atol=1e-5)


def test_erf_is_good_to_two_units_in_the_last_place():
    x = np.concatenate([np.linspace(-5, 5, 40001), 10.0 ** np.linspace(-30, 30, 601)])
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        found = special.erf(x)
    exact = np.array([math.erf(v) for v in x.tolist()])
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    assert np.max(np.abs(found - exact) / unit) < 2.5
    edges = special.erf(np.float32([np.inf, -np.inf, np.nan, -0.0]))
    assert edges.tobytes() == np.float32([1, -1, np.nan, -0.0]).tobytes()
