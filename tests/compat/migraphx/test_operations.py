"""Operations and macros: names, attributes as MIGraphX converts them, errors."""

import numpy as np
import pytest

from workbench.compat import migraphx


def test_name_and_values_with_defaults():
    op = migraphx.op("concat", axis=1)
    assert op.name() == "concat"
    assert op.values() == {"axis": 1}
    assert migraphx.op("add").values() == {}
    assert migraphx.op("convolution").values() == {
        "padding": [0, 0], "stride": [1, 1], "dilation": [1, 1], "group": 1, "padding_mode": 0,
    }  # fmt: skip


def test_floats_are_those_of_32_bits():
    assert migraphx.op("leaky_relu", alpha=0.1).values() == {"alpha": 0.10000000149011612}
    assert migraphx.op("leaky_relu").values() == {"alpha": 0.009999999776482582}
    assert migraphx.op("elu", alpha=1e300).values() == {"alpha": float("inf")}


def test_values_make_the_same_operation():
    for name in ("pooling", "lstm", "resize", "dot", "topk", "roialign"):
        op = migraphx.op(name)
        assert repr(migraphx.op(name, **op.values())) == repr(op)


def test_enumerations():
    op = migraphx.op("pooling", mode=migraphx.op.pooling_mode.max)
    assert "mode=max" in repr(op)
    assert op.values()["mode"] == 1
    assert [int(m) for m in (op.pooling_mode.average, op.pooling_mode.lpnorm)] == [0, 2]
    lstm = migraphx.op("lstm", direction=migraphx.op.rnn_direction.bidirectional)
    assert "direction=bidirectional" in repr(lstm)
    assert int(migraphx.op.rnn_direction.reverse) == 1
    kind = migraphx.shape.type_t.half_type
    assert repr(migraphx.op("convert", target_type=kind)) == "convert[target_type=1]"


def test_what_counts_as_an_integer():
    for one in (1, np.int64(1), np.uint8(1), True):
        assert migraphx.op("concat", axis=one).values() == {"axis": 1}


@pytest.mark.parametrize(
    "dim",
    [
        migraphx.shape.dynamic_dimension(1, 4),
        migraphx.shape.dynamic_dimension("2*n", {"n": migraphx.shape.dynamic_dimension(1, 4)}),
    ],
)
def test_a_shape_may_be_a_dict_with_dimensions_in_it(dim):
    whole = migraphx.shape(dyn_dims=[dim])
    empty = {k: [] for k in ("lens", "strides", "dyn_strides", "sub_shapes")}
    given = {"type": "float_type", "dynamic_dimensions": [dim], **empty}
    assert repr(migraphx.op("allocate", shape=given)) == repr(migraphx.op("allocate", shape=whole))
    both = {"type": "tuple_type", "dynamic_dimensions": [], **empty, "sub_shapes": [given, whole]}
    wanted = migraphx.shape(type="tuple_type", sub_shapes=[whole, whole])
    made = migraphx.op("select_module", output_dyn_shapes=both)
    assert repr(made) == repr(migraphx.op("select_module", output_dyn_shapes=wanted))


def test_a_choice_without_modules_has_the_shape_that_it_is_given():
    mm = migraphx.program().get_main_module()
    whole = migraphx.shape(type="tuple_type", sub_shapes=[migraphx.shape(lens=[2])])
    x = mm.add_parameter("x", migraphx.shape(lens=[3]))
    made = mm.add_instruction(migraphx.op("select_module", output_dyn_shapes=whole), [x])
    assert made.shape() == whole


def test_shapes_and_dimensions_in_attributes():
    s = migraphx.shape(lens=[2, 3])
    op = migraphx.op("allocate", shape=s)
    assert op.values()["shape"]["lens"] == [2, 3]
    assert repr(migraphx.op("allocate", shape=op.values()["shape"])) == repr(op)
    dims = [migraphx.shape.dynamic_dimension(1, 4)]
    assert "[1..4]" in repr(migraphx.op("multibroadcast", out_dyn_dims=dims))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, 0), "give a list"),
        (np.array([1, 0]), "give a list"),
        ([(1,), 0], "tuple"),
        ([1 << 31, 0], "32 bits"),
        ([np.float32(1), 0], "float32"),
        (None, "NoneType"),
        ({1, 0}, "set"),
        ([1j, 0], "complex"),
        (["a", 0], "an int"),
    ],
)
def test_other_values_are_runtime_errors(value, text):
    with pytest.raises(RuntimeError, match=text):
        migraphx.op("transpose", permutation=value)


def test_unknown_names_are_runtime_errors():
    with pytest.raises(RuntimeError, match=r"Operator not found: ad \(.*did you mean .*add"):
        migraphx.op("ad")
    with pytest.raises(RuntimeError, match="No key 'axes' in concat; its attributes are: axis"):
        migraphx.op("concat", axes=1)
    with pytest.raises(RuntimeError, match="mode"):
        migraphx.op("pooling", mode=7)
    for wrong in (3, None, ["add"]):
        with pytest.raises(TypeError, match="name: expected str"):
            migraphx.op(wrong)
    with pytest.raises(TypeError):
        migraphx.op()


def test_macros():
    made = migraphx.macro("gemm", alpha=2.0, transB=True)
    assert made.name() == "gemm"
    assert made.options() == {"alpha": 2.0, "transB": True}
    assert migraphx.macro("gemm", alpha=0.1).options() == {"alpha": 0.10000000149011612}
    assert migraphx.macro("clip").options() == {}
    with pytest.raises(RuntimeError, match="tuple"):
        migraphx.macro("tile", repeats=(1, 2))
