"""Text written by hand: what may be left out, and what is said of mistakes."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import OperationError, TextError

PRINTED = """module: "main"
x = @param:x -> float_type, {2, 3}, {3, 1}
@1 = @literal{2} -> float_type, {}, {}
@2 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1) -> float_type, {2, 3}, {0, 0}
@3 = mul(x,@2) -> float_type, {2, 3}, {3, 1}
@4 = @return(@3,x)

"""

BY_HAND = """
# twice a value

x = @param:x -> float_type, {2, 3}
  two = @literal{2}
wide = multibroadcast[out_lens={2, 3}, out_dyn_dims={}](two)
#
y=mul(x, wide)
@return(y, x)
"""


def test_a_text_by_hand_is_the_printed_program():
    assert str(wb.parse(BY_HAND)) == PRINTED
    assert str(wb.parse(PRINTED)) == PRINTED


def test_names_are_kept_if_asked_for():
    program = wb.parse(BY_HAND, keep_names=True)
    assert [i.symbols for i in program.main] == [(), ("two",), ("wide",), ("y",), ()]
    again = wb.parse(str(program), keep_names=True)
    assert str(again) == str(program)


def test_a_literal_without_a_shape_is_of_floats():
    program = wb.parse(
        "a = @literal{1, 2.5, -inf}\nb = @literal{nan}\nc = @literal{}\n@return(a, b, c)"
    )
    a, b, c = (np.asarray(x) for x in wb.compile(program, "ref").run({}).outputs)
    np.testing.assert_array_equal(a, np.float32([1, 2.5, -np.inf]))
    assert (b.shape, bool(np.isnan(b)), c.shape) == ((), True, (0,))


def test_a_second_module_may_follow_a_main_one_without_a_header():
    text = """x = @param:x -> float_type, {2}
y = pointwise(x), [body]
module: "body"
body:x0 = @param:x0 -> float_type, {1}
body:y = relu(body:x0)
@return(body:y)
"""
    program = wb.parse(text)
    run = wb.compile(program, "ref").run({"x": np.float32([-1, 2])})
    np.testing.assert_array_equal(run.outputs[0], np.float32([0, 2]))


X = "x = @param:x -> float_type, {2}\n"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("x = @param:x", (1, 5), "expected a shape"),
        ("x = @param:x -> float_type, {2, -3}", (1, 17), "no negative length"),
        ("x = @param:x -> float_type, {2, b}", (1, 17), "expected a whole number; found 'b'"),
        ("x = @param:x -> flaot_type, {2}", (1, 17), "unknown element type 'flaot_type'"),
        (X + "  y = rellu(x)", (2, 7), "did you mean relu"),
        (X + "y = relu(xx)", (2, 10), "'xx' is not defined before this line; did you mean 'x'"),
        (X + "y = add(x)", (2, 5), "expected 2 inputs, found 1"),
        (X + "y = relu(x", (2, 5), r"expected \) at the end of the inputs"),
        (X + "y = reduce_sum[axes=0](x)", (2, 5), "expected numbers in braces"),
        (X + "y = reduce_sum[axis={0}](x)", (2, 5), "no attribute 'axis'"),
        (X + "y = lrn[size=two](x)", (2, 5), "expected a whole number; found 'two'"),
        (X + "y = leaky_relu[alpha=x](x)", (2, 5), "expected a number; found 'x'"),
        (X + "y = relu(x) -> float_type, {3}", (2, 16), "the line says"),
        (X + "y relu(x)", (2, None), "expected `name = operation"),
        ("y = @literal{1, a}", (1, 5), "expected a number; found 'a'"),
        ("y = @literal{...}", (1, 5), "expected a shape"),
        (X + "y = if(x), [nowhere]", (2, 13), "'nowhere' is not defined"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_column(
    text: str, place: tuple[int, int | None], says: str
):
    line, column = place
    at = f"line {line}" if column is None else f"line {line}, column {column}"
    with pytest.raises(TextError, match=f"^{at}: .*{says}"):
        wb.parse(text)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("fuse_point", "did you mean fuse_pointwise"),
        ("", "did you mean"),
        ("zzzz", "expected one of"),
    ],
)
def test_an_unknown_pass_is_told_with_those_that_are_near(given: str, says: str):
    with pytest.raises(OperationError, match=says):
        wb.passes()[given]
    assert given not in wb.passes()
    assert wb.passes().get(given) is None
