"""Operations that users declare: in programs, text, files, passes, recordings and runs."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import (
    EvaluationError,
    ModelError,
    OperationError,
    ShapeError,
    TextError,
)
from workbench.compiler.ir.operation import find, make
from workbench.compiler.ir.validate import validate
from workbench.compiler.ops import custom
from workbench.compiler.run.reference import Interpreter, run


@pytest.fixture(autouse=True)
def clean():
    yield
    for name in custom.custom_operations():
        custom.forget(name)


def first(shapes, _modules):
    return shapes[0]


def scaled(shape, arrays, attributes):
    return (arrays[0] * attributes["alpha"]).astype(shape.type.numpy)


def scale_op(**options):
    given = {"attributes": {"alpha": 2.0}, "compute_shape": first, "compute": scaled}
    return wb.operation(name="scale_by", **{**given, **options})


def program_of(op, *lens, **attributes):
    program = wb.Program()
    inputs = [
        program.main.add_parameter("xyz"[i], wb.Shape("float", n)) for i, n in enumerate(lens)
    ]
    program.main.add_return(program.main.add(op, *inputs, **attributes))
    return program


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_an_operation_is_made_by_name_with_attributes():
    made = scale_op()
    assert str(made) == "scale_by[alpha=2]"
    assert str(make("scale_by", alpha=0.5)) == "scale_by[alpha=0.5]"
    assert custom.custom_operations() == ["scale_by"]
    with pytest.raises(OperationError, match="no attribute 'beta'; it has alpha"):
        make("scale_by", beta=1)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_it_runs_and_is_recorded(target):
    scale_op()
    program = program_of("scale_by", (2, 3), alpha=3.0)
    build = wb.compile(program, target)
    assert np.array_equal(build.run({"x": X})[0], 3 * X)
    assert "scale_by" in str(build.recording.last)
    validate(build.program)


def test_it_is_parsed_back_and_saved(tmp_path):
    scale_op(attributes={"alpha": 2.0, "axes": [1, -1], "name_": "a b", "flag": True, "none": None})
    program = program_of("scale_by", (2, 3), axes=[], alpha=0.25, none=4)
    assert str(wb.parse(str(program))) == str(program)
    wb.save(program, tmp_path / "p.wb")
    again = wb.load(tmp_path / "p.wb")
    assert str(again) == str(program)
    assert np.array_equal(run(again, {"x": X})[0], X / 4)
    custom.forget("scale_by")
    with pytest.raises(TextError, match="unknown operation 'scale_by'"):
        wb.parse(str(program))
    with pytest.raises(ModelError, match=r"workbench\.operation declares one of your own"):
        wb.load(tmp_path / "p.wb")


def test_a_recording_keeps_it(tmp_path):
    scale_op(context_free=True)
    build = wb.compile(program_of("scale_by", (2, 3)), "cpu")
    wb.save(build.recording, tmp_path / "r.wb")
    assert str(wb.load(tmp_path / "r.wb").last) == str(build.program)


def test_it_is_folded_and_shared_if_it_is_free_of_context():
    for free in (True, False):
        scale_op(context_free=free)
        program = wb.Program()
        literal = program.main.add_literal(X)
        both = [program.main.add("scale_by", literal) for _ in range(2)]
        program.main.add_return(program.main.add("add", *both))
        work = program.clone()
        wb.passes()["eliminate_common_subexpression"]().run(work)
        assert sum(i.name == "scale_by" for i in work.main) == (1 if free else 2)
        wb.passes()["propagate_constant"]().run(program)
        assert any(i.name == "scale_by" for i in program.main) is not free


def test_a_pointwise_one_is_fused():
    scale_op(op_attributes={"pointwise": True}, context_free=True)
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (2, 3)))
    scaled_twice = program.main.add("scale_by", program.main.add("exp", x))
    program.main.add_return(program.main.add("add", scaled_twice, x))
    build = wb.compile(program, "cpu")
    assert [i.name for i in build.program.main] == ["@param", "pointwise", "@return"]
    np.testing.assert_allclose(build.run({"x": X})[0], 2 * np.exp(X) + X, rtol=1e-6)


def test_a_run_in_double_gets_doubles():
    seen = []

    def compute(shape, arrays):
        seen.append((str(shape.type.numpy), str(arrays[0].dtype)))
        return arrays[0] * 2

    scale_op(attributes={}, compute=compute)
    program = program_of("scale_by", (2, 3))
    assert Interpreter(program, float64=True).run({"x": X})[0].dtype == np.float64
    assert run(program, {"x": X})[0].dtype == np.float32
    assert seen == [("float64", "float64"), ("float32", "float32")]


def test_the_memory_of_a_result_is_that_of_the_input_it_names():
    view = wb.operation(
        name="every_other",
        compute_shape=lambda s, _m: wb.Shape(s[0].type, [n // 2 for n in s[0].lens], [6, 2]),
        compute=lambda shape, arrays: arrays[0][: shape.lens[0], ::2][:, : shape.lens[1]],
        output_alias=lambda _shapes: [0],
    )
    program = program_of(view, (2, 3))
    build = wb.compile(program, "cpu")
    assert "{1, 1}, {6, 2}" in str(build.program)
    assert build.run({"x": X})[0].tolist() == [[0.0]]


def test_a_buffer_is_written_where_compute_gives_none():
    def fill(_shape, arrays):
        arrays[1][:] = arrays[0] + 1

    made = wb.operation(
        name="fill_up", compute_shape=lambda s: s[-1], compute=fill,
        output_alias=lambda shapes: [len(shapes) - 1],
    )  # fmt: skip
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (2, 3)))
    buffer = program.main.add("allocate", shape=x.shape)
    program.main.add_return(program.main.add(made, x, buffer))
    assert type(made).alias == -1
    assert np.array_equal(wb.compile(program, "ref").run({"x": X})[0], X + 1)


def test_a_result_that_shares_memory_unsaid_is_copied():
    made = wb.operation(name="same", compute_shape=first, compute=lambda _s, a: a[0])
    [found] = run(program_of(made, (2, 3)), {"x": X})
    assert np.array_equal(found, X)
    assert not np.may_share_memory(found, X)


def test_axes_are_counted_from_the_front():
    seen = []

    def shape_of(shapes, _modules, attributes):
        seen.append(attributes["axes"])
        return shapes[0]

    wb.operation(
        name="along", attributes={"axes": [0]}, compute_shape=shape_of, compute=lambda _s, a: a[0],
        normalizes=True,
    )  # fmt: skip
    program = program_of("along", (2, 3), axes=[-1])
    assert seen == [(1,)]
    wb.passes()["normalize_ops"]().run(program)
    assert "along[axes={1}]" in str(program)
    with pytest.raises(ShapeError, match=r"axes=2 is out of range; expected -2 to 1"):
        program_of("along", (2, 3), axes=[2])


def test_axes_are_kept_within_bounds_where_the_operation_says_so():
    wb.operation(
        name="clipped", attributes={"places": [0]}, compute_shape=first, normalizes=True,
        op_attributes={"normalize_axes": {"places": ["clip_max", "clip_min", "include_max"]}},
    )  # fmt: skip
    program = program_of("clipped", (2, 3), places=[5, -7, -1])
    wb.passes()["normalize_ops"]().run(program)
    assert "clipped[places={2, 0, 1}]" in str(program)


def test_module_arguments_can_be_run():
    def compute(_shape, arrays, modules):
        [inner] = modules[0](arrays[0])
        return inner + arrays[0]

    made = wb.operation(
        name="apply_and_add", compute_shape=lambda _s, m: m[0].outputs[0].shape, compute=compute
    )
    program = wb.Program()
    body = program.create_module("body")
    inner = body.add_parameter("a", wb.Shape("float", (2, 3)))
    body.add_return(body.add("neg", inner))
    x = program.main.add_parameter("x", wb.Shape("float", (2, 3)))
    program.main.add_return(program.main.add(made, x, modules=[body]))
    assert str(wb.parse(str(program))) == str(program)
    assert not wb.compile(program, "cpu").run({"x": X})[0].any()


def test_results_may_be_tuples_and_lengths_ranges():
    made = wb.operation(
        name="both_signs",
        compute_shape=lambda s: wb.Shape.tuple_of([s[0], s[0]]),
        compute=lambda _shape, arrays: (arrays[0], -arrays[0]),
    )
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (2, 3)))
    pair = program.main.add(made, x)
    program.main.add_return(program.main.add("get_tuple_elem", pair, index=1))
    assert np.array_equal(wb.compile(program, "cpu").run({"x": X})[0], -X)
    scale_op()
    ranged = wb.Program()
    from workbench.compiler.ir.shape import Dim

    x = ranged.main.add_parameter("x", wb.Shape.dynamic(wb.DType.FLOAT, [Dim(1, 4), 3]))
    ranged.main.add_return(ranged.main.add("scale_by", x))
    assert np.array_equal(run(ranged, {"x": X})[0], 2 * X)


def test_declaring_again_replaces_what_a_name_means():
    scale_op()
    old = program_of("scale_by", (2, 3))
    scale_op(compute=lambda _s, a: a[0] - 1)
    new = program_of("scale_by", (2, 3))
    assert np.array_equal(run(new, {"x": X})[0], X - 1)
    assert np.array_equal(run(old, {"x": X})[0], 2 * X)


NAMES = ["", "two words", "a,b", "f(x)", "x[1]", "@mine", "a=b", "a->b", "relu", "@param"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_cannot_be(name):
    with pytest.raises(OperationError, match=r"expected no spaces, brackets|choose another name"):
        wb.operation(name=name, compute_shape=first)


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"name": 1}, "'name' cannot be the name of an attribute"),
        ({"two words": 1}, "'two words' cannot be"),
        ({"class": 1}, "'class' cannot be"),
        ({"_hidden": 1}, "'_hidden' cannot be"),
        ({"a": object()}, "expected numbers, strings, shapes"),
        ({"a": [1, "b"]}, "expected items of one type"),
    ],
)
def test_attributes_that_cannot_be(attributes, wanted):
    with pytest.raises(OperationError, match=wanted):
        wb.operation(name="mine", attributes=attributes, compute_shape=first)


def boom(*_):
    raise KeyError("boom")


def test_what_goes_wrong_in_a_users_function_is_said():
    wb.operation(name="bad", compute_shape=boom)
    with pytest.raises(
        ShapeError, match="bad: compute_shape raised KeyError: 'boom'; inputs were fl"
    ):
        program_of("bad", (2, 3))
    wb.operation(name="bad", compute_shape=lambda _s: (2, 3))
    with pytest.raises(ShapeError, match=r"returned \(2, 3\); expected a Shape"):
        program_of("bad", (2, 3))
    for compute, wanted in {
        boom: "compute raised KeyError",
        None: "declared without compute",
        (lambda _s, _a: None): "compute returned None",
        (
            lambda _s, a: a[0].astype(np.float16)
        ): r"compute returned float16\[2, 3\]; expected float_type",
        (lambda _s, a: a[0][0]): r"compute returned float32\[3\]",
    }.items():
        wb.operation(name="bad", compute_shape=first, compute=compute)
        with pytest.raises(EvaluationError, match=wanted):
            run(program_of("bad", (2, 3)), {"x": X})


def test_what_goes_wrong_in_output_alias_is_said():
    wb.operation(name="bad", compute_shape=first, output_alias=lambda _s: [0, 1])
    with pytest.raises(
        ShapeError, match=r"output_alias returned \[0, 1\]; expected at most one index"
    ):
        program_of("bad", (2, 3))
    wb.operation(name="bad", compute_shape=first, output_alias=lambda s: [0] if len(s) > 1 else [])
    program_of("bad", (2, 3), (2, 3))
    with pytest.raises(ShapeError, match="output_alias returned None for 1 inputs"):
        program_of("bad", (2, 3))


def test_normalize_axes_has_to_make_sense():
    for said, wanted in {"nope": "expected one of: axes", "axes": "has use_len; expected"}.items():
        with pytest.raises(OperationError, match=wanted):
            wb.operation(
                name="bad", attributes={"axes": [0]}, compute_shape=first, normalizes=True,
                op_attributes={"normalize_axes": {said: ["use_len"]}},
            )  # fmt: skip


def test_only_what_was_declared_can_be_taken_back():
    with pytest.raises(
        OperationError, match="no operation 'relu' was declared; those declared are: none"
    ):
        custom.forget("relu")
    assert find("relu").name == "relu"
