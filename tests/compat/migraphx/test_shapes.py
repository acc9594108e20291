"""Shapes and dynamic dimensions: constructors, predicates, printed forms, errors."""

import numpy as np
import pytest

from workbench.compat import migraphx

TYPES = {
    "bool_type": (0, 1), "half_type": (1, 2), "float_type": (2, 4), "double_type": (3, 8),
    "uint8_type": (4, 1), "int8_type": (5, 1), "uint16_type": (6, 2), "int16_type": (7, 2),
    "int32_type": (8, 4), "int64_type": (9, 8), "uint32_type": (10, 4), "uint64_type": (11, 8),
    "fp8e4m3fnuz_type": (12, 1), "fp8e4m3fn_type": (13, 1), "fp8e5m2_type": (14, 1),
    "bf16_type": (15, 2), "fp8e5m2fnuz_type": (16, 1), "fp4x2_type": (18, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_each_type_has_its_number_size_and_name(name):
    number, size = TYPES[name]
    s = migraphx.shape(type=name, lens=[3])
    assert s.type() is getattr(migraphx.shape.type_t, name)
    assert int(s.type()) == number
    assert s.type_size() == size
    assert s.bytes() == 3 * size
    assert s.type_string() == name
    assert repr(s) == f"{name}, {{3}}, {{1}}"


@pytest.mark.parametrize("name", ["float", "half", "double", "bool", "int64_t", "uint8_t", "bf16"])
def test_the_names_of_cpp_mean_the_same_types(name):
    kind = migraphx.shape(type=name).type_string()
    assert kind == name.removesuffix("_t") + "_type"


def test_enumeration_prints_as_an_enumeration():
    assert str(migraphx.shape.type_t.float_type) == "type_t.float_type"
    assert repr(migraphx.shape.type_t.float_type) == "<type_t.float_type: 2>"
    assert migraphx.shape.type_t(2) is migraphx.shape.type_t.float_type
    with pytest.raises(TypeError, match="float_type"):
        migraphx.shape.type_t("float")


def test_defaults_and_unknown_keywords():
    s = migraphx.shape(nonsense=3)
    assert (s.type_string(), s.lens(), s.strides()) == ("float_type", [1], [1])


def test_standard_shape():
    s = migraphx.shape(lens=[2, 3, 4])
    assert (s.ndim(), s.elements(), s.strides()) == (3, 24, [12, 4, 1])
    assert s.standard()
    assert s.packed()
    assert not (s.transposed())
    assert not (s.broadcasted())
    assert not (s.scalar())
    assert not (s.dynamic())


def test_strides_and_permutations():
    assert migraphx.shape(lens=[3, 2], strides=[1, 3]).transposed()
    assert migraphx.shape(lens=[1, 64, 3, 3], strides=[0, 1, 0, 0]).broadcasted()
    assert migraphx.shape(lens=[2, 3], strides=[0, 0]).scalar()
    assert migraphx.shape(lens=[2, 3, 4], permutation=[0, 2, 1]).strides() == [12, 1, 3]
    both = migraphx.shape(lens=[2, 3], strides=[3, 1], permutation=[1, 0])
    assert both.strides() == [3, 1]


def test_equality_and_no_hash():
    assert migraphx.shape(lens=[2]) == migraphx.shape(lens=[2])
    assert migraphx.shape(lens=[2]) != migraphx.shape(lens=[2], strides=[2])
    with pytest.raises(TypeError, match="unhashable"):
        hash(migraphx.shape())
    with pytest.raises(TypeError, match="expected shape"):
        assert migraphx.shape() == 3


def test_dynamic_dimensions():
    unknown = migraphx.shape.dynamic_dimension()
    assert unknown.is_fixed()
    assert (unknown.min, unknown.max, unknown.optimals) == (0, 0, set())
    ranged = migraphx.shape.dynamic_dimension(1, 4, {2, 4})
    assert not ranged.is_fixed()
    assert (ranged.min, ranged.max, ranged.optimals) == (1, 4, {2, 4})
    assert ranged != migraphx.shape.dynamic_dimension(1, 4, {2, 4}), "as MIGraphX: by identity"
    with pytest.raises(AttributeError):
        ranged.min = 3


@pytest.mark.parametrize("args", [(1,), ("a", 2), (-1, 2), (1, 2, [3]), (1, 2, {3}, 4), (1.5, 2)])
def test_wrong_dynamic_dimensions_are_type_errors(args):
    with pytest.raises(TypeError):
        migraphx.shape.dynamic_dimension(*args if args != (1,) else ("n",))


def test_dynamic_shapes():
    dims = [migraphx.shape.dynamic_dimension(1, 4), migraphx.shape.dynamic_dimension(4, 4)]
    s = migraphx.shape(type="float", dyn_dims=dims)
    assert repr(s) == "dynamic, float_type, {[1..4], 4}"
    assert s.dynamic()
    assert not (s.standard())
    assert not (s.packed())
    assert s.ndim() == 2
    assert [d.max for d in s.dyn_dims()] == [4, 4]
    for method in (s.lens, s.strides, s.elements):
        with pytest.raises(RuntimeError, match="dynamic"):
            method()
    with pytest.raises(RuntimeError, match="static"):
        migraphx.shape(lens=[2]).dyn_dims()


def test_tuples_of_shapes():
    parts = [migraphx.shape(lens=[2]), migraphx.shape(type="int8", lens=[3, 1])]
    s = migraphx.shape(type="tuple_type", sub_shapes=parts)
    assert s.sub_shapes() == parts
    assert repr(s) == "[float_type, {2}, {1}, int8_type, {3, 1}, {1, 1}]"
    assert s.bytes() == 11
    assert parts[0].sub_shapes() == []


def test_json_there_and_back():
    dims = [migraphx.shape.dynamic_dimension(1, 4, {2})]
    for s in (migraphx.shape(type="half", lens=[2], strides=[3]), migraphx.shape(dyn_dims=dims)):
        assert migraphx.shape.from_json(s.to_json()) == s
    with pytest.raises(RuntimeError):
        migraphx.shape.from_json("[1")


@pytest.mark.parametrize("name", ["flt", "", "float32 ", "int65", 2])
def test_an_unknown_type_is_an_index_error(name):
    with pytest.raises(IndexError, match="int64_type"):
        migraphx.shape(type=name)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"lens": (2, 3)}, "tuple"),
        ({"lens": [2, -3]}, "-3"),
        ({"lens": [2.5]}, "2.5"),
        ({"lens": [2, 3], "strides": [1]}, "counts"),
        ({"lens": [2, 3], "permutation": [0, 0]}, "permutation"),
        ({"lens": [1 << 40]}, "32 bits"),
        ({"dyn_dims": ["a"]}, "dyn_dims"),
        ({"type": "tuple_type", "sub_shapes": [3]}, "sub_shapes"),
    ],
)
def test_wrong_values_are_runtime_errors_that_say_what(keywords, text):
    with pytest.raises(RuntimeError, match=text):
        migraphx.shape(**keywords)


def test_only_keywords():
    with pytest.raises(TypeError):
        migraphx.shape([2, 3])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"type": np.float32, "lens": [2]}, "the name of a type"),
        ({"type": "float", "lens": (2, 3)}, "give a list"),
        ({"dyn_dims": [migraphx.sym.var("n", 1, 4)]}, r"shape.dynamic_dimension\(n\)"),
    ],
)
def test_the_message_says_what_to_give_instead(given, hint):
    with pytest.raises(RuntimeError, match=hint):
        migraphx.shape(**given)
