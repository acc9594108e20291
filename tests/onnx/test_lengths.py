"""Knowledge at import of lengths that a run computes: always true, and as sharp as it should be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.compiler.ir import ranges
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.constants import Constants
from workbench.compiler.onnx.lengths import Lengths, Span
from workbench.compiler.onnx.sizes import Size, lengths
from workbench.compiler.run import reference

DIMS = (Dim(1, 5, (), "b"), Dim(2, 9, (), "s"), Dim(3, 3))
BINARY = ("add", "sub", "mul", "div", "max", "min", "equal", "less", "greater")


def started() -> tuple[Program, Instruction]:
    """A program that takes a tensor of ranges."""
    program = Program()
    return program, program.main.add_parameter("x", Shape.dynamic(DType.FLOAT, DIMS))


@st.composite
def graphs(draw: st.DrawFn) -> Program:
    """Programs of which every value is an int64; conversions change no type."""
    program, x = started()
    add = program.main.add
    values = [add("dimensions_of", x, start=0, end=3), add("dimensions_of", x, start=1, end=2)]
    small = st.lists(st.integers(-3, 12), min_size=1, max_size=3)
    values += [program.main.add_literal(np.array(draw(small))) for _ in range(2)]
    for _ in range(draw(st.integers(1, 8))):
        made = _computed(draw, program, values)
        values.append(program.main.add("convert", made, target_type=DType.INT64))
    program.main.add_return(*values)
    return program


def _computed(draw: st.DrawFn, program: Program, values: list[Instruction]) -> Instruction:
    add, a = program.main.add, draw(st.sampled_from(values))
    count = a.shape.lens[0]
    kind = draw(st.sampled_from(["binary", "slice", "gather", "concat", "where", "reduce", "cast"]))
    alike = [v for v in values if v.shape.lens == a.shape.lens]
    b = draw(st.sampled_from(alike))
    match kind:
        case "binary":
            op = draw(st.sampled_from(BINARY))
            one = program.main.add_literal(np.ones(count, np.int64))
            return add(op, a, add("max", b, one) if op == "div" else b)
        case "slice":
            start = draw(st.integers(0, count - 1))
            return add("slice", a, axes=(0,), starts=(start,), ends=(count,))
        case "gather":
            index = draw(st.lists(st.integers(-count, count - 1), min_size=1, max_size=4))
            return add("gather", a, program.main.add_literal(np.array(index)), axis=0)
        case "concat":
            return add("concat", a, draw(st.sampled_from(values)), axis=0)
        case "where":
            condition = add("convert", add("less", a, b), target_type=DType.BOOL)
            return add("where", condition, a, b)
        case "reduce":
            return add(draw(st.sampled_from(["reduce_prod", "reduce_sum"])), a, axes=(0,))
        case _:
            return add("reshape", add("convert", a, target_type=DType.INT32), dims=(count,))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_element_is_within_its_span(data: st.DataObject):
    program = data.draw(graphs())
    known = Lengths(Constants())
    names: dict[str, int] = {}
    lens = [data.draw(st.integers(d.min, d.max)) for d in DIMS]
    found = reference.run(program, {"x": np.zeros(lens, np.float32)})
    for value, array in zip(program.outputs, found, strict=True):
        spans = known.of(value)
        assert spans is not None
        assert len(spans) == array.size
        for span, element in zip(spans, array.reshape(-1), strict=True):
            assert span.low <= element <= span.high
            if span.name:
                assert names.setdefault(span.name, int(element)) == element


def test_lengths_are_followed_through_a_graph():
    program, x = started()
    add = program.main.add
    lens = add("dimensions_of", x, start=0, end=3)
    first, second, third = (
        add("slice", lens, axes=(0,), starts=(i,), ends=(i + 1,)) for i in range(3)
    )
    six = program.main.add_literal(np.array([6]))
    known = Lengths(Constants())
    assert known.of(lens) == [Span(1, 5, "b"), Span(2, 9, "s"), Span(3, 3)]
    assert known.of(add("mul", first, second)) == [Span(2, 45, "b*s")]
    assert known.of(add("mul", third, six)) == [Span(18, 18)]
    assert known.of(add("add", second, six)) == [Span(8, 15, "(s+6)")]
    assert known.of(add("sub", second, second)) == [Span(0, 0)]
    assert known.of(add("div", six, third)) == [Span(2, 2)]
    assert known.of(add("min", first, six)) == [Span(1, 5, "b")]
    assert known.of(add("equal", first, six)) == [Span(0, 0)]
    joined = add("concat", third, six, axis=0)
    exact = known.exact(joined)
    assert exact is not None
    assert exact.tolist() == [3, 6]
    assert known.of(x) is None


def test_a_product_divided_by_its_factors_is_exact():
    b, s, n = Dim(1, 5, (), "b"), Dim(2, 9, (), "s"), Dim(64, 64)
    assert ranges.quotient([ranges.product([b, s]), n], [b, s]) == n
    assert ranges.quotient([b, s, n], [Dim(16, 16)]).name == "4*b*s"
    assert ranges.quotient([b, n], [s]) == Dim(7, 160)
    assert ranges.quotient([Dim(0, 4, (), "z"), n], [Dim(0, 4, (), "z")]).name == ""


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Dim(1, 4), Dim(1, 8), Dim(1, 8)),
        (Dim(2, 4), Dim(1, 8), Dim(2, 4)),
        (Dim(2, 4), Dim(3, 8), Dim(3, 4)),
        (Dim(1, 1), Dim(3, 8), Dim(3, 8)),
        (Dim(2, 3), Dim(4, 8), None),
        (Dim(0, 4), Dim(0, 4), Dim(0, 4)),
    ],
)
def test_dimensions_broadcast_to_all_that_they_may(a: Dim, b: Dim, expected: Dim | None):
    assert ranges.broadcast_dim(a, b) == expected
    assert ranges.broadcast_dim(b, a) == expected


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 6), st.integers(0, 6))
def test_slices_of_ranges_have_every_length_that_they_may(
    start: int, end: int, low: int, more: int
):
    from workbench.compiler.ir.operation import make

    op = make("slice", axes=(0,), starts=(start,), ends=(end,))
    whole = Shape.dynamic(DType.FLOAT, [Dim(low, low + more), Dim(1, 2)])
    found = ranges.dims_of(op.compute_shape([whole]))[0]
    lens = {len(range(n)[start:end]) for n in range(low, low + more + 1)}
    assert (found.min, found.max) == (min(lens), max(lens))


def test_sizes_compute_and_refuse_to_guess():
    program, x = started()
    batch, length, heads = lengths(program.main, x)
    assert heads == 3
    assert isinstance(batch, Size)
    assert isinstance(length, Size)
    assert (batch * length // 1).dim == Dim(2, 45)  # pyright: ignore[reportAttributeAccessIssue]
    assert length - length == 0
    assert length > 1
    assert batch != 7
    with pytest.raises(ValueError, match=r"\[1..5\] is compared with 4"):
        bool(batch == 4)
    with pytest.raises(ValueError, match="needed at import"):
        range(batch)  # pyright: ignore[reportArgumentType]
