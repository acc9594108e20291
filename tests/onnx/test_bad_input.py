"""Damaged, hostile and unsupported models: one clear ModelError each, and nothing allocated."""

import contextlib
import struct
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.models import CONTRIB, floats, model
from workbench.compiler.errors import ModelError
from workbench.compiler.onnx import onnx_op, parse_onnx, registry
from workbench.compiler.onnx.tensors import MAX_TENSOR_BYTES
from workbench.compiler.run import reference


def refused(made, *parts, **options):
    """The message of the error, which has to say all of ``parts``."""
    with pytest.raises(ModelError) as caught:
        parse_onnx(made, **options)
    message = str(caught.value)
    for part in parts:
        assert part in message
    return message


def node(op, inputs, outputs, name="", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def relu(**more):
    return model([node("Relu", ["x"], ["y"], "r")], [floats("x", 2)], ["y"], **more)


def with_weight(tensor):
    made = model([node("Add", ["x", "w"], ["y"])], [floats("x", 2)], ["y"])
    made.graph.initializer.append(tensor)
    return made


def raw(dims, data, type=TensorProto.FLOAT):
    return TensorProto(name="w", dims=dims, data_type=type, raw_data=data)


@pytest.fixture
def saved(tmp_path):
    """A model with weights worth more than a kilobyte, on disk."""
    weights = numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w")
    path = tmp_path / "model.onnx"
    path.write_bytes(with_weight(weights).SerializeToString())
    return path


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none.onnx", "none.onnx", "no such file")


def test_a_folder(tmp_path):
    refused(str(tmp_path), "folder", "expected the ONNX file")


def test_an_empty_file(tmp_path):
    (tmp_path / "e.onnx").touch()
    refused(tmp_path / "e.onnx", "e.onnx", "empty")
    refused(b"", "empty")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, 7])
def test_what_is_no_path(path):
    refused(path)


@pytest.mark.parametrize("keep", [0.001, 0.1, 0.5, 0.9, 0.9999])
def test_a_truncated_model(saved, keep):
    data = saved.read_bytes()
    saved.write_bytes(data[: max(1, int(len(data) * keep))])
    assert "model.onnx" in refused(saved)
    refused(data[: max(1, int(len(data) * keep))])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "Git LFS"),
        (b"PK\x03\x04 and so on", "ZIP"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b'{"a": 1}', "JSON"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"hello, this is a text", "not an ONNX model"),
        (bytes(range(256)), "not an ONNX model"),
        (b"\xff" * 100, "not an ONNX model"),
        (b"\x08\x07", "no graph"),
    ],
)
def test_what_is_not_onnx_at_all(data, what):
    refused(data, what)


def test_random_damage_is_refused_or_harmless_and_never_crashes():
    random = np.random.default_rng(0)
    good = relu().SerializeToString()
    for _ in range(300):
        data = bytearray(good)
        for place in random.integers(0, len(data), 3):
            data[place] = random.integers(0, 256)
        with contextlib.suppress(ModelError):
            parse_onnx(bytes(data))


def test_a_cycle():
    nodes = [node("Relu", ["b"], ["a"], "first"), node("Neg", ["a"], ["b"], "second")]
    refused(model(nodes, [floats("x", 2)], ["b"]), "cycle", "'first'", "'second'")


def test_a_node_that_takes_its_own_output():
    refused(model([node("Add", ["x", "y"], ["y"], "n")], [floats("x", 2)], ["y"]), "cycle", "'n'")


def test_a_value_that_nobody_makes():
    made = model([node("Add", ["x", "z"], ["y"], "sum")], [floats("x", 2)], ["y"])
    refused(made, "'sum'", "'z'", "neither an input")


def test_an_output_that_nobody_makes():
    refused(model([node("Relu", ["x"], ["y"])], [floats("x", 2)], ["z"]), "output 'z'")


def test_a_value_made_twice():
    nodes = [node("Relu", ["x"], ["y"], "a"), node("Neg", ["x"], ["y"], "b")]
    refused(model(nodes, [floats("x", 2)], ["y"]), "'a'", "'b'", "both compute 'y'")
    refused(model([node("Relu", ["x"], ["x"])], [floats("x", 2)], ["x"]))


def test_two_inputs_of_one_name():
    refused(model([node("Relu", ["x"], ["y"])], [floats("x", 2), floats("x", 2)], ["y"]), "'x'")


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_a_tensor_whose_size_disagrees_with_its_data(count):
    tensor = raw([2], struct.pack("f", 0) * count)
    refused(with_weight(tensor), "'w'", f"{count * 4:,} bytes", "expected 8")


def test_a_tensor_whose_typed_values_are_too_few():
    tensor = TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, float_data=[1.0])
    refused(with_weight(tensor), "'w'", "1 values", "expected 3")


def test_a_negative_dimension():
    refused(with_weight(raw([-2], b"")), "'w'", "negative")
    refused(model([node("Relu", ["x"], ["y"])], [floats("x", -5)], ["y"]), "'x'", "negative")


def test_dimensions_past_any_memory_are_refused_before_anything_is_allocated():
    tracemalloc.start()
    refused(with_weight(raw([1 << 40, 1 << 40], b"\0" * 8)), "'w'", f"{MAX_TENSOR_BYTES:,}")
    refused(with_weight(raw([1 << 35], b"\0" * 8)), "'w'", "8 bytes of data")
    refused(model([node("Relu", ["x"], ["y"])], [floats("x", 1 << 31, 1 << 31)], ["y"]), "'x'")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 26


def big(op, *values, **attributes):
    """A node whose constant result would not fit."""
    weights = [numpy_helper.from_array(np.array(v), f"c{k}") for k, v in enumerate(values)]
    inputs = [w.name for w in weights]
    nodes = [node(op, inputs, ["big"], "bomb", **attributes), node("Shape", ["big"], ["s"])]
    nodes += [node("ReduceSum", ["big", "axes"], ["t"]), node("Range", ["z", "t", "one"], ["y"])]
    weights += [
        numpy_helper.from_array(np.array(v), k) for k, v in (("axes", [0]), ("z", 0), ("one", 1))
    ]
    return model(nodes, [floats("x", 2)], ["y"], weights)


@pytest.mark.parametrize(
    "made",
    [
        big("ConstantOfShape", [1 << 20, 1 << 20]),
        big("ConstantOfShape", [1 << 60]),
        big("Range", 0, 1 << 50, 1),
        big("Expand", [1], [1 << 40]),
        big("Tile", [1], [1 << 35]),
        big("Expand", [1], [1 << 20, 1 << 20]),
        big("ConstantOfShape", [-3]),
    ],
)
def test_a_constant_that_would_not_fit(made):
    refused(made, "expected")


def test_a_result_past_any_memory():
    shape = numpy_helper.from_array(np.array([1 << 25, 1 << 25, 2]), "s")
    made = model([node("Expand", ["x", "s"], ["y"], "bomb")], [floats("x", 2)], ["y"], [shape])
    refused(made, "'bomb'", "bytes")


def external(folder, **entries):
    tensor = TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    path = folder / "m.onnx"
    path.write_bytes(with_weight(tensor).SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path):
    """A model's folder, with data in it and beside it."""
    inside = tmp_path / "models"
    inside.mkdir()
    np.arange(6, dtype=np.float32).tofile(inside / "w.bin")
    np.arange(6, dtype=np.float32).tofile(tmp_path / "secret.bin")
    (inside / "link.bin").symlink_to(tmp_path / "secret.bin")
    return inside


def test_external_data_is_read(folder):
    path = external(folder, location="w.bin", offset=8, length=8)
    (result,) = reference.run(parse_onnx(path), {"x": np.zeros(2, np.float32)})
    assert result.tolist() == [2.0, 3.0]
    (result,) = reference.run(
        parse_onnx(path.read_bytes(), external_data_path=folder), {"x": np.zeros(2, np.float32)}
    )
    assert result.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "location", ["../secret.bin", "link.bin", "/etc/passwd", "a/../../secret.bin", "..\\secret.bin", "",
                 "w.bin\0"]
)  # fmt: skip
def test_external_data_stays_in_the_folder(folder, location):
    refused(external(folder, location=location), "'w'", "external data")


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ({"location": "none.bin"}, "no such file"),
        ({"location": "w.bin", "offset": 20}, "cut short"),
        ({"location": "w.bin", "offset": -4}, "offset"),
        ({"location": "w.bin", "offset": "9" * 30}, "offset"),
        ({"location": "w.bin", "length": 4}, "expected 8"),
        ({"location": "w.bin", "length": "many"}, "length"),
    ],
)
def test_external_data_that_does_not_fit(folder, entries, part):
    refused(external(folder, **entries), "'w'", part)


def test_external_data_without_a_folder(folder):
    refused(external(folder, location="w.bin").read_bytes(), "'w'", "external_data_path")


def test_an_unsupported_opset():
    refused(relu(opset=99), "99", "expected 1 to")
    made = relu()
    del made.opset_import[:]
    refused(made, "operator set")


def test_all_unknown_operators_at_once():
    nodes = [
        node("Foo", ["x"], ["a"]),
        node("Foo", ["a"], ["b"]),
        node("Bar", ["b"], ["c"], domain="my.ops"),
        node("Conv", ["c", "c"], ["y"], domain="other.ops"),
    ]
    made = model(nodes, [floats("x", 2)], ["y"])
    refused(made, "Foo (2×)", "my.ops.Bar (1×)", "other.ops.Conv (1×)", "skip_unknown_operators")
    text = str(parse_onnx(made, skip_unknown_operators=True))
    assert "unknown:Foo(x)" in text
    assert "unknown:Bar" in text


def test_a_user_teaches_an_operator():
    @onnx_op("Twice", domain="my.ops")
    def twice(node, inputs):
        return node.add("add", inputs[0], inputs[0])

    made = model([node("Twice", ["x"], ["y"], domain="my.ops")], [floats("x", 2)], ["y"])
    try:
        (result,) = reference.run(parse_onnx(made), {"x": np.array([1, 2], np.float32)})
    finally:
        del registry._HANDLERS["my.ops", "Twice"]
    assert result.tolist() == [2.0, 4.0]


def test_an_attribute_of_a_wrong_type():
    made = model([node("Flatten", ["x"], ["y"], "flat", axis=1.5)], [floats("x", 2)], ["y"])
    refused(made, "'flat'", "'axis'", "FLOAT", "INT")


def test_a_missing_attribute_and_a_missing_input():
    refused(model([node("Cast", ["x"], ["y"], "c")], [floats("x", 2)], ["y"]), "'c'", "'to'")
    refused(model([node("Add", ["x"], ["y"], "a")], [floats("x", 2)], ["y"]), "'a'", "1 inputs")
    refused(model([node("Add", ["x", ""], ["y"], "a")], [floats("x", 2)], ["y"]), "'a'", "omitted")


def test_shapes_that_do_not_fit():
    made = model(
        [node("MatMul", ["x", "z"], ["y"], "m")], [floats("x", 2, 3), floats("z", 2, 3)], ["y"]
    )
    refused(made, "'m'", "MatMul", "{2, 3}")


def test_inputs_that_are_no_tensors():
    text = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
    refused(model([node("Identity", ["x"], ["y"])], [text], ["y"]), "'x'", "strings")
    few = helper.make_value_info("x", helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2]))
    refused(model([node("Identity", ["x"], ["y"])], [few], ["y"]), "'x'", "sparse_tensor")


def test_a_function_that_calls_itself():
    body = [node("Again", ["a"], ["b"], domain="my")]
    again = helper.make_function("my", "Again", ["a"], ["b"], body, [helper.make_opsetid("my", 1)])
    made = model(
        [node("Again", ["x"], ["y"], domain="my")], [floats("x", 2)], ["y"], functions=[again]
    )
    refused(made, "'Again'", "calls itself")


def test_hostile_names_are_data():
    name = '<img src=x onerror="alert(1)">\n\'"&'
    made = model([node("Relu", [name], ["y"], name)], [floats(name, 2)], ["y"])
    program = parse_onnx(made)
    assert list(program.parameters) == [name]
    assert list(program.source_nodes) == [name]
    (result,) = reference.run(program, {name: np.array([-1, 1], np.float32)})
    assert result.tolist() == [0.0, 1.0]


def test_a_very_deep_chain_of_constants():
    weights = [
        numpy_helper.from_array(np.array([1]), "c0"),
        numpy_helper.from_array(np.array([0]), "z"),
    ]
    nodes = [node("Add", [f"c{k}", "z"], [f"c{k + 1}"]) for k in range(3000)]
    nodes.append(node("Reshape", ["x", "c3000"], ["y"]))
    program = parse_onnx(model(nodes, [floats("x", 1)], ["y"], weights))
    assert program.outputs[0].shape.lens == (1,)


def test_options_that_contradict_each_other():
    refused(relu(), "map_dyn_input_dims", map_input_dims={"x": [1]}, map_dyn_input_dims={"x": [2]})
    refused(relu(), "default_dim_value", default_dim_value=-1)


def test_a_model_is_not_changed_by_its_import():
    made = relu()
    before = onnx.ModelProto.FromString(made.SerializeToString())
    parse_onnx(made)
    assert made == before
    assert CONTRIB in {o.domain for o in made.opset_import}


@pytest.mark.parametrize("option", ["map_input_dims", "map_dyn_input_dims", "constant_inputs"])
def test_an_option_for_an_input_that_is_not_there(option):
    made = model([node("Relu", ["x"], ["y"])], [floats("x", 2)], ["y"])
    with pytest.raises(ModelError, match=f"{option}: no input 'z'; inputs are 'x'"):
        parse_onnx(made, **{option: {"z": [2]}})


@pytest.mark.parametrize(
    "value", [np.zeros(2), np.zeros(3, np.float32), np.zeros((1, 2), np.float32), "two", None]
)
def test_a_constant_input_of_another_kind(value):
    made = model([node("Relu", ["x"], ["y"])], [floats("x", 2)], ["y"])
    with pytest.raises(ModelError, match="constant_inputs: 'x'"):
        parse_onnx(made, constant_inputs={"x": value})
    fixed = parse_onnx(made, constant_inputs={"x": np.float32([-1, 2])})
    assert not fixed.parameters
    np.testing.assert_array_equal(reference.run(fixed)[0], [0, 2])
