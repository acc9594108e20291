"""Every operation against its formula in NumPy, with the type that it is recorded under."""

# ruff: noqa: ARG005 - formulas take all operands

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.compat.popart.programs import results, types
from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops

RANDOM = np.random.default_rng(7)
A, B = (RANDOM.normal(size=(2, 3)).astype(np.float32) for _ in range(2))
POSITIVE = np.abs(A) + 0.5
WHOLE = np.array([[-7, 7, 3], [2, -2, 9]], np.int32)
OTHER = np.array([[2, -2, 3], [5, 3, -4]], np.int32)
BOOLS = np.array([[True, False, True], [False, False, True]])
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ROWS = np.array([[2, 0], [1, 1]], np.int32)
up = ops.var_updates
co = ops.collectives


class Case(NamedTuple):
    """An operation of some inputs, its type, and its formula."""

    op_type: str
    build: Callable[..., Any]
    formula: Callable[..., Any]
    inputs: tuple[Any, ...]


def softmax(x: Any) -> Any:
    """Along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x: Any) -> Any:
    """By the hyperbolic tangent."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def normalised(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    """A group norm."""
    flat = x.reshape(x.shape[0], groups, -1)
    mean, var = flat.mean(-1, keepdims=True), flat.var(-1, keepdims=True)
    lens = (1, -1, *(1 for _ in x.shape[2:]))
    scaled = ((flat - mean) / np.sqrt(var + eps)).reshape(x.shape)
    return scaled * weight.reshape(lens) + bias.reshape(lens)


def put(x: Any, where: Any, value: Any) -> Any:
    """A copy with a part replaced."""
    x = x.copy()
    x[where] = value
    return x


C3, C4 = RANDOM.normal(size=(2, 3)).astype(np.float32)
ELEMENTWISE = [
    Case("Add", ops.add, np.add, (A, B)),
    Case("Add", ops.add, np.add, (A, B[0])),
    Case("AddLhsInplace", ops.add_, np.add, (A, B[0])),
    Case("Sub", ops.sub, np.subtract, (A, B)),
    Case("Mul", ops.mul, np.multiply, (A, B)),
    Case("Div", ops.div, np.divide, (A, B)),
    Case("Div", ops.div, np.floor_divide, (WHOLE, OTHER)),
    Case("Fmod", ops.fmod, np.fmod, (A, B)),
    Case("Fmod", ops.fmod, np.fmod, (WHOLE, OTHER)),
    Case("Equal", ops.equal, np.equal, (WHOLE, np.abs(WHOLE))),
    Case("And", ops.logical_and, np.logical_and, (BOOLS, ~BOOLS[::-1])),
    Case("And", ops.logical_and, np.logical_and, (WHOLE, BOOLS)),
    Case("Or", ops.logical_or, np.logical_or, (BOOLS, BOOLS[::-1])),
    Case("Not", ops.logical_not, np.logical_not, (BOOLS,)),
    Case("Not", ops.logical_not, np.logical_not, (A * BOOLS,)),
    Case("Neg", ops.negate, np.negative, (A,)),
    Case("Where", ops.where, np.where, (BOOLS, A, B)),
    Case("Where", ops.where, np.where, (WHOLE * BOOLS, A, B)),
    Case("Relu", ops.relu, lambda x: np.maximum(x, 0), (A,)),
    Case("ReluInplace", ops.relu_, lambda x: np.maximum(x, 0), (A,)),
    Case("Gelu", ops.gelu, gelu, (A,)),
    Case("GeluInplace", ops.gelu_, gelu, (A,)),
    Case("Softmax", lambda x: ops.softmax(x, 1), softmax, (A,)),
    Case("Softmax", lambda x: ops.softmax(x, -2), lambda x: softmax(x.T).T, (A,)),
    Case("Cast", lambda x: ops.cast(x, pir.int32), lambda x: x.astype(np.int32), (A * 3,)),
    Case("Cast", lambda x: ops.cast(x, pir.bool), lambda x: x != 0, (WHOLE * BOOLS,)),
    Case("Detach", ops.detach, lambda x: x, (A,)),
    Case("DetachInplace", ops.detach_, lambda x: x, (A,)),
    Case("ScaledAdd", lambda x, y: ops.scaled_add(x, y, 0.5, -2.0), lambda x, y: x / 2 - 2 * y, (A, B)),
    Case("ScaledAdd", lambda x, y, a: ops.scaled_add(x, y, a=a), lambda x, y, a: a * x + y, (A, B, C3[0])),
    Case("ScaledAddLhsInplace", lambda x, y: ops.scaled_add_(x, y, b=3), lambda x, y: x + 3 * y, (A, B)),
    Case("IncrementMod", lambda x: ops.increment_mod(x, 3, 5), lambda x: (x + 3) % 5, (np.abs(WHOLE),)),
    Case("IncrementModInplace", lambda x: ops.increment_mod_(x, 0.5, 1.5), lambda x: (x + 0.5) % 1.5,
         (POSITIVE,)),
]  # fmt: skip
REDUCED = {
    "l1": ("ReduceL1", lambda x, **k: np.abs(x).sum(**k)),
    "l2": ("ReduceL2", lambda x, **k: np.sqrt((x * x).sum(**k))),
    "logsum": ("ReduceLogSum", lambda x, **k: np.log(x.sum(**k))),
    "logsumexp": ("ReduceLogSumExp", lambda x, **k: np.log(np.exp(x).sum(**k))),
    "max": ("ReduceMax", np.max),
    "mean": ("ReduceMean", np.mean),
    "min": ("ReduceMin", np.min),
    "prod": ("ReduceProd", np.prod),
    "sum": ("ReduceSum", np.sum),
    "sumsquare": ("ReduceSumSquare", lambda x, **k: (x * x).sum(**k)),
}
REDUCTIONS = [
    Case(op_type, lambda x, n=name, k=k: getattr(ops, n)(x, **k), lambda x, f=formula, k=k: f(x, **k), (x,))
    for name, (op_type, formula) in REDUCED.items()
    for x, k in ((POSITIVE, {"axis": None}), (CUBE / 9 + 1, {"axis": (0, 2), "keepdims": True}))
] + [
    Case("ReduceMedian", ops.median, lambda x: np.sort(x.reshape(-1))[2], (A,)),
    Case("ReduceMedian", lambda x: ops.median(x, -1), lambda x: np.sort(x)[..., 1], (CUBE[:, :, ::-1],)),
    Case("ReduceMedian", lambda x: ops.median(x, (2, 0), True),
         lambda x: np.median(x[..., :3][:1], (0, 2), keepdims=True), (CUBE[:1, :, :3],)),
    Case("ReduceSum", lambda x: ops.sum(x, 0), lambda x: x.sum(0), (WHOLE,)),
    Case("ReduceMean", ops.mean, lambda x: x, (np.float32(3),)),
    Case("LambSquare", ops.lamb_square, lambda x: (x.astype(np.float32) ** 2).sum(), (A.astype(np.float16),)),
]  # fmt: skip
SHAPES = [
    Case("MatMul", ops.matmul, np.matmul, (A, B.T.copy())),
    Case("MatMul", ops.matmul, np.matmul, (CUBE, CUBE.transpose(0, 2, 1).copy())),
    Case("MatMul", lambda a, b: ops.matmul(a, b, output_type=pir.float16),
         lambda a, b: (a @ b).astype(np.float16), (A, B[0])),
    Case("Reshape", lambda x: ops.reshape(x, (4, -1)), lambda x: x.reshape(4, 6), (CUBE,)),
    Case("Reshape", lambda x: ops.reshape(x, ()), lambda x: x.reshape(()), (A[:1, :1],)),
    Case("ReshapeInplace", lambda x: ops.reshape_(x, (3, 8)), lambda x: x.reshape(3, 8), (CUBE,)),
    Case("Reshape", ops.flatten, np.ravel, (CUBE,)),
    Case("ReshapeInplace", ops.flatten_, np.ravel, (CUBE,)),
    Case("Reshape", ops.squeeze, np.squeeze, (CUBE[:1, :, :1],)),
    Case("Reshape", lambda x: ops.squeeze(x, [-1]), lambda x: x[..., 0], (CUBE[:1, :, :1],)),
    Case("Transpose", ops.transpose, np.transpose, (CUBE,)),
    Case("Transpose", lambda x: ops.transpose(x, (1, -1, 0)), lambda x: x.transpose(1, 2, 0), (CUBE,)),
    Case("TransposeInplace", ops.transpose_, np.transpose, (CUBE,)),
    Case("Concat", lambda x, y: ops.concat([x, y], -1), lambda x, y: np.concatenate([x, y], -1), (A, B)),
    Case("ConcatInplace", lambda x, y: ops.concat_([x, y]), lambda x, y: np.concatenate([x, y]), (A, B)),
    Case("Split", lambda x: ops.split(x, 2, 1), lambda x: np.split(x, 2, 1), (CUBE.transpose(0, 2, 1),)),
    Case("Split", lambda x: ops.split(x, [1, 3], 2), lambda x: np.split(x, [1], 2), (CUBE,)),
    Case("Slice", lambda x: ops.slice(x, 1), lambda x: x[1:], (CUBE,)),
    Case("Slice", lambda x: ops.slice(x, stop=[1, 2]), lambda x: x[:1, :2], (CUBE,)),
    Case("Slice", lambda x: ops.slice(x, [1, 3], [2, 1], [1, -1], [1, 2]), lambda x: x[:, 1:2, 3:1:-1],
         (CUBE,)),
    Case("SliceInplace", lambda x: ops.slice_(x, -2, step=-1, axis=2), lambda x: x[..., -2::-1], (CUBE,)),
    Case("DynamicSlice", lambda x, i: ops.dynamic_slice(x, i, [2, 0], [2, 1], True),
         lambda x, i: x[1:2, :, 2:4], (CUBE, np.array([2, 1], np.int32))),
    Case("DynamicUpdate", lambda x, i, u: ops.dynamic_update(x, i, u, [2, 1], [2, 1], True),
         lambda x, i, u: put(x, np.s_[:, 2:3, 1:3], u),
         (CUBE, np.array([1, 2], np.uint32), np.full((2, 1, 2), -1, np.float32))),
    Case("DynamicUpdateInplace", lambda x, i, u: ops.dynamic_update_(x, i, u, [0], [1], True),
         lambda x, i, u: put(x, np.s_[1:2], u), (A, np.array([1], np.int32), B[:1])),
    Case("Gather", lambda x, i: ops.gather(x, i, 1), lambda x, i: np.take(x, i, 1), (CUBE, ROWS)),
    Case("Gather", lambda x, i: ops.gather(x, i, 1, zero_OOR=True),
         lambda x, i: put(np.take(x, [[2, 0], [1, 1]], 1), np.s_[:, 0, 0], 0),
         (CUBE, np.array([[3, 0], [1, 1]], np.int32))),
    Case("Gather", ops.gather, lambda x, i: x[[1, 1, 0]], (CUBE, np.int32([9, -1, -9]))),
    Case("PopartTiedGather", ops.tied_gather, lambda x, i: x[i], (CUBE, ROWS % 2)),
    Case("Scatter", lambda x, i, v: ops.scatter(x, i, v, 1), lambda x, i, v: put(x, ([0, 0], [2, 0]), v[0]),
         (A, np.array([[2, 0]], np.int32), B[:1, :2])),
    Case("GroupNormalization", lambda *x: ops.group_norm(*x, num_groups=2, eps=1e-3),
         lambda *x: normalised(*x, 2, 1e-3), (RANDOM.normal(size=(3, 4, 5)).astype(np.float32),
         C3.repeat(2)[:4], C4.repeat(2)[:4])),
    Case("GroupNormalization", ops.layer_norm, lambda *x: normalised(*x, 1, 1e-5), (A, C3, C4)),
    Case("IpuCopy", lambda x: ops.ipu_copy(x, 0), lambda x: x, (A,)),
    Case("IoTileCopy", ops.io_tile_copy, lambda x: x, (A,)),
    Case("AllReduce", lambda x, y: co.all_reduce([x, y]), lambda x, y: [x + y, x + y], (A, B)),
    Case("AllReduce", lambda x, y: co.all_reduce([x, y], [0, 0], "mul"), lambda x, y: [x * y, x * y], (A, B)),
    Case("AllReduce", lambda x: co.all_reduce_identical_inputs([x, x]), lambda x: [x, x], (A,)),
    Case("AllReduce", lambda x: co.all_reduce_identical_grad_inputs([x, x]), lambda x: [2 * x] * 2, (A,)),
]  # fmt: skip
UPDATES = [
    Case("Accumulate", up.accumulate_, lambda t, x: t + x, (A, B)),
    Case("Accumulate", lambda t, x: up.accumulate_(t, x, 0.25), lambda t, x: t + x / 4, (A, B)),
    Case("Accumulate", up.accumulate_, lambda t, x, f: t + f * x, (A, B, C3[1])),
    Case("Accumulate", up.accumulate_square_, lambda t, x: t + x * x, (A, B)),
    Case("Accumulate", lambda t, x: up.accumulate_square_(t, x, 0.1), lambda t, x: t + x * x / 10, (A, B)),
    Case("Accumulate", lambda t, x: up.accumulate_mean_(t, x, 3), lambda t, x: t * 3 / 4 + x / 4, (A, B)),
    Case("Accumulate", up.accumulate_mean_, lambda t, x, n: (t * n + x) / (n + 1), (A, B, np.int32(4))),
    Case("Accumulate", lambda t, x: up.accumulate_moving_average_(t, x, 0.9),
         lambda t, x: 0.9 * t + 0.1 * x, (A, B)),
    Case("Accumulate", lambda t, x: up.accumulate_moving_average_square_(t, x, 0.9),
         lambda t, x: 0.9 * t + 0.1 * x * x, (A, B)),
    Case("AccumulatorScale", lambda t: up.accumulator_scale_(t, 3.0), lambda t: t * 3, (A,)),
    Case("AccumulatorScale", up.accumulator_scale_, np.multiply, (A, C3[0])),
    Case("AccumulatorScale", up.accumulator_zero_, np.zeros_like, (A * np.inf,)),
    Case("PopartSparseAccumulate", lambda t, x, i: up.sparse_accumulate_(t, x, i, 1, 0.5),
         lambda t, x, i: np.stack([t[:, 0] + x[:, 1] / 2, t[:, 1], t[:, 2] + (x[:, 0] + x[:, 2]) / 2], 1),
         (A, B, np.array([2, 0, 2], np.uint32))),
    Case("AdamUpdater", lambda m, v: up.adam_updater(m, v, epsilon=1e-3),
         lambda m, v: m / (np.sqrt(v) + 1e-3), (A, POSITIVE)),
    Case("AdamUpdater", lambda m, v, w, t: up.adam_updater(m, v, w, t, 0.01, 0.9, 0.99),
         lambda m, v, w, t: m / (1 - 0.9**3) / (np.sqrt(v / (1 - 0.99**3)) + 1e-7) + 0.01 * w,
         (A, POSITIVE, B, np.int32(2))),
    Case("AdamUpdater", lambda m, v, w, d: up.lamb_updater(m, v, w, weight_decay=d),
         lambda m, v, w, d: m / (np.sqrt(v) + 1e-7) + d * w, (A, POSITIVE, B, C3[0])),
    Case("AdamUpdater", lambda m, v, t: up.adamax_updater(m, v, time_step=t, beta1=0.8),
         lambda m, v, t: m / (1 - 0.8**4) / (v + 1e-7), (A, POSITIVE, np.float32(3))),
    Case("AdamVarUpdate", lambda t, x, a, b: up.adam_var_update(t, x, a, b, 0.1),
         lambda t, x, a, b: t - 0.1 * np.sqrt(a / b) * x, (A, B, np.float32(4), np.float32(9))),
    Case("AdamVarUpdate", lambda t, x, a, b, r: up.adam_var_update(t, x, a, b, r, 1.5),
         lambda t, x, a, b, r: t - r * 1.5 / 3 * x, (A, B, np.float32(4), np.float32(9), np.float32(0.2))),
    Case("AdamVarUpdate", up.adam_var_update, lambda t, x, a, b: t - x,
         (A, B, np.float32(4), np.float32(0))),
    Case("CopyVarUpdate", up.copy_var_update_, lambda t, x: x, (A, B)),
]  # fmt: skip
CASES = ELEMENTWISE + REDUCTIONS + SHAPES + UPDATES


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c.op_type}" for k, c in enumerate(CASES)])
def test_an_operation_is_its_formula(case: Case) -> None:
    """The numbers, the shape and the type of NumPy's; the record has PopART's type."""
    recorded: list[str] = []

    def build(*tensors: pir.Tensor) -> Any:
        found = case.build(*tensors)
        recorded.extend(types(pir.gcg()))
        return found

    found = results(build, *case.inputs)
    expected = case.formula(*case.inputs)
    for one, other in zip(
        found, expected if isinstance(expected, list) else [expected], strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
        assert one.shape == np.shape(other)
    assert recorded[-1] == case.op_type


def test_all_public_operations_have_a_case_here_or_tests_of_their_own() -> None:
    """Names of operations that no test in this folder names."""
    from pathlib import Path

    texts = "".join(p.read_text() for p in Path(__file__).parent.glob("test_*.py"))
    names = [n for n in (*ops.__all__, *up.__all__, *co.__all__) if n[0].islower()]
    assert len(names) > 95
    assert [n for n in names if n not in REDUCED and f".{n}" not in texts] == []


OPERATORS = [
    (lambda x: x + 1, lambda x: x + 1), (lambda x: 2 - x, lambda x: 2 - x), (lambda x: x * x, np.square),
    (lambda x: 1 / x, lambda x: 1 / x), (lambda x: x % 2, lambda x: np.fmod(x, 2)),
    (lambda x: -x, np.negative),
    (lambda x: x @ x.T, lambda x: x @ x.T), (lambda x: x[1], lambda x: x[1]),
    (lambda x: x[-1, ::-1], lambda x: x[-1, ::-1]), (lambda x: x[0:1, 2], lambda x: x[0:1, 2]),
    (lambda x: x[[[0, 1], [1, 1]]], lambda x: x[[[0, 1], [1, 1]]]),
    (lambda x: x[np.array([[True], [False]])], lambda x: x * [[1], [0]]),
    (lambda x: np.ones((4, 2), np.float32) @ x, lambda x: np.ones((4, 2)) @ x),
    (lambda x: x.T_.flatten_().reshape((3, 2)).detach(), lambda x: x.T.reshape(3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("build", "formula"), OPERATORS)
def test_operators_are_numpys(build: Any, formula: Any) -> None:
    """Numbers and arrays become constants of the tensor's type."""
    np.testing.assert_allclose(results(build, A)[0], formula(A), rtol=1e-6)


def test_an_operator_in_place_returns_the_tensor_itself() -> None:
    """``x += 1`` changes the memory of x, which stays the same tensor."""

    def build(x: pir.Tensor) -> Any:
        y = x
        y += 1
        assert y is x
        return y

    np.testing.assert_array_equal(results(build, A, ordered=True)[0], A + 1)


LABELS = np.array([2, 0, 1, 2], np.int32)
PROBS = softmax(RANDOM.normal(size=(4, 3)).astype(np.float32))


@pytest.mark.parametrize(
    ("reduction", "ignored", "share"),
    [("Mean", None, 1 / 4), ("Sum", None, 1.0), ("Mean", 2, 1 / 2), ("NoReduction", 1, 1.0)],
)
def test_the_loss_and_its_gradient(reduction: str, ignored: int | None, share: float) -> None:
    """The mean counts only labels that are not ignored."""
    from workbench.compat.popart import ReductionType

    def build(p: pir.Tensor, y: pir.Tensor) -> Any:
        made = ops.nll_loss_with_softmax_grad(p, y, 3.0, ReductionType[reduction], ignored)
        assert isinstance(pir.gcg().ops()[-1].inputs[2], pir.Constant)  # the loss's gradient
        return made

    loss, gradient = results(build, PROBS, LABELS)
    kept = np.array([y != ignored for y in LABELS], np.float32)
    losses = -np.log(PROBS[np.arange(4), LABELS]) * kept
    expected = losses if reduction == "NoReduction" else losses.sum() * share
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    difference = (PROBS - np.eye(3, dtype=np.float32)[LABELS]) * kept[:, None]
    np.testing.assert_allclose(gradient, 3 * share * difference, rtol=1e-5, atol=1e-7)


SEED = np.array([3, 11], np.uint32)


def test_random_numbers_depend_on_the_whole_seed_alone() -> None:
    """Equal seeds give equal numbers; each half matters; split seeds differ."""

    def build(seed: pir.Tensor, other: pir.Tensor) -> Any:
        first, second = ops.split_random_seed(seed)
        seeds = (seed, seed, other, first, second)
        return [ops.random_uniform(s, (64,), -1, 3) for s in seeds]

    found = results(build, SEED, SEED + np.array([1, 0], np.uint32))
    assert np.array_equal(found[0], found[1])
    for k in range(1, 5):
        assert all(not np.array_equal(found[k], found[n]) for n in range(k + 1, 5))
        assert found[k].min() >= -1
        assert found[k].max() < 3


def test_normal_numbers_and_dropout_have_their_moments() -> None:
    """The mean and deviation of 4000 numbers; the share and scale of those that dropout keeps."""

    def build(seed: pir.Tensor, x: pir.Tensor) -> Any:
        drawn = ops.random_normal(seed, (4000,), 5, 2)
        return drawn, ops.dropout(x, seed, 0.25), ops.dropout(x, seed, 0.25)

    drawn, kept, again = results(build, SEED, np.full(4000, 3, np.float32))
    assert abs(drawn.mean() - 5) < 0.2
    assert abs(drawn.std() - 2) < 0.1
    assert np.isclose(kept, 4).mean() == pytest.approx(0.75, abs=0.03)
    assert set(np.round(kept, 4)) == {0.0, 4.0}
    assert np.array_equal(kept, again)


def test_init_is_zero_and_prints_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor of zeros; ``print_tensor`` prints at each run and gives the value on."""

    def build(x: pir.Tensor) -> Any:
        return ops.init((2, 3), pir.float32) + ops.print_tensor(x, "mine")

    np.testing.assert_array_equal(results(build, A)[0], A)
    assert capsys.readouterr().out == f"mine: {A}\n"
