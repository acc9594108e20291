"""Symbolic lengths under the drop-in's names."""

import pytest

from workbench.compat import migraphx
from workbench.compat.migraphx import sym

dynamic_dimension = migraphx.shape.dynamic_dimension


def test_expressions_are_equal_in_any_order():
    n, m = sym.var("n", 1, 8, {2, 4}), sym.var("m", 1, 16)
    assert 2 * (n + m) - m == n * 2 + m
    assert str((n - 1) // 2 + 1) == "(n - 1)/2 + 1"
    assert n + sym.lit(3) == n + 3
    assert (n.min, n.max, n.optimals) == (1, 8, {2, 4})
    assert (n * m + 1).eval({n: 2, m: 3}) == 7
    assert (n + 1).subs({n: m}) == m + 1
    assert sym.parse("n + 1").max == 2


def test_dimensions_are_made_of_expressions():
    dim = dynamic_dimension(sym.var("n", 1, 8, {2, 4}) * 3)
    assert dim.is_symbolic()
    assert not dim.is_fixed()
    assert (dim.min, dim.max, dim.optimals) == (3, 24, {6, 12})
    assert repr(dim) == "3*n[3..24]"
    assert not dynamic_dimension(1, 4).is_symbolic()


def test_dimensions_are_made_of_texts():
    dim = dynamic_dimension("n * 3 + 1", {"n": dynamic_dimension(1, 8)})
    assert dim.is_symbolic()
    assert (dim.min, dim.max) == (4, 25)
    with pytest.raises(RuntimeError, match="no range of m"):
        dynamic_dimension("n * m", {"n": dynamic_dimension(1, 8)})
    with pytest.raises(RuntimeError, match="expected a name"):
        dynamic_dimension("n *", {"n": dynamic_dimension(1, 8)})


def test_shapes_carry_symbols_through_a_program():
    n = sym.var("n", 1, 4)
    dims = [dynamic_dimension(n), dynamic_dimension(sym.lit(3))]
    shape = migraphx.shape(type="float", dyn_dims=dims)
    assert shape.dynamic()
    assert shape.standard()
    assert repr(shape) == "float_type, {n[1..4], 3}, {3, 1}"
    program = migraphx.program()
    main = program.get_main_module()
    x = main.add_parameter("x", shape)
    turned = main.add_instruction(migraphx.op("transpose", permutation=[1, 0]), [x])
    main.add_return([turned])
    assert repr(turned.shape()) == "float_type, {3, n[1..4]}, {1, 3}"
    assert "transpose[permutation={1, 0}](x) -> float_type, {3, n[1..4]}, {1, 3}" in repr(program)


def test_mixed_dimensions_are_ranges():
    dims = [dynamic_dimension(sym.var("n", 1, 4)), dynamic_dimension(3, 3)]
    shape = migraphx.shape(type="float", dyn_dims=dims)
    assert repr(shape) == "dynamic, float_type, {n[1..4], 3}"
    assert [d.is_symbolic() for d in shape.dyn_dims()] == [True, False]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sym.var("", 1, 4), RuntimeError, "expected a name"),
        (lambda: sym.var("n", 4, 1), RuntimeError, "expected 1 <= min <= max"),
        (lambda: sym.var("n", 1, 4) // 0, RuntimeError, "division by zero"),
        (lambda: sym.var(3, 1, 4), TypeError, "name: expected str"),
        (lambda: sym.var("n", 1, 4) + "m", TypeError, "unsupported operand"),
        (lambda: dynamic_dimension(sym.var("n", 1, 4) - 9), RuntimeError, "negative length"),
    ],
)
def test_what_is_no_expression_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
