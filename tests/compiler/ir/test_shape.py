"""Shapes: the facts that hold for all of them, and the layouts that elementwise results have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.compiler.errors import OperationError, ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.shape import Dim, Shape, broadcast_lens, common_permutation, row_major

LENS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def f(lens: object, strides: object = None) -> Shape:
    return Shape("float", lens, strides)  # type: ignore[arg-type]


@given(LENS)
def test_row_major_strides_are_numpys(lens: list[int]):
    array = np.empty(lens, np.float32)
    assert tuple(s // 4 for s in array.strides) == row_major(lens)
    assert f(lens).standard
    assert f(lens).packed
    assert f(lens).elements == array.size
    assert f(lens).bytes == array.nbytes


@given(LENS, st.data())
def test_permuted_shapes_are_packed_and_know_their_permutation(
    lens: list[int], data: st.DataObject
):
    order = data.draw(st.permutations(range(len(lens))))
    shape = Shape.permuted(DType.FLOAT, lens, order)
    assert shape.packed
    assert shape.with_lens(lens) == Shape.permuted(DType.FLOAT, lens, shape.permutation)
    if 1 not in lens:
        assert shape.permutation == tuple(order)


@given(LENS, LENS)
def test_broadcast_lens_are_numpys(a: list[int], b: list[int]):
    try:
        wanted = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast_lens(a, b)
    else:
        assert broadcast_lens(a, b) == wanted


@pytest.mark.parametrize(
    ("shape", "true"),
    [
        (Shape.scalar(DType.FLOAT), "standard packed broadcasted is_scalar"),
        (f([1]), "standard packed"),
        (f([2, 3]), "standard packed"),
        (f([2, 3], [1, 2]), "packed transposed"),
        (f([2, 3], [6, 1]), ""),
        (f([2, 3], [6, 2]), ""),
        (f([2, 3], [0, 1]), "broadcasted"),
        (f([2, 3], [1, 0]), "broadcasted"),
        (f([2, 3], [0, 0]), "broadcasted is_scalar"),
        (f([5, 1, 8], [8, 4, 1]), "standard packed"),
        (f([2, 2, 3], [0, 1, 2]), "broadcasted transposed"),
        (Shape.dynamic(DType.FLOAT, [Dim(1, 4), 3]), ""),
        (Shape.tuple_of([f([2]), f([3])]), ""),
    ],
)
def test_classes(shape: Shape, true: str):
    names = ["standard", "packed", "broadcasted", "transposed", "is_scalar"]
    assert [n for n in names if getattr(shape, n)] == [n for n in names if n in true.split()]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (f([2, 3]), "float_type, {2, 3}, {3, 1}"),
        (Shape.scalar(DType.HALF), "half_type, {1}, {0}"),
        (Shape(), "float_type, {}, {}"),
        (Shape.dynamic(DType.INT64, [Dim(1, 4), 3]), "dynamic, int64_type, {[1..4], 3}"),
        (Shape.tuple_of([f([2]), f([3])]), "[float_type, {2}, {1}, float_type, {3}, {1}]"),
    ],
)
def test_text_is_migraphxs(shape: Shape, text: str):
    assert str(shape) == text


def test_shapes_are_values():
    assert f([2, 3]) == f((2, 3), (3, 1))
    assert hash(f([2, 3])) == hash(f((2, 3), (3, 1)))
    assert f([2, 3]) != f([2, 3], [1, 2])
    assert f([2, 3]) != Shape("half", [2, 3])
    assert Shape.scalar(DType.FLOAT) != f([1])
    assert Shape.dynamic(DType.FLOAT, [2, 3]) == f([2, 3])
    assert Shape.dynamic(DType.FLOAT, [Dim(2, 2), Dim(3, 3)]) != f([2, 3])
    assert Dim(3, 3, (3,)) == Dim(3, 3)


def test_impossible_shapes_are_refused():
    for lens, strides in (([-1], None), ([2], [-1]), ([2, 3], [1])):
        with pytest.raises(ShapeError):
            f(lens, strides)
    with pytest.raises(ShapeError):
        Dim(4, 2)
    with pytest.raises(ShapeError, match="no single number"):
        _ = Shape.dynamic(DType.FLOAT, [Dim(1, 2)]).elements
    with pytest.raises(OperationError, match="float_type"):
        Shape("flaot", [1])


def test_the_most_frequent_permutation_wins_and_broadcasts_do_not_vote():
    turned = f([2, 3], [1, 2])
    assert common_permutation([f([2, 3]), turned, turned]) == (1, 0)
    assert common_permutation([turned, f([2, 3])]) == (0, 1)
    assert common_permutation([f([2, 3], [0, 1])] * 2 + [turned]) == (1, 0)
    assert common_permutation([f([2, 3], [0, 1])]) == (0, 1)


# Layouts of elementwise results


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (f([2, 3]), f([2, 3])),
        (f([2, 3], [1, 2]), f([2, 3], [1, 2])),
        (f([2, 3], [6, 2]), f([2, 3])),
        (f([2, 3], [2, 8]), f([2, 3], [1, 2])),
        (f([2, 3], [0, 1]), f([2, 3])),
        (f([2, 3], [0, 0]), f([2, 3], [0, 0])),
        (Shape.scalar(DType.FLOAT), Shape.scalar(DType.FLOAT)),
        (f([1]), f([1])),
        (
            Shape.dynamic(DType.FLOAT, [Dim(1, 4, (2,))]),
            Shape.dynamic(DType.FLOAT, [Dim(1, 4, (2,))]),
        ),
    ],
)
def test_unary(given: Shape, wanted: Shape):
    assert make("relu").compute_shape([given]) == wanted
    assert make("isnan").compute_shape([given]) == wanted.with_type(DType.BOOL)
    raw = make("convert", target_type=DType.HALF).compute_shape([given])
    assert raw == given.with_type(DType.HALF)


TURNED, PLAIN = f([4, 3], [1, 4]), f([4, 3])
SLICED, ROW = f([4, 3], [6, 1]), f([4, 3], [0, 1])


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (PLAIN, PLAIN, PLAIN),
        (TURNED, TURNED, TURNED),
        (TURNED, ROW, TURNED),
        (ROW, TURNED, TURNED),
        (SLICED, TURNED, TURNED),
        (PLAIN, TURNED, PLAIN),
        (TURNED, PLAIN, PLAIN),
        (SLICED, ROW, PLAIN),
        (f([4, 3], [2, 8]), ROW, TURNED),
        (f([4, 3], [1, 8]), f([4, 3], [1, 16]), TURNED),
        (ROW, ROW, PLAIN),
        (ROW, f([4, 3], [1, 0]), PLAIN),
        (Shape.scalar(DType.FLOAT), Shape.scalar(DType.FLOAT), Shape.scalar(DType.FLOAT)),
    ],
)
def test_binary(a: Shape, b: Shape, wanted: Shape):
    assert make("add").compute_shape([a, b]) == wanted


def test_where_and_clip_keep_what_they_keep():
    condition = Shape("bool", (4, 3))
    where: Operation = make("where")
    assert where.compute_shape([condition, TURNED, TURNED]) == TURNED
    assert where.compute_shape([condition, ROW, TURNED]) == TURNED
    strided = [f([4, 3], [1, 8]), f([4, 3], [1, 16])]
    assert where.compute_shape([condition, *strided]) == PLAIN
    assert where.compute_shape([Shape("bool", (1,)), TURNED, TURNED]) == TURNED
    assert make("clip").compute_shape([SLICED, PLAIN, ROW]) == SLICED


def test_quantization_keeps_the_layout():
    scale = f([4, 3], [0, 0])
    quantize = make("quantizelinear")
    assert quantize.compute_shape([TURNED, scale]) == TURNED.with_type(DType.UINT8)
    zero = Shape("int8", (4, 3))
    assert quantize.compute_shape([TURNED, scale, zero]) == TURNED.with_type(DType.INT8)
    half = scale.with_type(DType.HALF)
    assert make("dequantizelinear").compute_shape([zero, half]) == Shape("half", (4, 3))


def test_dynamic_operands_have_the_lengths_that_all_of_them_allow():
    one, other = (Shape.dynamic(DType.FLOAT, [Dim(1, n), 3]) for n in (4, 5))
    assert make("add").compute_shape([one, one]) == one
    assert make("add").compute_shape([one, other]) == one
    assert make("add").compute_shape([one, f([4, 3])]) == f([4, 3])
    for wrong in (f([5, 3]), Shape.dynamic(DType.FLOAT, [Dim(5, 6), 3]), f([3])):
        with pytest.raises(ShapeError, match="add: input 1 is"):
            make("add").compute_shape([one, wrong])


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("add", [PLAIN, f([4, 1])], "insert a multibroadcast"),
        ("add", [PLAIN, Shape("half", (4, 3))], "expected float_type"),
        ("relu", [Shape.tuple_of([PLAIN])], "expected a tensor"),
        ("bitwise_and", [PLAIN, PLAIN], "expected integers"),
        ("bit_cast", [PLAIN], "expected a type of 2 bytes"),
        ("where", [Shape("bool", (4, 3)), PLAIN, Shape("half", (4, 3))], "the type of input 1"),
        ("quantizelinear", [PLAIN, Shape("half", (4, 3))], "the type of input 0"),
        ("dequantizelinear", [Shape("int8", (4, 3)), PLAIN, PLAIN], "the type of input 0"),
    ],
)
def test_unsuitable_operands_are_refused(name: str, shapes: list[Shape], message: str):
    with pytest.raises(ShapeError, match=f"{name}: .*{message}"):
        make(name).compute_shape(shapes)


def test_a_type_may_be_given_by_its_name():
    dims = (Dim(1, 4), 3)
    assert Shape.dynamic("float", dims) == Shape.dynamic(DType.FLOAT, dims)
    assert Shape("float", (2,)) == Shape(DType.FLOAT, (2,))
