"""Models: options of `parse_onnx` and `parse_onnx_buffer` as MIGraphX has them, and their errors."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from workbench.compat import migraphx

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, outputs):
    infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph(nodes, "graph", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def sum_model(lens=(2, 3)):
    node = helper.make_node("Add", ["a", "b"], ["c"], name="sum")
    return model([node], [("a", FLOAT, lens), ("b", FLOAT, lens)], ["c"])


def dims(p, name="a"):
    return repr(p.get_parameter_shapes()[name])


@pytest.fixture
def path(tmp_path):
    def save(made, name="model.onnx"):
        onnx.save(made, tmp_path / name)
        return str(tmp_path / name)

    return save


def test_file_and_buffer_give_one_program(path):
    made = sum_model()
    p = migraphx.parse_onnx(path(made))
    assert p == migraphx.parse_onnx_buffer(made.SerializeToString())
    assert p == migraphx.parse_onnx(filename=path(made))
    assert repr(p) == (
        'module: "main"\n'
        "b = @param:b -> float_type, {2, 3}, {3, 1}\n"
        "a = @param:a -> float_type, {2, 3}, {3, 1}\n"
        "@2 = add(a,b) -> float_type, {2, 3}, {3, 1}\n"
        "@3 = @return(@2)\n\n"
    )


def test_a_value_without_dimensions_is_a_scalar(path):
    p = migraphx.parse_onnx(path(sum_model(())))
    assert dims(p) == "float_type, {1}, {0}"
    p = migraphx.parse_onnx(path(sum_model()), map_input_dims={"b": []})
    assert dims(p, "b") == "float_type, {1}, {0}"


def test_open_dimensions(path):
    file = path(sum_model(("n", 3)))
    assert dims(migraphx.parse_onnx(file)) == "float_type, {1, 3}, {3, 1}"
    assert dims(migraphx.parse_onnx(file, default_dim_value=5)) == "float_type, {5, 3}, {3, 1}"
    ranged = migraphx.shape.dynamic_dimension(1, 4, {2})
    assert dims(migraphx.parse_onnx(file, 0, ranged)) == "dynamic, float_type, {[1..4], 3}"
    p = migraphx.parse_onnx(file, dim_params={"n": migraphx.shape.dynamic_dimension(2, 6)})
    assert dims(p) == "dynamic, float_type, {[2..6], 3}"
    p = migraphx.parse_onnx(file, map_input_dims={"a": [7, 3], "b": [7, 3]})
    assert dims(p) == "float_type, {7, 3}, {3, 1}"
    three = migraphx.shape.dynamic_dimension(3, 3)
    p = migraphx.parse_onnx(file, map_dyn_input_dims={"a": [ranged, three], "b": [ranged, three]})
    assert dims(p) == "dynamic, float_type, {[1..4], 3}"
    assert p.get_parameter_shapes()["a"].dyn_dims()[0].optimals == {2}


def test_options_that_exclude_each_other(path):
    file, ranged = path(sum_model()), migraphx.shape.dynamic_dimension(1, 4)
    with pytest.raises(RuntimeError, match="default_dim_value and default_dyn_dim_value"):
        migraphx.parse_onnx(file, default_dim_value=2, default_dyn_dim_value=ranged)
    given = {"map_input_dims": {"a": [2, 3]}, "map_dyn_input_dims": {"b": [ranged, ranged]}}
    for parse in (
        lambda: migraphx.parse_onnx(file, **given),
        lambda: migraphx.parse_onnx_buffer(sum_model().SerializeToString(), **given),
    ):
        with pytest.raises(RuntimeError, match="map_input_dims and map_dyn_input_dims"):
            parse()


def test_unknown_operators(path, capfd):
    nodes = [
        helper.make_node("Neg", ["a"], ["n"]),
        helper.make_node("Nonsense", ["n"], ["c"], domain="my"),
    ]
    file = path(model(nodes, [("a", FLOAT, [2])], ["c"]))
    with pytest.raises(RuntimeError, match="Nonsense"):
        migraphx.parse_onnx(file)
    p = migraphx.parse_onnx(file, skip_unknown_operators=True)
    assert "unknown:Nonsense(@1)" in repr(p)
    assert capfd.readouterr().err == ""


def test_the_program_so_far_is_printed_on_error(path, capfd):
    nodes = [
        helper.make_node("Neg", ["a"], ["n"]),
        helper.make_node("Concat", ["n"], ["c"], axis=7),
    ]
    file = path(model(nodes, [("a", FLOAT, [2])], ["c"]))
    with pytest.raises(RuntimeError, match="axis"):
        migraphx.parse_onnx(file, print_program_on_error=True)
    assert "@1 = neg(a)" in capfd.readouterr().err


def test_loops(path):
    state = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c_in"], ["c_out"]),
            helper.make_node("Add", ["s_in", "s_in"], ["s_out"]),
            helper.make_node("Identity", ["s_out"], ["scan"]),
        ],
        "body",
        [state("i", TensorProto.INT64, [1]), state("c_in", TensorProto.BOOL, [1]), state("s_in", FLOAT, [1])],
        [state("c_out", TensorProto.BOOL, [1]), state("s_out", FLOAT, [1]), state("scan", FLOAT, [1])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["", "", "s"], ["last", "scans"], body=body)
    file = path(model([node], [("s", FLOAT, [1])], ["last", "scans"]))

    def rows(**options):
        return [s.lens() for s in migraphx.parse_onnx(file, **options).get_output_shapes()]

    assert rows() == [[1], [10, 1]]
    assert rows(max_loop_iterations=15) == [[1], [15, 1]]
    assert rows(max_loop_iterations=15, limit_max_iterations=12) == [[1], [12, 1]]
    p = migraphx.parse_onnx(file, max_loop_iterations=3)
    assert p.run({"s": np.float32([1])})[1].tolist() == [2, 4, 8]


def test_debug_symbols(path):
    p = migraphx.parse_onnx(path(sum_model()), use_debug_symbols=True)
    found = {s for i in p.get_main_module() for s in i.get_debug_symbols()}
    assert found == {"sum", "@output_0:c"}
    assert not any(
        i.get_debug_symbols() for i in migraphx.parse_onnx(path(sum_model())).get_main_module()
    )


def test_external_data(tmp_path):
    weights = onnx.numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    made = model([helper.make_node("Neg", ["w"], ["c"])], [], ["c"])
    made.graph.initializer.append(weights)
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    data = (tmp_path / "m.onnx").read_bytes()
    p = migraphx.parse_onnx_buffer(data, external_data_path=str(tmp_path))
    assert p.run({})[0].tolist()[-1] == -599
    with pytest.raises(RuntimeError):
        migraphx.parse_onnx_buffer(data)


def test_wrong_files_and_arguments(path, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\x0a\xffnonsense")
    for wrong in (
        lambda: migraphx.parse_onnx(str(tmp_path / "none.onnx")),
        lambda: migraphx.parse_onnx(str(tmp_path / "bad.onnx")),
        lambda: migraphx.parse_onnx_buffer(b"nonsense"),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    file = path(sum_model())
    for wrong in (
        migraphx.parse_onnx,
        lambda: migraphx.parse_onnx(3),
        lambda: migraphx.parse_onnx(file, default_dim_value=1.5),
        lambda: migraphx.parse_onnx(file, default_dim_value=-1),
        lambda: migraphx.parse_onnx(file, default_dyn_dim_value=3),
        lambda: migraphx.parse_onnx(file, map_input_dims={"a": 3}),
        lambda: migraphx.parse_onnx(file, map_input_dims=[("a", [3])]),
        lambda: migraphx.parse_onnx(file, map_dyn_input_dims={"a": [3]}),
        lambda: migraphx.parse_onnx(file, nonsense=3),
        lambda: migraphx.parse_onnx_buffer(b"", max_loop_iterations=3),
        lambda: migraphx.parse_tf(3),
    ):
        with pytest.raises(TypeError, match="incompatible arguments"):
            wrong()


def test_operators():
    found = migraphx.get_onnx_operators()
    assert found == sorted(set(found))
    assert {"ATen", "Conv", "Xor"} <= set(found)


def test_exact_lengths_where_they_are_asked_for():
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, lens)
        for n, lens in (("boxes", [1, 6, 4]), ("scores", [1, 1, 6]))
    ]
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["y"])
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph).SerializeToString()
    plain = migraphx.parse_onnx_buffer(made)
    exact = migraphx.parse_onnx_buffer(made, use_dyn_output=True)
    assert repr(plain.get_output_shapes()[0]) == "int64_type, {6, 3}, {3, 1}"
    assert repr(exact.get_output_shapes()[0]) == "dynamic, int64_type, {[0..6], 3}"
