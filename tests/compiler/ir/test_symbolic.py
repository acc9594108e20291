"""Symbolic lengths: canonical expressions, dimensions and shapes of them, text, files and runs."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import InputError, ShapeError, TextError
from workbench.compiler.files import archive as serialize
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.ranges import intersection, minus, over, plus
from workbench.compiler.ir.shape import Dim, Shape, from_permutation
from workbench.compiler.ir.sym import lit, parse, var
from workbench.compiler.ir.sym.values import from_value, to_value
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import parse as parse_text

N, C, H, W = var("n", 1, 8), var("c", 1, 16), var("h", 2, 32), var("w", 2, 32)
FLOAT = DType.FLOAT


def symbolic(*dims, strides=None):
    return Shape.dynamic(FLOAT, [Dim.of(d) for d in dims], strides)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (H + 3 + H + 2, 2 * H + 5),
        ((H + W) + C, C + (W + H)),
        (H - H, lit(0)),
        (3 - H, 0 - H + 3),
        (2 * (H + 1), 2 * H + 2),
        (H * W - H - W * H + H, lit(0)),
        ((H + 1) * (H - 1), H * H - 1),
        ((6 * N) // 3, 2 * N),
        ((4 * N + 6) // 2, 2 * N + 3),
        ((H * W) // W, H),
        (lit(-7) // 2, lit(-3)),
        (0 // H, lit(0)),
        (H // H, lit(1)),
        ((2 * H + 1).subs({H: W + 3}), 2 * W + 7),
        ((H - 1) // 2, (H + 0 - 1) / 2),
    ],
)
def test_equal_expressions_are_equal(left, right):
    assert left == right
    assert hash(left) == hash(right)


def test_what_truncates_stays_a_division():
    assert (H - 1) // 2 != H // 2
    assert var("n", 1, 4) != N
    with pytest.raises(ShapeError, match="h / 0: a symbolic division by zero"):
        H // 0


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (lit(-3), "-3"),
        (H - 3, "h - 3"),
        (10 - N, "-n + 10"),
        (2 * H, "2*h"),
        (0 - 3 * H, "-3*h"),
        (3 * N * N, "3*n*n"),
        (2 * (H * W) + 1, "2*(h*w) + 1"),
        (2 * H * W, "2*h*w"),
        ((N + H) * (N - H), "-h*h + n*n"),
        ((H - 3) // 2 + 1, "(h - 3)/2 + 1"),
        ((N // C) * 2, "2*(n/c)"),
    ],
)
def test_expressions_print_and_parse_back(expression, text):
    names = {str(s): s for s in (N, C, H, W)}
    assert str(expression) == text
    assert parse(text, names) == expression
    assert from_value(to_value(expression)) == expression


def test_values_intervals_and_optimals():
    h = var("h", 10, 50, {20, 30})
    k = var("k", 1, 5, {2, 4})
    assert ((h - 3) // 2 + 1).interval == (4, 24)
    assert ((h - 3) // 2 + 1).optimals == (9, 14)
    assert (h - k).optimals == (16, 18, 26, 28)
    assert (h * k).interval == (10, 250)
    assert ((h - 3) // 2 + 1).evaluate({h: 26}) == 12
    assert from_value(to_value(h)).optimals == (20, 30)
    with pytest.raises(ShapeError, match="symbol k has no value; found values for h=10"):
        (h - k).evaluate({h: 10})
    with pytest.raises(ShapeError, match="is -2 for h=10, k=12"):
        (h - k).evaluate({h: 10, k: 12})


def test_comparisons_that_depend_on_a_symbol_are_refused():
    assert N.less(9)
    assert not (2 * N).less(N)
    with pytest.raises(ShapeError, match="n < 3: undetermined"):
        N.less(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h +", "found the end"),
        ("(h", r"found the end; expected \)"),
        ("h h", "found 'h'; expected the end"),
        ("h ^ 2", "expected the end"),
        ("(" * 200 + "h", "expected a name"),
    ],
)
def test_texts_that_are_no_expression_are_refused(text, message):
    with pytest.raises(ShapeError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "pow"}, "expected int, sym, add, mul or tdiv"),
        ({"type": "int", "value": "7"}, "expected an integer"),
        ({"type": "sym", "name": "a b"}, "expected a name of letters"),
        ({"type": "sym", "name": "a", "min": 5, "max": 2}, "expected 1 <= min <= max"),
        ({"type": "mul", "coeff": 1, "factors": [{"expr": {}, "exp": 1}]}, "expected int, sym"),
        ({"type": "mul", "coeff": 1, "factors": 3}, "expected a list"),
    ],
)
def test_hostile_values_are_refused(value, message):
    with pytest.raises(ShapeError, match=message):
        from_value(value)


def test_expressions_do_not_grow_without_bound():
    many = sum((var(f"s{i}", 1, 2) for i in range(40)), lit(0))
    with pytest.raises(ShapeError, match="too large"):
        many * many


def test_dimensions_of_expressions():
    dim = Dim.of(N + 2)
    assert (dim.min, dim.max, str(dim)) == (3, 10, "n + 2[3..10]")
    assert Dim.of(3) != Dim(3, 3)
    assert Dim.of(N) != Dim(1, 8)
    assert Dim.of(N) != Dim.of(var("n", 1, 8, {4}))  # optimals count between dimensions
    assert plus(Dim.of(N), 2) == dim
    assert over(minus(Dim.of(H), Dim.of(W)), 2).sym == (H - W) // 2
    assert intersection(Dim.of(N), Dim(2, 6)) == Dim(2, 6)
    assert intersection(Dim.of(N), Dim.of(N)) == Dim.of(N)
    assert intersection(Dim.of(N), Dim.of(C)) is None


@pytest.mark.parametrize(
    ("shape", "classes"),
    [
        (symbolic(N, C, 4), "standard packed"),
        (symbolic(N, 1, 8, strides=[8, 4, 1]), "standard packed"),
        (symbolic(N, C, 4, strides=[1, N, N * C]), "packed transposed"),
        (symbolic(N, 3, 4, strides=[6, 3, 2]), ""),
        (symbolic(1, strides=[0]), "standard packed broadcasted is_scalar"),
        (symbolic(N, 3, strides=[0, 0]), "broadcasted is_scalar"),
        (symbolic(1, C, strides=[0, 1]), "standard packed broadcasted"),
        (symbolic(N, C, 4, strides=[1, 0, N * C]), "transposed broadcasted"),
        (Shape.dynamic(FLOAT, [Dim.of(N), Dim(3, 3)]), ""),
    ],
)
def test_classes_of_symbolic_shapes(shape, classes):
    names = ("standard", "packed", "transposed", "broadcasted", "is_scalar")
    assert {n for n in names if getattr(shape, n)} == set(classes.split())


def test_strides_follow_from_the_dimensions():
    shape = symbolic(N, C, 4)
    assert str(shape) == "float_type, {n[1..8], c[1..16], 4}, {4*c, 4, 1}"
    assert shape.to_static({N: 2, C: 8}) == Shape(FLOAT, (2, 8, 4))
    assert symbolic(N, C, H, strides=[1, C * H, N]).permutation == (1, 2, 0)
    turned = from_permutation(FLOAT, shape.dims, (1, 2, 0))
    assert turned.permutation == (1, 2, 0)
    assert turned.with_dims(shape.dims) == turned
    assert turned.as_standard() == shape
    with pytest.raises(ShapeError, match="depends on the symbols"):
        _ = symbolic(C, N, strides=[C // N, N]).permutation
    with pytest.raises(ShapeError, match=r"is a range, not an expression that has a value"):
        Shape.dynamic(FLOAT, [Dim(1, 4)]).to_static({})


def infer(name, *inputs, **attributes):
    main = Program().main
    values = [main.add_parameter(f"x{i}", s) for i, s in enumerate(inputs)]
    return main.add(make(name, **attributes), *values).shape


IMAGE = symbolic(N, 3, H, W)
LAST = from_permutation(FLOAT, IMAGE.dims, (0, 2, 3, 1))
KERNEL = Shape(FLOAT, (4, 3, 3, 3))
EXACT = {
    "relu": ("relu", [LAST], {}),
    "add": ("add", [IMAGE, LAST], {}),
    "add gappy": ("add", [LAST, symbolic(N, 3, H, W, strides=[0, 1, 0, 0])], {}),
    "contiguous": ("contiguous", [LAST], {}),
    "transpose": ("transpose", [IMAGE], {"permutation": (0, 2, 3, 1)}),
    "convert": ("convert", [LAST], {"target_type": DType.HALF}),
    "convolution": ("convolution", [IMAGE, KERNEL], {"padding": (1, 0), "stride": (2, 1)}),
    "convolution last": ("convolution", [LAST, KERNEL], {"padding": (1, 1)}),
    "pooling": ("pooling", [LAST], {"lengths": (2, 2), "stride": (2, 2), "ceil_mode": True}),
    "global": ("pooling", [IMAGE], {"dyn_global": True}),
    "reduce": ("reduce_mean", [LAST], {"axes": (2, 3)}),
    "argmax": ("argmax", [IMAGE], {"axis": 1}),
    "softmax": ("softmax", [symbolic(N, 4, strides=[8, 1])], {"axis": 1}),
    "pad": ("pad", [LAST], {"pads": (0, 0, 1, 1, 0, 0, 1, 1)}),
    "dot": ("dot", [symbolic(N, C, 4), symbolic(N, 4, H)], {}),
    "dot static": ("dot", [symbolic(N, 4), Shape(FLOAT, (4, 5))], {}),
    "squeeze": ("squeeze", [symbolic(N, 1, 4, strides=[8, 2, 1])], {"axes": (1,)}),
    "step": ("step", [IMAGE], {"axes": (2,), "steps": (2,)}),
    "gather": ("gather", [symbolic(3, N), Shape(DType.INT64)], {"axis": 0}),
}


@pytest.mark.parametrize("case", EXACT)
def test_a_rule_of_symbols_gives_what_it_gives_of_their_values(case):
    name, inputs, attributes = EXACT[case]
    shape = infer(name, *inputs, **attributes)
    assert shape.is_symbolic
    for values in ({N: 2, H: 9, W: 7, C: 5}, {N: 8, H: 32, W: 16, C: 16}):
        static = infer(name, *[s.to_static(values) for s in inputs], **attributes)
        assert shape.to_static(values) == static


def test_broadcasts_over_symbols():
    dims = (Dim.of(N), Dim.of(3), Dim.of(H))
    bias = Shape(FLOAT, (3,))
    laid = infer("broadcast", bias, axis=1, out_dyn_dims=dims)
    assert laid == symbolic(N, 3, H, strides=[0, 1, 0])
    assert infer("broadcast", bias, symbolic(N, 3, H), axis=1) == laid
    spread = infer("multibroadcast", symbolic(3, H), out_dyn_dims=dims)
    assert spread == symbolic(N, 3, H, strides=[0, H, 1])
    both = infer("multibroadcast", symbolic(1, H), symbolic(N, 1))
    assert both == symbolic(N, H)
    with pytest.raises(ShapeError, match="does not broadcast"):
        infer("multibroadcast", symbolic(C, H), out_dyn_dims=dims)
    with pytest.raises(ShapeError, match="expected it static or symbolic"):
        infer("multibroadcast", Shape.dynamic(FLOAT, [Dim(1, 4), Dim(3, 3)]), out_dyn_dims=dims)
    with pytest.raises(ShapeError, match="out_dyn_dims"):
        infer("multibroadcast", symbolic(3, H), out_lens=(2, 3, 4))


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "text"),
    [
        ("flatten", [IMAGE], {}, "dynamic, float_type, {[1..8], [12..3072]}"),
        ("unsqueeze", [symbolic(N, 4)], {"axes": (0,)}, "dynamic, float_type, {1, n[1..8], 4}"),
        (
            "concat",
            [symbolic(N, H), symbolic(N, W)],
            {"axis": 1},
            "dynamic, float_type, {n[1..8], [4..64]}",
        ),
        (
            "slice",
            [symbolic(N, 4)],
            {"axes": (1,), "starts": (1,), "ends": (3,)},
            "dynamic, float_type, {[1..8], 2}",
        ),
        (
            "dot",
            [symbolic(N, 4), Shape.dynamic(FLOAT, [Dim(2, 6), Dim(5, 5)])],
            {},
            "dynamic, float_type, {[1..8], 5}",
        ),
        (
            "convolution",
            [symbolic(2, 3, 5, 5), KERNEL],
            {},
            "float_type, {2, 4, 3, 3}, {36, 9, 3, 1}",
        ),
    ],
)
def test_rules_that_leave_symbols_behind(name, inputs, attributes, text):
    assert str(infer(name, *inputs, **attributes)) == text


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("add", [symbolic(N, 4), symbolic(C, 4)]),
        ("dot", [symbolic(N, C), symbolic(H, 4)]),
        ("concat", [symbolic(N, 4), symbolic(C, 4), symbolic(N, 2)]),
    ],
)
def test_different_symbols_do_not_agree(name, inputs):
    attributes = {"axis": 1} if name == "concat" else {}
    with pytest.raises(ShapeError):
        infer(name, *inputs, **attributes)


def program_of_symbols():
    program = Program()
    main = program.main
    x = main.add_parameter("x", symbolic(N, 4))
    y = main.add_parameter("y", symbolic(2 * N + 1, 4))
    row = main.add_literal(np.arange(4, dtype=np.float32))
    spread = main.add(make("multibroadcast", out_dyn_dims=(Dim.of(N), Dim.of(4))), row)
    main.add_return(main.add(make("add"), x, spread), y)
    return program


def test_programs_print_and_parse_back():
    program = program_of_symbols()
    text = str(program)
    assert "y = @param:y -> float_type, {2*n + 1[3..17], 4}, {4, 1}" in text
    assert "out_dyn_dims={n[1..8], 4}" in text
    assert str(parse_text(text)) == text


def test_bounds_follow_from_an_expression_if_there_is_no_better_place():
    text = 'module: "main"\nx = @param:x -> float_type, {2*n + 1[3..17], 4}, {4, 1}\n'
    shape = parse_text(text).parameters["x"]
    assert shape == symbolic(2 * N + 1, 4)
    text = 'module: "main"\nx = @param:x -> float_type, {a*b[3..17], 4}, {4, 1}\n'
    with pytest.raises(TextError, match="no bounds of a, b"):
        parse_text(text)


def test_files_keep_symbols(tmp_path):
    program = program_of_symbols()
    serialize.save(program, tmp_path / "p.wb")
    again = serialize.load(tmp_path / "p.wb")
    assert str(again) == str(program)
    assert again.parameters == program.parameters


def test_symbols_have_one_value_in_a_run():
    program = program_of_symbols()
    x, y = np.zeros((3, 4), np.float32), np.ones((7, 4), np.float32)
    found = Interpreter(program).run({"x": x, "y": y})
    assert np.array_equal(found[0], np.broadcast_to(np.arange(4, dtype=np.float32), (3, 4)))
    for target in ("ref", "cpu"):
        built = wb.compile(program, target)
        assert np.array_equal(next(iter(built.run({"x": x, "y": y}).values())), found[0])
    with pytest.raises(InputError, match=r"'y': a length of 6; expected 2\*n \+ 1, which is 7"):
        Interpreter(program).run({"x": x, "y": y[:6]})


def test_a_symbol_becomes_each_of_its_lengths():
    program = Program()
    main = program.main
    n = var("n", 1, 3)
    x = main.add_parameter("x", symbolic(n, 4))
    row = main.add_literal(np.arange(4, dtype=np.float32))
    spread = main.add(make("multibroadcast", out_dyn_dims=(Dim.of(n), Dim.of(4))), row)
    main.add_return(main.add(make("add"), x, spread))
    built = wb.compile(program, passes=["split_single_dyn_dim", "simplify_dyn_ops"])
    assert list(built.program.modules) == ["main", "dim_1", "dim_2", "dim_3"]
    assert "multibroadcast[out_lens={2, 4},out_dyn_dims={}]" in str(built.program)
    found = built.run({"x": np.zeros((2, 4), np.float32)})
    assert next(iter(found.values())).shape == (2, 4)
