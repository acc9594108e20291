"""Programs on a device: as MIGraphX's own examples run them, with and without copies, and from files."""

import numpy as np
import pytest

from workbench.compat import migraphx
from workbench.compat.migraphx import offloading
from workbench.gpu.code import cache as code_cache
from workbench.gpu.devices.handles import number_of

S = migraphx.shape(type="float", lens=[6, 10])


def several_results():
    """tanh(x + y), its transpose, x, and a sum."""
    p = migraphx.program()
    m = p.get_main_module()
    x, y = (m.add_parameter(name, S) for name in "xy")
    made = m.add_instruction(migraphx.op("tanh"), [m.add_instruction(migraphx.op("add"), [x, y])])
    turned = m.add_instruction(migraphx.op("transpose", permutation=[1, 0]), [made])
    m.add_return([made, turned, x, m.add_instruction(migraphx.op("reduce_sum", axes=[1]), [made])])
    return p


def compiled(p=None, **options):
    p = several_results() if p is None else p
    p.compile(migraphx.get_target("gpu"), **options)
    return p


def generated(p, seed=3):
    shapes = p.get_parameter_shapes().items()
    return {name: migraphx.generate_argument(s, seed) for name, s in shapes}


def expect_right(results, given):
    p = several_results()
    p.compile(migraphx.get_target("ref"))
    for found, wanted in zip(results, p.run(given), strict=True):
        assert found.get_shape() == wanted.get_shape() or found.get_shape().lens() == [10, 6]
        np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=1e-5, atol=1e-6)


def test_with_copies_a_run_takes_and_gives_arrays():
    p = compiled()
    assert p.get_parameter_names() == ["x", "y"]
    given = generated(p)
    expect_right(p.run(given), given)
    expect_right(p.run({k: migraphx.to_gpu(v) for k, v in given.items()}), given)
    expect_right(p.run_async(given, 0, "ihipStream_t"), given)


def test_without_copies_results_are_written_into_buffers_that_are_given():
    """The script of MIGraphX's own test of offloading."""
    p = compiled(offload_copy=False)
    params = {}
    for key, value in p.get_parameter_shapes().items():
        params[key] = migraphx.to_gpu(migraphx.generate_argument(value, 3))
    assert {k for k in params if "#output_" in k} == {f"main:#output_{k}" for k in (0, 1, 3)}
    results = p.run(params)
    expect_right([migraphx.from_gpu(r) for r in results], generated(several_results()))
    assert results[0].data_ptr() == params["main:#output_0"].data_ptr()
    assert all(isinstance(r, migraphx.argument) for r in results)


def test_without_copies_and_in_a_stream():
    p = compiled(offload_copy=False)
    params = {k: migraphx.to_gpu(v) for k, v in generated(p).items()}
    results = p.run_async(params, 0, "ihipStream_t")
    migraphx.gpu_sync()
    expect_right(results, generated(several_results()))
    device = p.build.runner.device
    stream = None if device.kind == "opencl" else device.stream()
    for _ in range(3):
        results = p.run_async(params, number_of(stream), "ihipStream_t")
        expect_right(results, generated(several_results()))


def test_addresses_stand_for_the_arrays_that_they_were_asked_of():
    p = compiled(offload_copy=False)
    held = {k: migraphx.to_gpu(v) for k, v in generated(p).items()}
    pointers = {
        k: migraphx.argument_from_pointer(a.get_shape(), a.data_ptr()) for k, a in held.items()
    }
    expect_right(p.run(pointers), generated(several_results()))


def test_addresses_of_other_libraries_are_read_where_they_lie(monkeypatch):
    memory = np.zeros(4096, np.uint8)
    start = -memory.ctypes.data % 256
    device = compiled().build.runner.device
    monkeypatch.setattr(type(device), "kind", "cuda")
    monkeypatch.setattr(type(device), "knows", lambda _, address: address >= memory.ctypes.data)
    a = migraphx.argument_from_pointer(S, memory.ctypes.data + start)
    for given in (a, migraphx.argument(a)):
        held = offloading._in_place(device, "x", given)
        assert (held.pointer, held.shape) == (memory.ctypes.data + start, S.core)
    assert offloading._in_place(device, "x", a.copy()) is None
    aside = migraphx.argument_from_pointer(S, memory.ctypes.data + start + 4)
    with pytest.raises(
        RuntimeError, match=r"params\['x'\] begins at .* expected a multiple of 256"
    ):
        offloading._in_place(device, "x", aside)


def test_buffers_on_the_host_are_filled():
    p = compiled(offload_copy=False)
    params = generated(p)
    params["main:#output_0"] = buffer = migraphx.allocate_gpu(S, host=True)
    expect_right(p.run(params), generated(several_results()))
    assert abs(np.asarray(buffer)).max() > 0.5


def test_every_parameter_is_checked():
    p = compiled(offload_copy=False)
    given = generated(several_results())
    with pytest.raises(RuntimeError, match="Parameter not found: main:#output_"):
        p.run(given)
    wrong = migraphx.to_gpu(migraphx.generate_argument(migraphx.shape(lens=[3])))
    with pytest.raises(RuntimeError, match="Incorrect shape"):
        p.run(generated(p) | {"main:#output_0": wrong})


def test_streams_of_other_libraries_are_refused_where_they_mean_nothing():
    p = compiled()
    device = p.build.runner.device
    if device.kind == "opencl":
        with pytest.raises(RuntimeError, match="takes no streams of other libraries"):
            p.run_async(generated(p), 1234, "ihipStream_t")
    else:
        with pytest.raises(RuntimeError, match="expected 'ihipStream_t'"):
            p.run_async(generated(p), 0, "a stream")


def test_reading_an_argument_on_the_device_copies_it():
    a = migraphx.generate_argument(migraphx.shape(lens=[2, 3]))
    there = migraphx.to_gpu(a)
    assert there.get_shape() == a.get_shape()
    assert there == a
    assert not there != a  # noqa: SIM202
    assert a == there
    assert a == migraphx.from_gpu(there)
    assert repr(there) == repr(a)
    assert there.tolist() == a.tolist()
    assert there.get_sub_objects() == []
    assert not there.empty()
    assert len(there) == 2
    assert there[0, 1] == a[0, 1]
    assert [list(row) for row in there] == [list(row) for row in a]
    assert there._repr_mimebundle_() == a._repr_mimebundle_()
    assert migraphx.argument(there) is there
    with pytest.raises(ValueError, match="without a copy"):
        np.array(there, copy=False)
    with pytest.raises(TypeError):
        hash(there)


def test_memory_of_the_device_begins_with_zeros_and_keeps_strides():
    s = migraphx.shape(type="half", lens=[3, 2], strides=[1, 3])
    assert migraphx.allocate_gpu(s).tolist() == [0] * 6
    a = migraphx.generate_argument(s, 5)
    assert migraphx.from_gpu(migraphx.to_gpu(a)) == a
    wide = migraphx.shape(dyn_dims=[migraphx.shape.dynamic_dimension(1, 4)])
    with pytest.raises(RuntimeError, match="expected the shape of a static tensor"):
        migraphx.allocate_gpu(wide)


def test_an_array_of_another_library_is_taken_where_it_lies(monkeypatch):
    p = compiled(offload_copy=False)
    params = generated(p)
    there = migraphx.to_gpu(params["x"])
    monkeypatch.setattr(offloading, "borrowed", lambda *_: there.held)
    tensor = type("Tensor", (), {"__cuda_array_interface__": {}})()
    expect_right(p.run(params | {"x": tensor}), params)


def test_exhaustive_tune_chooses_kernels_and_files_keep_them():
    p = compiled(exhaustive_tune=True)
    params = generated(p)
    expect_right(p.run(params), params)
    assert dict(p.compiled().choices) == p.runs.runner.choices


def test_fast_math_decides_which_gelu_is_computed():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="half", lens=[4, 8]))
    m.add_return(m.add_macro(migraphx.macro("gelu_erf"), [x])[-1:])
    fast, exact = p.clone(), p.clone()
    compiled(fast)
    compiled(exact, fast_math=False)
    assert "erf" in str(exact)
    assert "erf" not in str(fast)


def test_lengths_that_a_run_tells():
    dim = migraphx.shape.dynamic_dimension
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(dyn_dims=[dim(1, 200), dim(4, 4)]))
    m.add_return([m.add_instruction(migraphx.op("tanh"), [x])])
    copies, stays = p.clone(), p.clone()
    compiled(copies)
    compiled(stays, offload_copy=False)
    again = migraphx.load_buffer(migraphx.save_buffer(copies))
    for rows in (3, 7):
        a = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        for one in (copies, stays, again):
            (found,) = one.run({"x": a})
            np.testing.assert_allclose(np.array(found), np.tanh(a), rtol=1e-5)


def test_results_that_only_a_run_can_lay_out_come_by_way_of_the_host():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[2, 3]))
    best = m.add_instruction(migraphx.op("topk", k=2, axis=1), [x])
    m.add_return([best, m.add_instruction(migraphx.op("neg"), [x])])
    compiled(p, offload_copy=False)
    a = np.float32([[1, 3, 2], [6, 4, 5]])
    for place in (migraphx.to_gpu, migraphx.argument):
        given = {
            k: place(migraphx.generate_argument(s)) for k, s in p.get_parameter_shapes().items()
        }
        best, negative = p.run(given | {"x": a})
        assert [one.tolist() for one in best.get_sub_objects()] == [[3, 2, 6, 5], [1, 2, 0, 2]]
        assert negative.tolist() == (-a).ravel().tolist()
        assert given["main:#output_1"].tolist() == negative.tolist()


def test_a_traced_run_tells_every_instruction_in_order():
    p = compiled()
    given, told = generated(p), []
    p.run_trace(given, told.append)
    assert [t.name for t in told] == [i.name() for i in p.get_main_module()][:-1]
    wanted = np.tanh(np.array(given["x"]) + np.array(given["y"]))
    by_name = {t.name: np.array(t.result) for t in told}
    np.testing.assert_allclose(by_name["pointwise"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_name["transpose"], wanted.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("offload_copy", [True, False])
def test_a_report_times_kernels_by_the_device(offload_copy):
    p = compiled(offload_copy=offload_copy)
    report = p.perf_report(iterations=3)
    times = report.table()["ms"]
    kernels = report.table()["op"].isin(["pointwise", "write", "fused_reduce"])
    assert (times[kernels] > 0).all()
    copied = times[report.table()["op"] == "@param"]
    assert (copied > 0).any() == offload_copy
    assert "pointwise::add_tanh_kernel: " in str(report)
    assert report.total_ms > 0
    assert report.overhead_ms > 0  # which of the two is larger, a busy machine decides


# Files


@pytest.fixture
def nothing_compiles(monkeypatch, tmp_path):
    """No kernel is in the cache, and none can be compiled; call it once the program is saved."""

    def start():
        monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "empty"))
        monkeypatch.setattr(
            code_cache, "compile_one", lambda k, _: pytest.fail(f"compiles {k.name}")
        )

    return start


@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize("offload_copy", [True, False])
def test_a_file_with_kernels_runs_without_compiling_where_it_is_trusted(
    nothing_compiles, tmp_path, form, offload_copy
):
    p = compiled(offload_copy=offload_copy)
    file = str(tmp_path / "p")
    migraphx.save(p, file, format=form)
    params = generated(p)
    nothing_compiles()
    q = migraphx.load(file, format=form, trusted_kernels=True)
    assert q == p
    expect_right(q.run(params), generated(several_results()))
    assert hasattr(q.run(params)[2], "is_on_device") is not offload_copy


def changed(data, **fields):
    """The bytes of a file whose kernels say something else."""
    value = migraphx.files.mxr.read_msgpack(data)
    for kernel in value["workbench"]["device"]["kernels"]:
        kernel.update(fields)
    return migraphx.files.mxr.write_msgpack(value)


@pytest.mark.parametrize(
    "fields", [{"source": "0" * 64}, {"device": "another device"}, {"name": "another"}]
)
def test_a_kernel_of_another_source_or_device_is_compiled_anew(fields):
    p = compiled()
    data = changed(migraphx.save_buffer(p), binary=b"nonsense", **fields)
    given = generated(p)
    expect_right(migraphx.load_buffer(data, trusted_kernels=True).run(given), given)


def test_machine_code_of_a_file_is_not_run_by_default():
    p = compiled()
    data = changed(migraphx.save_buffer(p), binary=b"hostile")
    given = generated(p)
    expect_right(migraphx.load_buffer(data).run(given), given)
    with pytest.raises(RuntimeError):
        migraphx.load_buffer(data, trusted_kernels=True).run(given)
    expect_right(p.run(given), given)


@pytest.mark.parametrize("fields", [{"binary": "text"}, {"name": 3}, {"source": None}])
def test_damaged_kernels_are_refused(fields):
    data = changed(migraphx.save_buffer(compiled()), **fields)
    with pytest.raises(RuntimeError, match="kernels: "):
        migraphx.load_buffer(data)


def test_a_copy_runs_by_itself():
    p = compiled(offload_copy=False)
    q = p.clone()
    given = generated(q)
    expect_right(q.run(given), generated(several_results()))
    expect_right(p.run(given), generated(several_results()))
