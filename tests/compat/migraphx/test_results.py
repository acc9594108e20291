"""The layout of results: row-major on ref, that of the last view where a run decides the lengths."""

import numpy as np
import pytest

from workbench.compat import migraphx

range_of = migraphx.shape.dynamic_dimension


def result(op, *shapes, given=None, target="ref"):
    """The result of one operation on parameters, and the shape that the compiled program announces."""
    p = migraphx.program()
    mm = p.get_main_module()
    inputs = [mm.add_parameter(f"x{i}", s) for i, s in enumerate(shapes)]
    mm.add_return([mm.add_instruction(op, inputs)] if op else inputs)
    p.compile(migraphx.get_target(target))
    given = given or [migraphx.generate_argument(s) for s in shapes]
    (found,) = p.run({f"x{i}": g for i, g in enumerate(given)})
    return found, p.get_output_shapes()[0]


@pytest.mark.parametrize(
    "op",
    [
        migraphx.op("transpose", permutation=[1, 0]),
        migraphx.op("slice", axes=[1], starts=[1], ends=[3]),
        migraphx.op("step", axes=[0], steps=[2]),
        migraphx.op("multibroadcast", out_lens=[2, 3, 4]),
    ],
)
def test_static_views_become_row_major_on_ref(op):
    found, announced = result(op, migraphx.shape(lens=[3, 4]))
    assert found.get_shape() == announced
    assert announced == migraphx.shape(lens=announced.lens())


@pytest.mark.parametrize("op", [None, migraphx.op("layout", permutation=[1, 0])])
def test_what_asks_for_its_layout_keeps_it_on_ref(op):
    turned = migraphx.shape(lens=[3, 4], strides=[1, 3])
    found, announced = result(op, migraphx.shape(lens=[3, 4]) if op else turned)
    assert found.get_shape() == announced == turned


def test_a_scalar_stays_one_on_ref():
    scalar = migraphx.shape(lens=[1], strides=[0])
    assert result(migraphx.op("neg"), scalar)[0].get_shape() == scalar


def test_other_targets_keep_strides():
    op = migraphx.op("transpose", permutation=[1, 0])
    found, announced = result(op, migraphx.shape(lens=[3, 4]), target="cpu")
    assert found.get_shape() == announced == migraphx.shape(lens=[4, 3], strides=[1, 4])


def test_a_view_of_ranges_has_the_strides_of_what_it_views():
    x = migraphx.shape(dyn_dims=[range_of(2, 4), range_of(5, 5)])
    op = migraphx.op("slice", axes=[1], starts=[1], ends=[3])
    data = np.arange(15, dtype=np.float32).reshape(3, 5)
    found, _ = result(op, x, given=[data])
    assert found.get_shape() == migraphx.shape(lens=[3, 2], strides=[5, 1])
    assert found.tolist() == data[:, 1:3].ravel().tolist()
    dims = [migraphx.shape(lens=[3]), migraphx.shape(type="int64_type", lens=[2])]
    found, _ = result(
        migraphx.op("broadcast_with_dims"), *dims, given=[data[0, :3].copy(), np.array([4, 1])]
    )
    assert found.get_shape() == migraphx.shape(lens=[4, 3], strides=[0, 1])
    assert found.tolist() == [0, 1, 2] * 4


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_one_condition_chooses_among_operands_of_different_lengths(target):
    some = migraphx.shape(dyn_dims=[range_of(1, 2)] * 2)
    shapes = [migraphx.shape(type="bool_type", lens=[1]), some, some]
    x, y = np.ones((1, 1), np.float32), np.zeros((2, 1), np.float32)
    for condition, chosen in ((True, x), (False, y)):
        given = [np.array([condition]), x, y]
        found, _ = result(migraphx.op("where"), *shapes, given=given, target=target)
        assert found.get_shape().lens() == list(chosen.shape)
        assert found.tolist() == chosen.ravel().tolist()


@pytest.mark.parametrize("target", ["ref", "cpu", "gpu"])
def test_a_reduction_of_ranges_becomes_a_kernel_whose_body_has_them(target):
    p = migraphx.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", migraphx.shape(dyn_dims=[range_of(1, 3), range_of(4, 8)]))
    mm.add_return([mm.add_instruction(migraphx.op("reduce_sum", axes=[1]), [x])])
    migraphx.run_passes(p, ["fuse_reduce", "dead_code_elimination"])
    assert [i.name() for i in mm] == ["@param", "fused_reduce", "@return"]
    body = p.get_module("main:reduce_sum0")
    assert repr(next(iter(body)).shape()) == "dynamic, float_type, {[1..3], [4..8]}"
    p.compile(migraphx.get_target(target))
    assert p.run({"x": np.ones((2, 5), np.float32)})[0].tolist() == [5, 5]
