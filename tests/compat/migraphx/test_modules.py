"""Modules and instructions: construction order, texts, editing, handles, errors."""

import numpy as np
import pytest

from workbench.compat import migraphx

S = migraphx.shape(lens=[2, 3])


def add_relu():
    p = migraphx.program()
    mm = p.get_main_module()
    x, y = mm.add_parameter("x", S), mm.add_parameter("y", S)
    total = mm.add_instruction(migraphx.op("add"), [x, y])
    out = mm.add_instruction(migraphx.op("relu"), [total])
    mm.add_return([out])
    return p, mm, x, y, total, out


def names(mm):
    return [i.name() for i in mm]


def test_parameters_and_literals_go_to_the_front():
    p = migraphx.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", S)
    one = mm.add_literal(np.ones((2, 3), np.float32))
    mm.add_parameter("y", S)
    mm.add_return([mm.add_instruction(migraphx.op("add"), [x, one])])
    assert repr(p) == (
        'module: "main"\n'
        "y = @param:y -> float_type, {2, 3}, {3, 1}\n"
        "@1 = @literal{1, 1, 1, 1, 1, 1} -> float_type, {2, 3}, {3, 1}\n"
        "x = @param:x -> float_type, {2, 3}, {3, 1}\n"
        "@3 = add(x,@1) -> float_type, {2, 3}, {3, 1}\n"
        "@4 = @return(@3)\n\n"
    )
    assert repr(mm) == repr(p).split("\n", 1)[1].rstrip("\n") + "\n"
    assert p.get_parameter_names() == ["x", "y"]


def test_literals_are_copies():
    data = np.ones(2, np.float32)
    mm = migraphx.program().get_main_module()
    one = mm.add_literal(data)
    data[:] = 7
    assert one.get_literal().tolist() == [1, 1]
    turned = mm.add_literal(np.arange(6, dtype=np.int32).reshape(2, 3).T)
    assert turned.shape().strides() == [1, 3]
    assert turned.get_literal().tolist() == [0, 3, 1, 4, 2, 5]
    assert mm.add_literal(migraphx.fill_argument(S, 2)).get_literal() == migraphx.fill_argument(
        S, 2
    )


def test_instructions():
    _, mm, x, y, total, out = add_relu()
    assert total.inputs() == [x, y]
    assert total.outputs() == [out]
    assert total.op().name() == total.name() == "add"
    assert x.name() == "@param"
    assert total.shape() == S
    assert total != out
    assert {total, next(iter(out.inputs()))} == {total}
    assert repr(total) == "@2 = add(x,y) -> float_type, {2, 3}, {3, 1}"
    assert names(mm) == ["@param", "@param", "add", "relu", "@return"]
    with pytest.raises(RuntimeError, match="not a literal"):
        total.get_literal()
    with pytest.raises(TypeError, match="expected instruction_ref"):
        assert total == 3


def test_values_of_constants():
    mm = migraphx.program().get_main_module()
    one = mm.add_literal(np.float32([1, 2]))
    total = mm.add_instruction(migraphx.op("add"), [one, one])
    assert total.can_eval()
    assert total.eval().tolist() == [2, 4]
    x = mm.add_parameter("x", S)
    assert not x.can_eval()
    with pytest.raises(RuntimeError, match="depends"):
        x.eval()


def test_modules_as_arguments():
    p = migraphx.program()
    mm = p.get_main_module()
    cond, x = mm.add_parameter("cond", migraphx.shape(type="bool")), mm.add_parameter("x", S)
    made = []
    for name in ("then", "else"):
        inner = p.create_module(name)
        inner.add_return([inner.add_instruction(migraphx.op("relu"), [x])])
        made.append(inner)
    both = mm.add_instruction(migraphx.op("if"), [cond], made)
    assert both.module_inputs() == made
    assert [m.name() for m in p.modules()] == ["main", "then", "else"]
    assert "@0 = relu(?)" in repr(made[0])
    assert "then:@0 = relu(x)" in repr(p)
    assert "if(cond), [then, else] -> [float_type, {2, 3}, {3, 1}]" in repr(mm)


def test_printing(capsys):
    p, mm, *_ = add_relu()
    p.print()
    assert capsys.readouterr().out == f"{p}\n"
    mm.print()
    assert capsys.readouterr().out == f"{mm}\n"


def test_insert_remove_and_move():
    _, mm, x, y, total, out = add_relu()
    made = mm.insert_instruction(out, migraphx.op("mul"), [total, x])
    assert names(mm) == ["@param", "@param", "add", "mul", "relu", "@return"]
    following = mm.remove_instruction(made)
    assert following == out
    with pytest.raises(RuntimeError, match="gone"):
        made.shape()
    assert "gone" in repr(made)
    assert mm.move_instruction(y, x) == y
    assert [repr(i)[0] for i in mm][:2] == ["y", "x"]
    for wrong in (lambda: mm.remove_instruction(total), lambda: mm.move_instruction(out, total)):
        with pytest.raises(RuntimeError):
            wrong()


def test_replace_leaves_dead_code():
    p, mm, x, y, total, out = add_relu()
    product = mm.insert_instruction(out, migraphx.op("mul"), [x, y])
    assert mm.replace_instruction(total, product) == product
    assert names(mm) == ["@param", "@param", "add", "mul", "relu", "@return"]
    assert out.inputs() == [product]
    assert total.outputs() == []
    migraphx.run_passes(p, ["dead_code_elimination"])
    assert names(mm) == ["@param", "@param", "mul", "relu", "@return"]


def test_replace_the_last_instruction():
    mm = migraphx.program().get_main_module()
    x = mm.add_parameter("x", S)
    last = mm.add_instruction(migraphx.op("relu"), [x])
    mm.replace_instruction(last, x)
    assert names(mm) == ["@param", "identity"]


def test_returns():
    p, mm, x, _, total, _ = add_relu()
    mm.replace_return([total, x])
    assert len(p.get_output_shapes()) == 2
    with pytest.raises(RuntimeError, match="@return"):
        mm.add_return([x])
    other = p.create_module("other")
    assert other.replace_return([x]).name() == "@return"


def test_what_is_added_later_comes_before_the_return():
    _, mm, _, _, total, _ = add_relu()
    mm.add_instruction(migraphx.op("neg"), [total])
    assert names(mm)[-2:] == ["neg", "@return"]


def test_outlines_and_flags():
    p = migraphx.program()
    mm = p.get_main_module()
    assert mm.add_outline(S).name() == "@outline"
    inner = p.create_module("inner")
    inner.set_bypass(True)
    assert inner.bypass()
    inner.set_bypass(False)
    assert not inner.bypass()


def test_debug_symbols():
    _, mm, _, _, total, out = add_relu()
    assert total.get_debug_symbols() == set()
    mm.add_debug_symbols(total, ["b", "a"])
    mm.add_debug_symbols(total, ["a", "c"])
    assert total.get_debug_symbols() == {"a", "b", "c"}
    assert repr(total).endswith(" # a, b, c")
    made = mm.add_instruction(migraphx.op("neg"), [out], [], ["n"])
    assert made.get_debug_symbols() == {"n"}
    assert mm.add_parameter("z", S, debug_symbols=["p"]).get_debug_symbols() == {"p"}
    data = np.ones(1, np.float32)
    assert mm.add_literal(data, debug_symbols=["w"]).get_debug_symbols() == {"w"}


def test_macros():
    p = migraphx.program()
    mm = p.get_main_module()
    a = mm.add_parameter("a", S)
    b = mm.add_parameter("b", migraphx.shape(lens=[3, 2]))
    gemm = migraphx.macro("gemm", alpha=2.0)
    (out,) = mm.add_macro(gemm, [a, b], debug_symbols=["gemm"])
    assert out.name() == "dot"
    assert [i.get_debug_symbols() for i in (a, b)] == [set(), set()]
    assert {"gemm"} in [i.get_debug_symbols() for i in mm if i.name() == "mul"]
    (early,) = mm.insert_macro(out, migraphx.macro("relu"), [a])
    assert names(mm).index("relu") < names(mm).index("dot")
    assert early.name() == "relu"
    with pytest.raises(RuntimeError, match="beta_"):
        mm.add_macro(migraphx.macro("gemm", beta_=2.0), [a, b])
    with pytest.raises(RuntimeError, match="nonsense"):
        mm.add_macro(migraphx.macro("nonsense"), [a, b])


def test_handles_outlive_a_compilation():
    p, mm, x, _, total, out = add_relu()
    p.compile(migraphx.get_target("ref"))
    assert names(mm) == ["@param", "@param", "add", "relu", "@return"]
    assert total.inputs()[0] == x
    assert out.shape() == S


def test_wrong_arguments():
    p, mm, x, y, total, _ = add_relu()
    add = migraphx.op("add")
    for wrong in (
        lambda: mm.add_instruction("add", [x, y]),
        lambda: mm.add_instruction(add, x),
        lambda: mm.add_instruction(add, ["x", "y"]),
        lambda: mm.add_instruction(add, [x, y], [p]),
        lambda: mm.add_instruction(add),
        lambda: mm.add_instruction(add, [x, y], nothing=3),
        lambda: mm.add_parameter("z", [2, 3]),
        lambda: mm.add_parameter(3, S),
        lambda: mm.add_literal([1, 2]),
        lambda: mm.add_return(total),
        lambda: mm.add_macro(add, [x, y]),
        lambda: mm.replace_instruction(x, 3),
    ):
        with pytest.raises(TypeError, match=r"incompatible arguments|expected a buffer"):
            wrong()
    other, mm2, x2, *_ = add_relu()
    small = mm.add_parameter("small", migraphx.shape(lens=[2]))
    for wrong in (
        lambda: mm.add_instruction(add, [x, x2]),
        lambda: mm.add_instruction(add, [x, small]),
        lambda: mm.add_instruction(add, [x]),
        lambda: mm.add_parameter("x", S),
        lambda: mm2.remove_instruction(x),
        lambda: mm.insert_instruction(x2, add, [x, y]),
        lambda: mm.add_instruction(add, [x, y], [other.get_main_module()]),
        lambda: p.create_module("main"),
        lambda: p.get_module("none"),
    ):
        with pytest.raises(RuntimeError):
            wrong()


def test_a_handle_follows_what_a_pass_puts_in_its_place():
    p = migraphx.program()
    mm = p.get_main_module()
    s = migraphx.shape(lens=[8])
    a = mm.add_instruction(migraphx.op("allocate", shape=s), [])
    kept = mm.add_instruction(migraphx.op("relu"), [a])
    lost = mm.add_instruction(migraphx.op("neg"), [kept])
    mm.add_return([kept])
    copied = p.clone()
    migraphx.run_passes(p, ["memory_coloring", "dead_code_elimination"])
    assert (a.name(), kept.inputs()[0].name()) == ("load", "load")
    assert "load" in repr(a)
    with pytest.raises(RuntimeError, match="is gone"):
        lost.name()
    assert next(iter(copied.get_main_module())).name() == "allocate"


def test_a_return_of_nothing_has_the_default_shape():
    mm = migraphx.program().get_main_module()
    assert repr(mm.add_return([]).shape()) == "float_type, {}, {}"
