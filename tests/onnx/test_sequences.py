"""Sequences, optional values and loops: what is left of them in a program, and what they give."""

import numpy as np
import onnx
import pytest

import workbench as wb
from workbench.compiler.errors import EvaluationError, InputError, ModelError
from workbench.compiler.ir.ranges import joined
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.onnx import parse_onnx

PAIR = Shape("float_type", [2])
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    onnx.checker.check_model(made)
    return made


def names(program: wb.Program) -> set[str]:
    return {i.name for m in program.modules.values() for i in m}


def run(program: wb.Program, **inputs: object) -> list[object]:
    """The results of a program; the text form and the optimised program must agree."""
    validate(program)
    result = wb.compile(program, "ref").run(inputs)
    optimised = wb.compile(program, "cpu", check=True).run(inputs)
    for name in result:
        assert_same(result[name], optimised[name])
    assert str(wb.parse(str(program))) == str(program)
    return list(result.values())


def assert_same(a: object, b: object) -> None:
    assert isinstance(a, list) == isinstance(b, list)
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        np.testing.assert_array_equal(a, b)


SPLIT = """
agraph (float[4, 3] x) => (float[4, 3] y, int64 n) {
    two = Constant <value_int=2> ()
    last = Constant <value_int=-1> ()
    parts = SplitToSequence <axis=0> (x, two)
    turned = SequenceErase (parts, last)
    more = SequenceInsert (turned, x, last)
    n = SequenceLength (more)
    a = SequenceAt (more, last)
    b = SequenceInsert (turned, a)
    c = SequenceErase (b)
    d = SequenceInsert (c, a)
    e = SequenceErase (d, last)
    y = ConcatFromSequence <axis=0> (parts)
}
"""


def test_a_sequence_whose_elements_are_known_leaves_nothing_in_the_program():
    program = parse_onnx(model(SPLIT))
    y, n = run(program, x=X)
    np.testing.assert_array_equal(y, X)
    assert n == 2
    compiled = wb.compile(program, "cpu").program
    assert not {name for name in names(compiled) if name.startswith("sequence")}


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sequences_are_put_together_the_same_whether_they_are_known_or_not(
    axis: int, new_axis: int
):
    known = f"""agraph (float[4, 3] x, float[4, 3] z) => (float[P, Q] y) {{
        s = SequenceConstruct (x, z)
        y = ConcatFromSequence <axis={axis}, new_axis={new_axis}> (s) }}"""
    given = f"""agraph (seq(float[4, 3]) s) => (float[P, Q] y) {{
        y = ConcatFromSequence <axis={axis}, new_axis={new_axis}> (s) }}"""
    (one,) = run(
        parse_onnx(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {known}')),
        x=X,
        z=-X,
    )
    (other,) = run(
        parse_onnx(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {given}')),
        s=[X, -X],
    )
    want = np.stack([X, -X], axis) if new_axis else np.concatenate([X, -X], axis)
    np.testing.assert_array_equal(one, want)
    np.testing.assert_array_equal(other, want)


GIVEN = """
agraph (seq(float[N]) s, int64 i, float[2] x) => (seq(float[N]) t, float[N] e, int64 n, seq(float[N]) u) {
    t = SequenceInsert (s, x, i)
    e = SequenceAt (t, i)
    n = SequenceLength (t)
    u = SequenceErase (t, i)
}
"""


def test_a_sequence_may_be_an_input_and_an_output():
    program = parse_onnx(model(GIVEN), map_dyn_input_dims={"s": [Dim(1, 4)]})
    s, x = [np.float32([1]), np.float32([2, 3, 4])], np.float32([8, 9])
    t, e, n, u = run(program, s=s, i=np.array(-1), x=x)
    assert_same(t, [s[0], x, s[1]])
    np.testing.assert_array_equal(e, s[1])
    assert n == 3
    assert_same(u, [s[0], x])
    with pytest.raises(EvaluationError, match="position 5 in a sequence of 2"):
        wb.compile(program, "ref").run({"s": s, "i": np.array(5), "x": x})
    with pytest.raises(InputError, match="expected a list of arrays"):
        wb.compile(program, "ref").run({"s": s[0], "i": np.array(0), "x": x})
    with pytest.raises(InputError, match=r"s\[1\]"):
        wb.compile(program, "ref").run(
            {"s": [s[0], np.zeros(9, np.float32)], "i": np.array(0), "x": x}
        )


def test_elements_of_unknown_shape_have_to_be_declared():
    text = "agraph (seq(float) s, int64 i) => (float[N] y) { y = SequenceAt (s, i) }"
    with pytest.raises(ModelError, match="elements have a shape"):
        parse_onnx(model(text))
    program = parse_onnx(model(text), map_input_dims={"s": [2], "i": []})
    (y,) = run(program, s=[np.float32([1, 2])], i=np.array(0))
    np.testing.assert_array_equal(y, [1, 2])


@pytest.mark.parametrize("kind", ["sequence", "optional"])
@pytest.mark.parametrize(
    "element", [None, Shape("float_type", [2]), Shape.sequence_of(Shape("float_type", [2]))]
)
def test_kinds_of_shapes_print_and_are_saved(kind: str, element: Shape | None, tmp_path):
    program = wb.Program("kinds")
    x = program.main.add_parameter("x", Shape.sequence_of(element, kind))
    program.main.add_return(x)
    wb.save(program, tmp_path / "kinds.gwb")
    assert str(wb.load(tmp_path / "kinds.gwb")) == str(program) == str(wb.parse(str(program)))


def test_shapes_join_where_they_can():
    a, b = Shape("float_type", [2, 3]), Shape("float_type", [4, 3])
    assert joined(a, b) == Shape.dynamic(a.type, [Dim(2, 4), Dim(3, 3)])
    empty = Shape.sequence_of()
    assert joined(empty, Shape.sequence_of(a)) == Shape.sequence_of(a)
    for other in (Shape("half_type", [2, 3]), Shape("float_type", [2]), empty, Shape.tuple_of([a])):
        with pytest.raises(ValueError, match="expected"):
            joined(a, other)


WHILE = """
agraph (bool cond, float x) => (float y, float[N] seen) {
    y, seen = Loop (, cond, x) <body = inner (int64 i, bool c, float s) => (bool more, float t, float u) {
        one = Constant <value = float {1}> ()
        top = Constant <value = float {6.5}> ()
        t = Add (s, one)
        u = Identity (t)
        more = Less (t, top)
    }>
}
"""


def test_a_loop_gives_as_many_scans_as_it_ran():
    program = parse_onnx(model(WHILE))
    for start, want in ((0.0, [1, 2, 3, 4, 5, 6, 7]), (5.0, [6, 7])):
        y, seen = run(program, cond=np.array(True), x=np.float32(start))
        np.testing.assert_array_equal(seen, want)
        assert y == 7
    y, seen = run(program, cond=np.array(False), x=np.float32(3))
    assert y == 3
    assert seen.shape == (0,)


def test_a_loop_without_room_for_its_scans_says_so():
    program = parse_onnx(model(WHILE), max_loop_iterations=3)
    with pytest.raises(EvaluationError, match="max_loop_iterations"):
        wb.compile(program, "ref").run({"cond": np.array(True), "x": np.float32(0)})


COLLECT = """
agraph (int64 n, float[3] x) => (float[P, Q] y) {
    yes = Constant <value = bool {1}> ()
    none = SequenceEmpty ()
    all = Loop (n, yes, none) <body = inner (int64 i, bool c, seq(float) s) => (bool d, seq(float) t) {
        d = Identity (c)
        f = Cast <to = 1> (i)
        z = Add (x, f)
        t = SequenceInsert (s, z)
    }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
}
"""


def test_a_loop_collects_a_sequence():
    program = parse_onnx(model(COLLECT))
    x = np.float32([0, 10, 20])
    for count in (1, 4, 15):
        (y,) = run(program, n=np.array(count), x=x)
        np.testing.assert_array_equal(y, x + np.arange(count, dtype=np.float32)[:, None])


GROWING = """
agraph (int64 n, float[1] x) => (float[N] y) {
    yes = Constant <value = bool {1}> ()
    y = Loop (n, yes, x) <body = inner (int64 i, bool c, float[N] s) => (bool d, float[M] t) {
        d = Identity (c)
        t = Concat <axis = 0> (s, x)
    }>
}
"""


def test_the_state_of_a_loop_may_grow():
    program = parse_onnx(model(GROWING))
    for count in (0, 1, 5):
        (y,) = run(program, n=np.array(count), x=np.float32([3]))
        np.testing.assert_array_equal(y, np.full(count + 1, 3, np.float32))


BRANCHES = """
agraph (bool c, float[4] x) => (float[N] y) {
    y = If (c) <then_branch = a () => (float[4] p) { p = Relu (x) },
                else_branch = b () => (float[8] q) { q = Concat <axis = 0> (x, x) }>
}
"""


def test_branches_may_differ_in_length():
    program = parse_onnx(model(BRANCHES))
    x = np.float32([-1, 0, 1, 2])
    np.testing.assert_array_equal(run(program, c=np.array(True), x=x)[0], np.maximum(x, 0))
    np.testing.assert_array_equal(run(program, c=np.array(False), x=x)[0], np.r_[x, x])


OPTIONAL = """
agraph (optional(float[2]) x) => (bool has, float[2] y) {
    has = OptionalHasElement (x)
    y = If (has) <then_branch = a () => (float[2] p) { p = OptionalGetElement (x) },
                  else_branch = b () => (float[2] q) { q = Constant <value_floats = [0.0, 0.0]> () }>
}
"""


def test_an_optional_input_may_be_left_empty():
    program = parse_onnx(model(OPTIONAL))
    has, y = run(program, x=np.float32([1, 2]))
    assert has
    np.testing.assert_array_equal(y, [1, 2])
    has, y = run(program, x=None)
    assert not has
    np.testing.assert_array_equal(y, [0, 0])


def test_a_missing_value_is_not_got():
    program = parse_onnx(
        model("agraph (optional(float[2]) x) => (float[2] y) { y = OptionalGetElement (x) }")
    )
    with pytest.raises(EvaluationError, match="no value"):
        wb.compile(program, "ref").run({"x": None})
