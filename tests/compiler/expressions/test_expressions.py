"""Programs written as Python expressions: they compute what NumPy does, and say what they cannot."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

import workbench as wb
from workbench.compiler.errors import GraphError, OperationError, ShapeError
from workbench.compiler.ir.shape import Dim


def computed(function: Callable[..., Any], *arrays: Any) -> list[np.ndarray]:
    """The outputs of a function of values, run on ``ref``."""
    builder = wb.Builder()
    inputs = {f"x{k}": np.asarray(a) for k, a in enumerate(arrays)}
    values = [builder.input(n, a.shape, str(a.dtype)) for n, a in inputs.items()]
    program = builder.program(function(*values))
    return [np.asarray(x) for x in wb.compile(program, "ref").run(inputs).outputs]


def agrees(function: Callable[..., Any], *arrays: Any, **tolerance: float) -> None:
    """Check that a function computes the same of values as of arrays."""
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(*arrays))
    (found,) = computed(function, *arrays)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, **{"rtol": 1e-5, "atol": 1e-6, **tolerance})


BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
)
SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 3), (3,)), ((1,), (1,))]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("type", ["float32", "int32"])
def test_operators_compute_what_numpy_does(name: str, type: str):
    do = getattr(operator, name)
    random = np.random.default_rng(0)
    for left, right in SHAPES:
        a, b = (random.integers(1, 5, lens).astype(type) for lens in (left, right))
        a = a - 2 if name != "pow" else a
        agrees(do, a, b)
        agrees(lambda x, do=do: do(x, 2), a)
        agrees(lambda x, do=do: do(2, x), b)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons_with_nan_are_numpys(name: str):
    special = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1])
    agrees(getattr(operator, name), special[:, None], special)


@pytest.mark.parametrize("name", ["and_", "or_", "xor"])
@pytest.mark.parametrize("type", ["bool", "int32"])
def test_logic_is_of_bools_and_of_bits(name: str, type: str):
    a, b = np.arange(4).astype(type), np.array([[0], [1], [3]]).astype(type)
    agrees(getattr(operator, name), a, b)
    agrees(operator.invert, a)
    agrees(operator.neg, np.int32([1, -2]))
    agrees(abs, np.float32([1, -2, -np.inf]))


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
     ((2, 3), (5, 3, 0))],
)  # fmt: skip
def test_products_are_numpys(left: tuple[int, ...], right: tuple[int, ...]):
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(lens).astype(np.float32) for lens in (left, right))
    agrees(operator.matmul, a, b)
    agrees(lambda x: x @ b, a)
    agrees(lambda y: a @ y, b)
    agrees(operator.matmul, a.astype(np.float64), b)


@given(st.data(), drawn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
def test_indices_choose_what_numpy_does(data: st.DataObject, lens: tuple[int, ...]):
    x = np.arange(np.prod(lens, dtype=int), dtype=np.float32).reshape(lens)
    index = data.draw(drawn.basic_indices(lens, allow_newaxis=True))
    agrees(lambda value: value[index], x)


def test_an_array_chooses_along_one_axis():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    agrees(lambda v: v[:, [2, 0, -1]], x)
    agrees(lambda v: v[np.int32([1])], x)
    agrees(lambda v: v[1:, :, np.int64([0, 3])][..., None], x)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_reductions_are_numpys(name: str, axis: Any):
    x = np.random.default_rng(2).standard_normal((2, 3, 4)).astype(np.float32)
    for keep in (False, True):
        agrees(lambda v, k=keep: getattr(v, name)(axis=axis, keepdims=k), x)


def test_layouts_are_numpys():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    agrees(lambda v: v.T, x)
    agrees(lambda v: v.T, np.float32(3))
    agrees(lambda v: v.reshape(3, -1), x)
    agrees(lambda v: v.reshape((6,)), x)
    agrees(lambda v: v.reshape(np.int64(3), np.int64(2)), x)
    agrees(lambda v: v.sum(np.int64(1)), x)
    agrees(lambda v: v.transpose(-1, 0), x)
    agrees(lambda v: v.transpose((1, 0)), x)
    agrees(lambda v: v.astype("int32"), x)
    agrees(lambda v: v.mean(), np.int32([1, 2]))
    (wide,) = computed(lambda v: v.broadcast_to(4, 2, 3), x)
    np.testing.assert_array_equal(wide, np.broadcast_to(x, (4, 2, 3)))


def test_every_operation_and_macro_is_a_method():
    x = np.float32([[-1.0, 0.0, 2.0]])
    (found,) = computed(lambda v: (v > 0).where(v.relu().sqrt(), -1.0), x)
    np.testing.assert_allclose(found, [[-1, -1, np.sqrt(2)]], rtol=1e-6)
    (found,) = computed(lambda v: v.softmax(axis=-1).sum(-1), x)
    np.testing.assert_allclose(found, [1], rtol=1e-6)
    (found,) = computed(lambda v: v.maximum(0).minimum(1).concat(v, axis=0), x)
    np.testing.assert_array_equal(found, [[0, 0, 1], [-1, 0, 2]])
    value = wb.Builder().input("x", (2,))
    assert {"relu", "gelu_erf", "T", "sum"} <= set(dir(value))


def test_numbers_take_the_type_of_what_they_are_combined_with():
    b = wb.Builder()
    half, whole, flag = (b.input(t, (2,), t) for t in ("half", "int8", "bool"))
    assert {(half + 1).dtype, (2.5 * half).dtype} == {half.dtype}
    assert (whole + 1).dtype is whole.dtype
    assert (whole + 1.5).dtype is (whole / 2).dtype is b.input("f", ()).dtype
    assert (flag + 1).dtype is b.input("i", (), "int64").dtype
    assert b.constant(1.5).dtype is b.constant([1.0]).dtype is b.input("g", ()).dtype
    assert b.constant(np.float64(1)).dtype is b.input("d", (), "double").dtype


def test_each_instruction_comes_from_its_line():
    b = wb.Builder("mine")
    x = b.input("x", (2,))
    y = (x + 1).relu()
    program = b.program(y.exp(), x)
    first, second = list(dict.fromkeys(s for i in program.main for s in i.sources))
    assert "y = (x + 1).relu()" in first
    assert "y.exp()" in second
    assert program.source_nodes[first].op_type == "python"
    assert [i.name for i in program.main if i.sources == (first,)][-2:] == ["add", "relu"]
    assert program.name == "mine"


def test_a_function_is_traced():
    def mlp(x: Any, w: Any) -> Any:
        return (x @ w).relu(), x

    program = wb.trace(mlp, x=(2, 3), w=np.ones((3, 4), np.float16))
    assert program.name == "mlp"
    assert [i.shape.type for i in program.main.outputs] == [wb.DType.FLOAT] * 2
    ranges = wb.trace(lambda x: x.softmax(axis=1), x=(Dim(1, 4), 3))
    run = wb.compile(ranges, "ref").run({"x": np.zeros((2, 3), np.float32)})
    assert run.outputs[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("do", "error", "says"),
    [
        (lambda _b, x: x.rellu(), AttributeError, "did you mean relu"),
        (lambda _b, x: x._private, AttributeError, "no operation"),
        (lambda _b, x: x.softmax(axes=1), OperationError, "no attribute 'axes'"),
        (lambda b, x: x + b.input("y", (3,)), ShapeError, r"\{2\}"),
        (lambda b, x: (x > 0).where(b.input("y", (3,)), 0), ShapeError, "do not broadcast"),
        (lambda _b, x: x.reshape(2.0, 1), TypeError, "integer"),
        (lambda _b, x: x.sum(axis=0.0), TypeError, "integer"),
        (lambda _b, x: x + wb.Builder().input("y", (2,)), OperationError, "another builder"),
        (lambda _b, x: 1 if x > 0 else 2, OperationError, "use where"),
        (lambda _b, x: x[2], OperationError, "out of range"),
        (lambda _b, x: x[0, 0], OperationError, "2 parts; expected at most 1"),
        (lambda _b, x: x[np.array([True, False])], OperationError, "expected whole numbers"),
        (lambda b, _x: b.input("m", (2, 2))[[0], [1]], OperationError, "several arrays"),
        (lambda b, _x: b.input("x", (3,)), GraphError, "already has a parameter 'x'"),
        (lambda _b, x: list(x.sum()), OperationError, "cannot be iterated"),
        (lambda _b, x: x @ 2, OperationError, "expected vectors or matrices"),
        (lambda b, _x: b.program(), OperationError, "at least one value"),
        (lambda _b, _x: wb.trace(lambda _y: 3, _y=(2,)), OperationError, "found int"),
        (lambda b, x: (b.program(x), b.program(x)), GraphError, "already has a @return"),
        (lambda b, x: b.apply("nothing", x), OperationError, "unknown operation 'nothing'"),
    ],
)
def test_what_cannot_be_is_refused(do: Callable[..., Any], error: type[Exception], says: str):
    builder = wb.Builder()
    with pytest.raises(error, match=says):
        do(builder, builder.input("x", (2,)))
