"""Training steps: optimizers against their formulas in NumPy, weights that stay, and what is refused."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import DifferentiationError, InputError, OperationError
from workbench.compiler.training.histograms import histogram_of
from workbench.compiler.training.optimizers import Optimizer

STEPS = 6


def line() -> wb.Program:
    """The mean square of x·w + b - t: a model whose gradients are known."""
    b = wb.Builder("line")
    x, t = b.input("x", (8, 3)), b.input("t", (8, 2))
    w, bias = b.input("w", (3, 2)), b.input("b", (2,))
    error = x @ w + bias - t
    return b.program((error * error).mean())


def drawn(seed: int = 0) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    random = np.random.default_rng(seed)
    weights = {"w": random.standard_normal((3, 2)), "b": random.standard_normal(2)}
    batches = [
        {"x": random.standard_normal((8, 3)), "t": random.standard_normal((8, 2))}
        for _ in range(STEPS)
    ]
    return _floats(weights), [_floats(b) for b in batches]


def _floats(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: a.astype(np.float32) for n, a in arrays.items()}


def gradients(w: dict[str, np.ndarray], batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    error = batch["x"] @ w["w"] + w["b"] - batch["t"]
    slope = 2 * error / error.size
    return {"w": batch["x"].T @ slope, "b": slope.sum(0)}


def sgd(w, g, kept, _, o):
    kept["v"] = o.momentum * kept.get("v", 0) + g + o.weight_decay * w
    return w - o.learning_rate * kept["v"]


def direction(w, g, kept, step, o):
    kept["m"] = o.beta1 * kept.get("m", 0) + (1 - o.beta1) * g
    kept["s"] = o.beta2 * kept.get("s", 0) + (1 - o.beta2) * g * g
    mean, square = kept["m"] / (1 - o.beta1**step), kept["s"] / (1 - o.beta2**step)
    return mean / (np.sqrt(square) + o.epsilon) + o.weight_decay * w


def adam(w, g, kept, step, o):
    return w - o.learning_rate * direction(w, g, kept, step, o)


def lamb(w, g, kept, step, o):
    d = direction(w, g, kept, step, o)
    sizes = np.linalg.norm(w), np.linalg.norm(d)
    return w - o.learning_rate * (sizes[0] / sizes[1] if all(sizes) else 1) * d


CASES = [
    (wb.SGD(0.1), sgd),
    (wb.SGD(0.05, momentum=0.9, weight_decay=0.01), sgd),
    (wb.Adam(0.02), adam),
    (wb.Adam(0.02, beta1=0.5, beta2=0.9, weight_decay=0.1), adam),
    (wb.Lamb(0.02, weight_decay=0.01), lamb),
]


@pytest.mark.parametrize(("optimizer", "formula"), CASES, ids=[str(o) for o, _ in CASES])
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_an_optimizer_follows_its_formula(optimizer: Optimizer, formula, target: str):
    weights, batches = drawn()
    step = wb.training_step(line(), optimizer, weights)
    run = wb.compile(step, target=target).stateful()
    expected = {n: a.astype(np.float64) for n, a in weights.items()}
    kept: dict[str, dict[str, np.ndarray]] = {n: {} for n in weights}
    for k, batch in enumerate(batches, 1):
        run.run(batch)
        slopes = gradients(expected, batch)
        expected = {n: formula(expected[n], slopes[n], kept[n], k, optimizer) for n in expected}
    for name, value in expected.items():
        np.testing.assert_allclose(run[name], value, rtol=2e-5, atol=1e-6)


def test_weights_stay_on_a_device():
    weights, batches = drawn()
    step = wb.training_step(line(), wb.SGD(0.1, momentum=0.5), weights, norms=True, histograms=True)
    there, here = (wb.compile(step, target=t).stateful() for t in ("gpu", "cpu"))
    for batch in batches:
        found, expected = there.run(batch), here.run(batch)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5)
    for name in here:
        np.testing.assert_allclose(there[name], here[name], rtol=1e-5, atol=1e-6)
    there["b"] = np.zeros(2, np.float32)
    np.testing.assert_array_equal(there["b"], np.zeros(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_histograms_count_magnitudes_by_powers_of_two(dtype: type):
    """Zero and what is tiny is in the first bin; infinities, NaN and what is huge in the last."""
    values = np.array([0, 1, -1, 1.9995, 2, -0.375, np.nan, -np.inf, 2.0**-24, 6e4], dtype)
    wide = {} if dtype is np.float16 else {-40: [1e-30, 2.0**-40], 23: [2.0**24, -1e30]}
    given = np.append(values, [x for bin in wide.values() for x in bin]).astype(dtype)
    b = wb.Builder()
    counts = histogram_of(b.input("x", wb.Shape(b.constant(given).dtype, (2, len(given) // 2))))
    (found,) = wb.compile(b.program(counts)).run({"x": given.reshape(2, -1)}).values()
    expected = {-40: 1, 0: 3, 1: 1, -2: 1, 23: 2, -24: 1, 15: 1}
    for exponent, more in wide.items():
        expected[exponent] += len(more)
    assert {int(k) - 40: int(n) for k, n in enumerate(found) if n} == expected


def test_histograms_of_gradients_are_drawn_over_the_steps():
    weights, batches = drawn()
    step = wb.training_step(line(), wb.SGD(0.1), weights, histograms=True)
    run = wb.compile(step, target="cpu").stateful()
    with pytest.raises(
        InputError, match=r"there are none yet\. wb\.training_step.*histograms=True"
    ):
        run.plot_histograms("w")
    assert list(run.train(batches).columns) == ["output0"]
    assert run.histograms["w"].shape == (STEPS, 64)
    assert (run.histograms["w"].sum(axis=1) == weights["w"].size).all()
    axes = run.plot_histograms("b")
    assert axes.get_title() == "gradient of b"
    assert axes.get_xlim() == (-0.5, STEPS - 0.5)
    with pytest.raises(InputError, match=r"gradient of 'c'; there are w, b"):
        run.plot_histograms("c")


def test_constants_of_a_model_become_weights():
    b = wb.Builder()
    x = b.input("x", (4, 3))
    w = np.full((3, 1), 0.5, np.float32)
    program = b.program(((x @ w).tanh() ** 2.0).mean())
    step = wb.training_step(program, wb.SGD(0.1), norms=True)
    assert list(step.initial) == ["weight0"]
    assert step.output_names == ("output0", "norm_weight0", "next_weight0")
    run = wb.compile(step, target="cpu").stateful()
    history = run.train([{"x": np.ones((4, 3), np.float32)}] * 20)
    assert list(history.columns) == ["output0", "norm_weight0"]
    assert history["output0"].is_monotonic_decreasing
    assert len(history) == 20
    assert run.plot("output0").get_yscale() == "log"
    assert program.parameters.keys() == {"x"}, "the program is not changed"


def test_each_step_is_recorded():
    step = wb.training_step(line(), wb.SGD(0.1), drawn()[0])
    laws = [edit.law for s in step.recording.steps for edit in s.edits]
    assert any("∂L/∂xᵢ" in law for law in laws)
    assert sum("optimizer" in law for law in laws) == 2


@pytest.mark.parametrize(
    ("weights", "loss", "message"),
    [
        ({"y": np.zeros(2)}, 0, "'y'.*parameters"),
        ({"w": np.zeros((2, 2))}, 0, r"'w': .* \[2, 2\]; expected float_type, \{3, 2\}"),
        (["w"], 0, "no floating-point constant"),
        (None, 0, "depends on no floating-point constant"),
        (None, 3, "loss=3; the program has 1 outputs"),
        (None, "l", "loss 'l'"),
    ],
)
def test_what_does_not_fit_is_refused(weights, loss, message):
    with pytest.raises(DifferentiationError, match=message):
        wb.training_step(line(), wb.SGD(), weights, loss=loss)


def test_a_loss_has_one_element():
    b = wb.Builder()
    program = b.program(b.input("x", (2, 3)) * np.ones((2, 3), np.float32))
    with pytest.raises(DifferentiationError, match="expected one element"):
        wb.training_step(program, wb.SGD())


def test_values_that_do_not_fit_are_refused():
    weights, batches = drawn()
    build = wb.compile(wb.training_step(line(), wb.SGD(), weights), target="ref")
    run = build.stateful()
    with pytest.raises(InputError, match="'w' is kept between runs"):
        run.run({**batches[0], "w": weights["w"]})
    with pytest.raises(InputError, match="found float64"):
        run["w"] = np.zeros((3, 2))
    with pytest.raises(InputError, match="'x' is not kept"):
        run["x"] = np.zeros((8, 3), np.float32)
    with pytest.raises(InputError, match="'b' has no first value"):
        build.stateful({"w": weights["w"]})
    with pytest.raises(InputError, match="replaces no parameter"):
        wb.compile(line(), target="ref").stateful({})
    with pytest.raises(InputError, match="nothing has run"):
        run.plot()
    before = {n: run[n] for n in run}
    with pytest.raises(InputError):
        run.run({"x": batches[0]["x"]})
    for name, value in before.items():
        np.testing.assert_array_equal(run[name], value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: wb.SGD(0.0), lambda: wb.SGD(momentum=1.0), lambda: wb.Adam(beta1=1.0),
        lambda: wb.Adam(epsilon=0.0), lambda: wb.Lamb(learning_rate=-1.0),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(make):
    with pytest.raises(OperationError, match="expected a"):
        make()


def test_a_loss_is_appended_to_a_program():
    b = wb.Builder("model")
    x = b.input("x", (4, 3))
    model = b.program(x @ np.full((3, 2), 0.5, np.float32), x.sum())
    loss = wb.extend(model, lambda y, _, t: ((y - t) ** 2.0).mean(), t=(4, 2))
    assert list(loss.parameters) == ["x", "t"]
    assert list(model.parameters) == ["x"]
    given = {"x": np.ones((4, 3), np.float32), "t": np.zeros((4, 2), np.float32)}
    assert wb.compile(loss, target="ref").run(given)[0] == pytest.approx(2.25)
    gradients = wb.training_step(loss, None)
    assert gradients.output_names == ("output0", "grad_weight0")
    assert not gradients.updates
    with pytest.raises(OperationError, match="extend: expected the function to return values"):
        wb.extend(model, lambda *_: 3)
