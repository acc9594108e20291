"""Operations from Python with the drop-in's shapes and arguments."""

import numpy as np
import pytest

from workbench.compat import migraphx
from workbench.compiler.ops import custom


@pytest.fixture(autouse=True)
def clean():
    yield
    for name in custom.custom_operations():
        custom.forget(name)


def vector(shapes, _modules):
    if len(shapes) != 2:
        raise RuntimeError("two inputs are needed")
    return shapes[-1]


def sigmoid(output_shape, arguments):
    assert output_shape == arguments[1].get_shape()
    np.asarray(arguments[1])[:] = 1 / (1 + np.exp(-np.asarray(arguments[0])))
    return arguments[1]


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_an_operation_writes_into_a_buffer(target):
    made = migraphx.custom_op(name="my_sigmoid", compute_shape=vector, compute=sigmoid)
    assert (made.name(), made.values()) == ("my_sigmoid", {})
    p = migraphx.program()
    m, s = p.get_main_module(), migraphx.shape(type="float", lens=[12])
    x = m.add_parameter("x", s)
    buffer = m.add_instruction(migraphx.op("allocate", shape=s), [])
    m.add_instruction(migraphx.op("my_sigmoid"), [x, buffer])
    p.compile(migraphx.get_target(target))
    given = migraphx.generate_argument(s)
    found = p.run({"x": given})[0]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.asarray(given))), rtol=1e-6)


def test_a_shape_rule_that_refuses_raises_runtime_error():
    made = migraphx.custom_op(name="my_sigmoid", compute_shape=vector, compute=sigmoid)
    m = migraphx.program().get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[12]))
    with pytest.raises(
        RuntimeError, match=r"my_sigmoid: .*two inputs are needed; inputs were float"
    ):
        m.add_instruction(made, [x])


def test_a_result_is_a_view_of_an_input():
    def halved(shapes, _modules):
        s = shapes[0]
        strides = [2 * n for n in s.strides()]
        return migraphx.shape(
            type=s.type_string(), lens=[n // 2 for n in s.lens()], strides=strides
        )

    made = migraphx.custom_op(
        name="every_second", compute_shape=halved, output_alias=lambda _shapes: [0],
        compute=lambda s, a: migraphx.argument_from_pointer(s, a[0].data_ptr()),
    )  # fmt: skip
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[4, 4, 4]))
    m.add_return([m.add_instruction(made, [x])])
    p.compile(migraphx.get_target("cpu"))
    found = p.run({"x": np.arange(64, dtype=np.float32).reshape(4, 4, 4)})[0]
    assert found.tolist() == [0, 2, 8, 10, 32, 34, 40, 42]
    assert found.get_shape().strides() == [32, 8, 2]


def test_attributes_are_those_of_any_operation():
    migraphx.custom_op(
        name="powers", attributes={"k": 3, "f": 0.1, "names": ["a"], "axes": []},
        compute_shape=lambda s, _m: s[0],
        compute=lambda _s, a, attributes: np.asarray(a[0]) ** attributes["k"],
    )  # fmt: skip
    assert migraphx.op("powers", k=5).values() == {
        "k": 5, "f": 0.10000000149011612, "names": ["a"], "axes": [],
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="No key 'q' in powers"):
        migraphx.op("powers", q=1)
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[3]))
    m.add_return([m.add_instruction(migraphx.op("powers", axes=[1, 2]), [x])])
    assert "powers[k=3,f=0.1,names={a},axes={1, 2}](x)" in str(p)
    assert p.run({"x": np.array([1, 2, 3], np.float32)})[0].tolist() == [1, 8, 27]


def test_passes_see_it():
    made = migraphx.custom_op(
        name="plus_one", compute_shape=lambda s, _m: s[0], compute=lambda _s, a: np.asarray(a[0]) + 1,
        context_free=True,
    )  # fmt: skip
    p = migraphx.program()
    m = p.get_main_module()
    one = m.add_literal(migraphx.create_argument(migraphx.shape(lens=[2]), [1, 2]))
    m.add_return([m.add_instruction(made, [one])])
    migraphx.run_passes(p, ["propagate_constant", "dead_code_elimination"])
    assert "@literal{2, 3}" in str(p)


def test_modules_are_handed_over():
    seen = []

    def shape_of(_shapes, modules):
        seen.append([i.name() for i in modules[0]])
        return list(modules[0])[-2].shape()

    made = migraphx.custom_op(
        name="calls", compute_shape=shape_of,
        compute=lambda _s, a, modules: modules[0](np.asarray(a[0]))[0],
    )  # fmt: skip
    p = migraphx.program()
    body, m = p.create_module("body"), p.get_main_module()
    inner = body.add_parameter("a", migraphx.shape(lens=[2]))
    body.add_return([body.add_instruction(migraphx.op("neg"), [inner])])
    x = m.add_parameter("x", migraphx.shape(lens=[2]))
    m.add_return([m.add_instruction(made, [x], [body])])
    assert seen == [["@param", "neg", "@return"]]
    assert p.run({"x": np.array([1, 2], np.float32)})[0].tolist() == [-1, -2]


def test_tuples_go_both_ways():
    pair = migraphx.custom_op(
        name="pair",
        compute_shape=lambda s, _m: migraphx.shape(type="tuple_type", sub_shapes=[s[0], s[0]]),
        compute=lambda s, a: _tuple(s, a[0]),
    )
    total = migraphx.custom_op(
        name="total", compute_shape=lambda s, _m: s[0].sub_shapes()[0],
        compute=lambda _s, a: sum(map(np.asarray, a[0].get_sub_objects())),
    )  # fmt: skip
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(lens=[2]))
    m.add_return([m.add_instruction(total, [m.add_instruction(pair, [x])])])
    assert p.run({"x": np.array([1, 2], np.float32)})[0].tolist() == [3, 6]


def _tuple(shape, value):
    from workbench.compat.migraphx.arguments import of_parts

    return of_parts(shape.core, [value, migraphx.argument(2 * np.asarray(value))])


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match="compute_shape is missing"):
        migraphx.custom_op(name="x")
    with pytest.raises(TypeError, match="name: expected str"):
        migraphx.custom_op(name=3, compute_shape=vector)
    with pytest.raises(RuntimeError, match="'relu' is the name of a built-in operation"):
        migraphx.custom_op(name="relu", compute_shape=vector)
    with pytest.raises(RuntimeError, match="unsupported data type tuple"):
        migraphx.custom_op(name="x", attributes={"a": (1, 2)}, compute_shape=vector)
    made = migraphx.custom_op(name="x", compute_shape=lambda _s, _m: "float")
    m = migraphx.program().get_main_module()
    with pytest.raises(RuntimeError, match=r"returned 'float'; expected a migraphx\.shape"):
        m.add_instruction(made, [])


@pytest.mark.parametrize(
    ("flags", "axis", "found"),
    [
        (["clip_min"], -4, 1),
        (["clip_min", "include_min"], -4, 0),
        (["include_min"], -3, 0),
        ([], -2, 1),
    ],
)
def test_the_least_axis_is_included_where_that_is_said(flags, axis, found):
    migraphx.custom_op(
        name="my_view",
        attributes={"axis": axis},
        compute_shape=lambda _shapes, _, attributes: migraphx.shape(lens=[attributes["axis"] + 1]),
        op_attributes={"normalize_axes": {"axis": flags}},
        normalizes=True,
    )
    mm = migraphx.program().get_main_module()
    x = mm.add_parameter("x", migraphx.shape(lens=[2, 2, 2]))
    assert mm.add_instruction(migraphx.op("my_view"), [x]).shape().lens() == [found + 1]


def test_the_least_axis_is_out_of_range_where_nothing_is_said():
    migraphx.custom_op(
        name="my_view",
        attributes={"axis": -3},
        compute_shape=lambda shapes, _: shapes[0],
        op_attributes={"normalize_axes": {"axis": []}},
        normalizes=True,
    )
    mm = migraphx.program().get_main_module()
    x = mm.add_parameter("x", migraphx.shape(lens=[2, 2, 2]))
    with pytest.raises(RuntimeError, match="expected -2 to 2"):
        mm.add_instruction(migraphx.op("my_view"), [x])


def concatenation(axis, *fills, lens=(2, 2), readers=()):
    """A program in which operations of a target fill buffers, which another one concatenates."""

    def joined(shapes, _):
        return shapes[-1]

    def last(shapes):
        return [len(shapes) - 1]

    migraphx.custom_op(
        name="my::concat", attributes={"axis": axis}, compute_shape=joined, output_alias=last
    )
    for name in ("my::fill", "my::fill_gaps", "my::copy"):
        migraphx.custom_op(name=name, compute_shape=joined, output_alias=last)
    for name in readers:
        migraphx.custom_op(name=name, compute_shape=joined)
    p = migraphx.program()
    mm = p.get_main_module()

    def allocated(lens):
        return mm.add_instruction(migraphx.op("allocate", shape=migraphx.shape(lens=lens)), [])

    made = [mm.add_instruction(migraphx.op(f), [allocated(list(lens))]) for f in fills]
    whole = [n * len(fills) if k == axis else n for k, n in enumerate(lens)]
    found = mm.add_instruction(migraphx.op("my::concat"), [*made, allocated(whole)])
    mm.add_return([found, *(mm.add_instruction(migraphx.op(r), [made[0]]) for r in readers)])
    return p


def eliminated(p, **names):
    given = {"concat": "my::concat", "allocate": "allocate", "copy": "my::copy"} | names
    migraphx.run_passes(p, [("eliminate_concat", {"concat_opt": given}), "dead_code_elimination"])
    return [i.name() for i in p.get_main_module()]


def test_a_concatenation_of_a_target_writes_into_its_buffer():
    found = eliminated(concatenation(0, "my::fill", "my::fill"))
    assert found == ["allocate", "slice", "slice", "my::fill", "my::fill", "identity", "@return"]


def test_a_concatenation_of_a_target_stays_where_parts_have_gaps():
    assert "my::concat" in eliminated(concatenation(1, "my::fill", "my::fill"))
    assert "my::concat" not in eliminated(
        concatenation(1, "my::fill_gaps", "my::fill_gaps"), non_packed_output=["my::fill_gaps"]
    )
    assert "my::concat" not in eliminated(
        concatenation(1, *["my::fill"] * 2), non_packed_output=["*"]
    )


def test_a_concatenation_of_a_target_copies_one_operand():
    found = eliminated(
        concatenation(1, "my::fill_gaps", "my::fill"), non_packed_output=["my::fill_gaps"]
    )
    assert found.count("my::copy") == 1
    assert "my::concat" not in found


def test_a_reader_of_packed_values_keeps_a_concatenation_of_a_target():
    p = concatenation(1, "my::fill", "my::fill", readers=["my::read"])
    options = {"non_packed_output": ["*"]}
    assert "my::concat" in eliminated(p, **options, packed_input_only=["my::read"])
    found = eliminated(p, **options)
    assert "my::concat" not in found
    assert found.count("my::copy") == 1


def test_names_of_a_target_are_checked():
    with pytest.raises(RuntimeError, match="no key 'alloc'"):
        eliminated(concatenation(0, "my::fill"), alloc="allocate")


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_result_may_be_in_the_memory_of_several_inputs(target):
    migraphx.custom_op(
        name="my_either",
        compute_shape=lambda shapes, _: shapes[0],
        compute=lambda _, arguments: arguments[1],
        output_alias=lambda _shapes: [0, 1],
    )
    p = migraphx.program()
    mm, s = p.get_main_module(), migraphx.shape(lens=[4])
    x = mm.add_parameter("x", s)
    buffers = [mm.add_instruction(migraphx.op("allocate", shape=s), []) for _ in range(2)]
    filled = [mm.add_instruction(migraphx.op("copy"), [x, b]) for b in buffers]
    either = mm.add_instruction(migraphx.op("my_either"), filled)
    third = mm.add_instruction(migraphx.op("allocate", shape=s), [])
    other = mm.add_instruction(migraphx.op("copy"), [x, third])
    mm.add_return([mm.add_instruction(migraphx.op("add"), [either, other])])
    migraphx.run_passes(p, ["memory_coloring"])
    places = [i.op().values()["offset"] for i in mm if i.name() == "load"]
    assert len(set(places)) == 3
    p.compile(migraphx.get_target(target))
    scratch = migraphx.generate_argument(p.get_parameter_shapes()["scratch"])
    given = {"x": np.ones(4, np.float32), "scratch": scratch}
    assert p.run(given)[0].tolist() == [2] * 4


def test_an_alias_names_inputs():
    migraphx.custom_op(
        name="my_either", compute_shape=lambda shapes, _: shapes[0], output_alias=lambda _: [0, 3]
    )
    mm = migraphx.program().get_main_module()
    x = mm.add_parameter("x", migraphx.shape(lens=[4]))
    with pytest.raises(RuntimeError, match="output_alias"):
        mm.add_instruction(migraphx.op("my_either"), [x, x])
