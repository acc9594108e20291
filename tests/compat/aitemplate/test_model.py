"""AITemplate's Model by its meaning: runs, shapes, constants, memory, files."""

# pyright: reportPrivateUsage=false

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.compat.aitemplate.models import SIZE, meaning, near, room, scaled, some, there
from workbench.compat.aitemplate import AITData, AITemplateMemcpyKind, Model
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape

W, V, X = some(0, SIZE, SIZE), some(1, SIZE, SIZE), some(2, 4, SIZE)


@pytest.fixture(scope="module", params=["gpu", "cpu"])
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    made = Model.of(scaled(), ["y"], {"w": W}, ["v"], num_runtimes=2, target=request.param)
    made.set_constant_with_tensor("v", V)
    with made:
        yield made


def out() -> np.ndarray:
    return np.full((4, SIZE), np.nan, np.float32)


def test_a_run_takes_lists_and_names(model: Model):
    (x,), y = there(model, X), room(model)
    for inputs, outputs in (([x], [y]), ({"x": x}, {"y": y})):
        found = model.run(inputs, outputs)
        assert found == {"y": AITData(y.data_ptr, [4, SIZE], "float32")}
        near(model.ait_data_to_numpy(found["y"]), meaning(X, W, V))
    on_host = out()
    given = AITData(on_host.ctypes.data, [4, SIZE], "float32")
    assert model._run_with_outputs_on_host([x], [given]) == {"y": given}
    near(on_host, meaning(X, W, V))


def test_a_run_on_tensors_fills_the_given_outputs(model: Model):
    y = out()
    found = model.run_with_tensors({"x": X}, [y])["y"]
    assert np.shares_memory(found, y)
    near(y, meaning(X, W, V))
    near(model._run_with_tensors_outputs_on_host([X], [y := out()])["y"], meaning(X, W, V))
    near(y, meaning(X, W, V))
    if model._memory.device is not None:
        with pytest.raises(ValueError, match=r"outputs\[0\] is on a device"):
            model._run_with_tensors_outputs_on_host([X], [model.on_device(y)])
        with pytest.raises(ValueError, match=r"outputs\[0\] is on the device"):
            model._run_with_outputs_on_host(there(model, X), [room(model)])


class OnlyDLPack:
    """A tensor of a library that has DLPack and no array interface."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def flatten(self) -> np.ndarray:
        return self.array.reshape(-1)


def test_tensors_need_dlpack_only(model: Model):
    y = OnlyDLPack(out())
    near(model.run_with_tensors([OnlyDLPack(X)], [y])["y"], meaning(X, W, V))
    near(y.array, meaning(X, W, V))


def test_the_signature(model: Model):
    assert model.get_input_name_to_index_map() == {"x": 0}
    assert model.get_output_name_to_index_map() == {"y": 0}
    assert model.get_output_maximum_shape("y") == model.get_output_maximum_shape(0) == [4, SIZE]
    assert model.get_output_dtype(0) == 2
    assert model.get_num_runtimes() == 2
    assert model.get_constant_names() == ["v"]
    assert sorted(model.get_constant_names(unbound_constants_only=False)) == ["v", "w"]
    assert model.get_constant_folding_input_names() == []
    assert model.get_constant_folding_input_names(unbound_constants_only=False) == ["w"]


@pytest.mark.parametrize("target", ["gpu", "cpu"])
def test_outputs_at_maximum_shape_get_the_inferred_one(target: str):
    with Model.of(scaled(Dim(1, 6)), ["y"], {"w": W}, ["v"], target=target) as model:
        assert model.get_output_maximum_shape("y") == [6, SIZE]
        model.set_constant_with_tensor("v", V)
        y = np.full((6, SIZE), 7, np.float32)
        for batch in (6, 3):
            x = some(batch, batch, SIZE)
            near(model.run_with_tensors([x], [y])["y"], meaning(x, W, V))
        (x,), data = there(model, some(9, 2, SIZE)), room(model)
        found = model.run([x], [data])["y"]
        assert found.shape == [2, SIZE]
        assert found.data_ptr == data.data_ptr


@pytest.mark.parametrize("target", ["gpu", "cpu"])
def test_inputs_and_constants_are_outputs_too_and_may_be_empty(target: str):
    program = Program("several")
    main = program.main
    x = main.add_parameter("x", Shape.dynamic("half", [Dim(0, 4), Dim(3, 3)]))
    c = main.add_parameter("c", Shape("half", (3,)))
    main.add_return(x, main.add("relu", x), c)
    with Model.of(program, ["a", "b", "c"], unbound=["c"], target=target) as model:
        constant = np.arange(3, dtype=np.float16)
        model.set_constant_with_tensor("c", constant)
        given = [
            np.empty((4, 3), np.float16),
            np.empty((4, 3), np.float16),
            np.empty(3, np.float16),
        ]
        for batch in (0, 2):
            ones = -np.ones((batch, 3), np.float16)
            found = model.run_with_tensors([ones], given)
            np.testing.assert_array_equal(found["a"], ones)
            np.testing.assert_array_equal(found["b"], np.zeros((batch, 3)))
            np.testing.assert_array_equal(found["c"], constant)
        pointers = [model.numpy_to_ait_data(g) for g in given]
        null = model.run([AITData(0, [0, 3], "float16")], pointers)
        assert null["a"].shape == null["b"].shape == [0, 3]


# Constants


def test_constants_are_replaced_and_folded_again(model: Model):
    other = some(5, SIZE, SIZE)
    (x,), y = there(model, X), room(model)
    for name, value in (("w", other), ("v", other), ("w", W), ("v", V)):
        (data,) = there(model, value)
        model.set_constant(name, data)
        found = model.ait_data_to_numpy(model.run([x], [y])["y"])
        now = {"w": W, "v": V} | {name: value}
        if value is other and name == "v":
            now["w"] = other
        if value is W:
            now["v"] = other
        near(found, meaning(X, now["w"], now["v"]))
    model.set_many_constants_with_tensors({"v": V, "w": W})
    near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))


def test_the_second_buffer_counts_after_a_fold_and_a_swap(
    model: Model, caplog: pytest.LogCaptureFixture
):
    other = some(6, SIZE, SIZE)
    model.set_many_double_buffer_constants_with_tensors({"w": other, "v": other})
    near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))
    model.swap_constants()
    assert "Called SwapConstants without calling FoldConstants()." in caplog.text
    near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))
    model.fold_constants(double_buffer=True)
    near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))
    model.swap_constants()
    near(model.run_with_tensors([X], [out()])["y"], meaning(X, other, other))
    for name, value in (("w", W), ("v", V)):
        model.set_double_buffer_constant(name, there(model, value)[0])
    model.fold_constants(double_buffer=True)
    model.swap_constants()
    near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))
    model.set_constant_with_tensor("v", V)


def test_folding_needs_every_constant():
    with Model.of(scaled(), ["y"], unbound=["w", "v"], target="cpu") as model:
        with pytest.raises(
            RuntimeError, match=r"Constant [vw] was not set! Set the value with set_"
        ):
            model.fold_constants()
        model.set_many_constants_with_tensors({"w": W, "v": V})
        model.fold_constants()
        near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))


def test_a_constant_that_nothing_reads_is_accepted():
    program = scaled()
    program.main.add_parameter("idle", Shape("float", (3,)))
    with Model.of(program, ["y"], {"w": W, "v": V}, ["idle"], target="cpu") as model:
        model.set_constant_with_tensor("idle", np.zeros(3, np.float32))
        near(model.run_with_tensors([X], [out()])["y"], meaning(X, W, V))


# Memory


def test_memory_is_copied_in_all_directions(model: Model):
    first, second = model.allocate_gpu_memory(64), model.allocate_gpu_memory(64)
    source, back = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    kind = AITemplateMemcpyKind
    model.memcpy(first, source, 64, kind.HostToDevice)
    model.memcpy(second, first, 64, kind.DeviceToDevice)
    model.memcpy(back.ctypes.data, second, 64, kind.DeviceToHost)
    np.testing.assert_array_equal(back, source)
    model.free_gpu_memory(first)
    with pytest.raises(RuntimeError, match="free already"):
        model.free_gpu_memory(first)


def test_closing_frees_what_was_allocated_and_later_calls_are_refused():
    model = Model.of(scaled(), ["y"], {"w": W, "v": V}, target="gpu")
    device = model._memory.device
    assert device is not None
    data = there(model, X)[0]
    model.run_with_tensors([X], [out()], model.new_stream(), sync=False)
    used = device.in_use
    model.close()
    model.close()
    assert device.in_use < used
    for call in (
        lambda: model.run_with_tensors([X], [out()]),
        lambda: model.run([data], [data]),
        lambda: model.set_constant("w", data),
        lambda: model.allocate_gpu_memory(1),
        model.swap_constants,
        model.get_num_runtimes,
    ):
        with pytest.raises(RuntimeError, match="Cannot use closed AIT library"):
            call()


# Measurements


def test_a_benchmark_returns_times_and_outputs(model: Model):
    (x,), y = there(model, X), room(model)
    mean, deviation, found = model.benchmark(
        [x], [y], count=3, repeat=2, num_threads=2, use_unique_stream_per_thread=True
    )
    assert mean > 0
    assert deviation >= 0
    near(model.ait_data_to_numpy(found["y"]), meaning(X, W, V))
    filled = out()
    assert model.benchmark_with_tensors([X], [filled], count=2)[0] > 0
    near(filled, meaning(X, W, V))


def test_a_profile_has_a_row_for_each_operation(model: Model, tmp_path: Path):
    path = tmp_path / "profile.json"
    model.profile_with_tensors([X], [out()], 2, str(path))
    rows = json.loads(path.read_text())
    assert any("dot" in name or "dot" in row["op"] for name, row in rows.items())
    for row in rows.values():
        assert row["ms_per_iter"] > 0
        assert row["qps"] == pytest.approx(1e3 / row["ms_per_iter"], rel=1e-2)
        assert row["output_sizes"] == [["4", str(SIZE)]]


def test_graph_mode_is_reported_where_there_are_no_graphs(caplog: pytest.LogCaptureFixture):
    with Model.of(scaled(), ["y"], {"w": W, "v": V}, target="cpu") as model:
        found = model.run_with_tensors([X], [out()], graph_mode=True)["y"]
        near(found, meaning(X, W, V))
    assert "graph_mode" in caplog.text


def test_what_has_no_counterpart_says_so(model: Model):
    with pytest.raises(NotImplementedError, match="standalone"):
        model.write_standalone_testcase_data("file", [], [])


# Files

LOADS = """
import sys
import numpy as np
from workbench.compat.aitemplate import Model
from workbench.gpu.devices import opencl_compiler
def refuse(*_): raise AssertionError("a kernel was compiled")
opencl_compiler.OpenCLCompiler.compile = refuse
x, v = np.load(sys.argv[2]), np.load(sys.argv[3])
with Model(sys.argv[1], num_runtimes=2) as model:
    model.set_constant_with_tensor("v", v)
    y = np.empty(model.get_output_maximum_shape("y"), np.float32)
    np.save(sys.argv[4], model.run_with_tensors([x], [y])["y"])
"""


def test_another_process_runs_a_saved_model_without_a_compiler(tmp_path: Path):
    with Model.of(scaled(), ["y"], {"w": W}, ["v"], target="gpu") as model:
        model.save(tmp_path / "model")
    paths = [str(tmp_path / n) for n in ("x.npy", "v.npy", "y.npy")]
    np.save(paths[0], X)
    np.save(paths[1], V)
    command = [sys.executable, "-c", LOADS, str(tmp_path / "model"), *paths]
    empty = {"WORKBENCH_CACHE": str(tmp_path / "cache")}
    environment = {**os.environ, **empty}
    subprocess.run(command, check=True, env=environment)
    near(np.load(paths[2]), meaning(X, W, V))


def test_models_are_saved_and_pickled_by_their_path(tmp_path: Path):
    with Model.of(scaled(Dim(1, 6)), ["y"], {"w": W, "v": V}, target="cpu") as model:
        model.save(tmp_path / "model")
        with pytest.raises(TypeError, match="save it"):
            pickle.dumps(model)
        with pytest.raises(OperationError, match="folder"):
            model.save(tmp_path / "model.mxr")
    with Model(tmp_path / "model", 3) as model, pickle.loads(pickle.dumps(model)) as copy:
        assert copy.get_num_runtimes() == 3
        x = some(1, 2, SIZE)
        y = np.zeros((6, SIZE), np.float32)
        near(copy.run_with_tensors([x], [y])["y"], meaning(x, W, V))


def test_a_model_without_constants_is_one_file(tmp_path: Path):
    program = Program("double")
    x = program.main.add_parameter("x", Shape("float", (3,)))
    program.main.add_return(program.main.add("add", x, x))
    with Model.of(program, ["y"], target="cpu") as model:
        model.save(tmp_path / "double.mxr")
    with Model(tmp_path / "double.mxr") as model:
        (name,) = model.get_output_name_to_index_map()
        x, y = np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)
        np.testing.assert_array_equal(model.run_with_tensors([x], [y])[name], 2 * x)
