"""Builds for a device: what they run, plan, compile for others, and refuse."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.errors import DeviceError, InputError, OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx import parse_onnx
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.executable import Executable


def two_results() -> Program:
    """tanh(x + y), its transpose, and x as it is."""
    program = Program()
    main = program.main
    x, y = (main.add_parameter(n, Shape("float", (6, 10))) for n in "xy")
    made = main.add("tanh", main.add("add", x, y))
    main.add_return(made, main.add("transpose", made, permutation=(1, 0)), x)
    return program


def inputs_of(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        n: random.standard_normal(s.lens, np.float32).astype(s.type.numpy)
        for n, s in program.parameters.items()
    }


@pytest.fixture
def spec(device: Device) -> str:
    return device.spec


def test_a_build_runs_on_its_device_and_agrees_with_the_reference(spec: str):
    program = two_results()
    given = inputs_of(program)
    build = wb.compile(program, target="gpu", device=spec)
    wanted = wb.compile(program, target="ref").run(given)
    for _ in range(3):  # where the device has graphs, the third run is a replay
        found = build.run(given)
        for k in wanted:
            np.testing.assert_allclose(found[k], wanted[k], rtol=1e-5, atol=1e-6)


def test_results_of_one_run_outlive_the_next(spec: str):
    program = two_results()
    build = wb.compile(program, target="gpu", device=spec)
    first, second = inputs_of(program, 0), inputs_of(program, 1)
    kept = build.run(first)
    before = np.array(kept[0])
    build.run(second)
    np.testing.assert_array_equal(kept[0], before)


def test_a_run_without_copies_takes_and_gives_arrays_of_the_device(spec: str, device: Device):
    program = two_results()
    given = inputs_of(program)
    build = wb.compile(program, target="gpu", device=spec)
    executable = build.runner.executable()
    wanted = build.run(given)
    there = DeviceArray.of(device, given["x"])
    for inputs in (given, {"x": there, "y": given["y"]}):
        found = executable.run_async(inputs)
        for k, array in enumerate(found):
            np.testing.assert_array_equal(array.numpy(), wanted[k])


@pytest.mark.parametrize("order", ["whole and part", "part and whole", "part", "part of an input"])
def test_results_that_are_parts_of_others_have_memory_of_their_own(order: str, device: Device):
    program = wb.Program()
    m = program.main
    x = m.add_parameter("x", wb.Shape("float", (64, 64)))
    y = m.add("relu", x)
    part, input_part = (m.add("slice", i, axes=(0,), starts=(0,), ends=(1,)) for i in (y, x))
    outputs = {"whole and part": (y, part), "part and whole": (part, y), "part": (part,)}
    m.add_return(*outputs.get(order, (input_part,)))
    executable = Executable(lower(program, device.dialect), device)
    given = {"x": np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)}
    found, wanted = executable.run_async(given), executable.run(given)
    for array, value in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(array.numpy(), value)


def test_runs_in_several_streams_do_not_disturb_each_other(device: Device):
    program = wb.Program()
    m = program.main
    x, w = (m.add_parameter(n, wb.Shape("float", (512, 512))) for n in "xw")
    y = x
    for _ in range(3):
        y = m.add("sin", m.add("dot", y, w))
    m.add_return(y)
    executable = Executable(lower(program, device.dialect), device)
    made = np.random.default_rng(0).standard_normal((3, 512, 512)).astype(np.float32) / 20
    a, b, weights = (DeviceArray.of(device, v) for v in made)
    wanted = [executable.run({"x": v, "w": made[2]})[0] for v in made[:2]]
    streams = device.stream(), device.stream()
    pairs = zip((a, b), streams, strict=True)
    found = [executable.run_async({"x": v, "w": weights}, s)[0] for v, s in pairs]
    for array, stream, value in zip(found, streams, wanted, strict=True):
        np.testing.assert_array_equal(array.numpy(stream), value)


def test_what_is_written_over_its_own_operand_is_right(device: Device):
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (300, 300)))
    turned = program.main.add("transpose", x, permutation=(1, 0))
    program.main.add_return(program.main.add("copy", turned, x))
    given = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
    executable = Executable(lower(program, device.dialect), device)
    np.testing.assert_array_equal(executable.run({"x": given})[0], given.T)


def test_a_constant_is_not_written(device: Device):
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (4,)))
    constant = program.main.add_literal(np.arange(4, dtype=np.float32))
    program.main.add_return(program.main.add("copy", x, constant))
    with pytest.raises(DeviceError, match="writes into a constant"):
        lower(program, device.dialect)


def test_kernels_of_equal_short_digests_are_not_taken_for_each_other(device: Device):
    # with 8 digits of OpenCL's digest in their names both were add_e8a274df
    program, given, wanted = Program(), {}, []
    for length, value in ((1 << 20, 13.177978515625), (64, 21.284912109375)):
        x = program.main.add_parameter(f"x{length}", Shape("float", (length,)))
        constant = program.main.add_literal(np.full(1, value, np.float32))
        spread = program.main.add("multibroadcast", constant, out_lens=(length,))
        wanted.append(program.main.add("add", x, spread))
        given[f"x{length}"] = np.zeros(length, np.float32)
    program.main.add_return(*wanted)
    first, second = Executable(lower(program, device.dialect), device).run(given)
    assert (first == np.float32(13.177978515625)).all()
    assert (second == np.float32(21.284912109375)).all()


def test_what_was_closed_does_not_run(device: Device):
    executable = Executable(lower(two_results(), device.dialect), device)
    executable.close()
    for run in (executable.run, executable.run_async):
        with pytest.raises(DeviceError, match="was closed"):
            run(inputs_of(two_results()))


def test_what_a_build_took_is_given_back(spec: str, device: Device):
    gc.collect()
    before = device.in_use
    build = wb.compile(two_results(), target="gpu", device=spec)
    build.run()
    kept = build.runner.executable().run_async(inputs_of(build.program))
    assert device.in_use > before
    del build, kept
    gc.collect()
    assert device.in_use == before


def test_inputs_are_checked_before_anything_runs(spec: str):
    build = wb.compile(two_results(), target="gpu", device=spec)
    with pytest.raises(InputError, match="'x'"):
        build.run({"x": np.zeros((6, 10), np.float64), "y": np.zeros((6, 10), np.float32)})


@pytest.mark.parametrize("name", ["small_branches", "small_loop", "small_loop_stops", "small_scan"])
def test_branches_and_loops_run(name: str, spec: str):
    model = MODELS[name]
    program = parse_onnx(model.path)
    given = model.inputs()
    build = wb.compile(program, target="gpu", device=spec)
    wanted = wb.compile(program, target="ref").run(given)
    for sign in (1, -1):
        found = build.run({n: sign * v for n, v in given.items()})
        wanted = wb.compile(program, target="ref").run({n: sign * v for n, v in given.items()})
        for k in wanted:
            np.testing.assert_allclose(found[k], wanted[k], rtol=1e-5, atol=1e-5)


def test_both_modules_of_an_if_are_kernels(spec: str):
    build = wb.compile(parse_onnx(MODELS["small_branches"].path), target="gpu", device=spec)
    plan = build.plan()
    assert [r.kind for r in plan].count("branch") == 2  # one lies in the other
    assert "host" not in {r.kind for r in plan}


def dynamic() -> Program:
    """A softmax of x·w over any number of rows, written for 1 to 64 of them."""
    program = Program()
    main = program.main
    rows = Dim(1, 64, (), "rows")
    x = main.add_parameter("x", Shape.dynamic("float", [rows, 8]))
    w = main.add_literal(np.random.default_rng(0).standard_normal((8, 5), np.float32))
    main.add_return(main.add("softmax", main.add("dot", x, w), axis=1))
    return program


def test_a_program_of_any_length_has_kernels_for_each_that_it_met(spec: str):
    program = dynamic()
    build = wb.compile(program, target="gpu", device=spec)
    for rows in (3, 7, 3):
        x = np.random.default_rng(rows).standard_normal((rows, 8), np.float32)
        wanted = wb.compile(program, target="ref").run({"x": x})[0]
        np.testing.assert_allclose(build.run({"x": x})[0], wanted, rtol=1e-4, atol=1e-6)
    three = build.specialised({"x": np.zeros((3, 8), np.float32)})
    assert three is build.specialised({"x": np.ones((3, 8), np.float32)})
    assert three is not build.specialised({"x": np.zeros((7, 8), np.float32)})
    with pytest.raises(OperationError, match="specialised"):
        build.plan()
    assert {r.kind for r in three.plan()} == {"upload", "kernel", "download"}


def test_lengths_out_of_range_are_refused(spec: str):
    build = wb.compile(dynamic(), target="gpu", device=spec)
    with pytest.raises(InputError, match="'x'"):
        build.run({"x": np.zeros((65, 8), np.float32)})


@pytest.mark.parametrize("arch", ["hip:gfx90a", "hip:gfx1030", "cuda:sm_90"])
def test_a_program_is_compiled_for_a_device_that_is_not_here(arch: str):
    build = wb.compile(two_results(), target="gpu", device=arch)
    plan = build.plan()
    (row,) = [r for r in plan if r.kernel is not None]
    assert row.kernel is not None
    assert row.kernel.code_object.startswith(b"\x7fELF")
    assert row.kernel.name in row.kernel.source
    with pytest.raises(DeviceError, match="no such device"):
        build.run()


def test_a_plan_says_all_that_a_run_does(spec: str):
    plan = wb.compile(two_results(), target="gpu", device=spec).plan()
    kinds = [r.kind for r in plan]
    assert kinds == ["upload", "upload", "kernel", "download", "download", "download"]
    kernel = plan.rows[2]
    assert {(a.kind, a.name, a.writes) for a in kernel.arguments} == {
        ("parameter", "x", False),
        ("parameter", "y", False),
        ("output", plan.rows[3].what, True),
    }
    assert all(a.bytes % 256 == 0 for a in kernel.arguments)
    assert [r.shape for r in plan.rows[3:]] == [
        "float_type, {6, 10}, {10, 1}",
        "float_type, {10, 6}, {1, 10}",
        "float_type, {6, 10}, {10, 1}",
    ]
    assert len(plan.table()) == len(plan)
    assert "2 × upload, 1 × kernel, 3 × download" in repr(plan)


def test_sequences_and_optionals_are_inputs_and_results_that_stay_on_the_host(
    spec: str, device: Device
):
    program = Program()
    main = program.main
    element = Shape("float", (4,))
    many = main.add_parameter("many", Shape.sequence_of(element))
    one = main.add_parameter("one", Shape.sequence_of(element, "optional"))
    x = main.add_parameter("x", element)
    at = main.add("sequence_at", many, main.add_literal(np.int64(1)))
    summed = main.add("tanh", main.add("add", at, x))
    main.add_return(summed, main.add("sequence_insert", many, summed), one)
    arrays = [np.full(4, k, np.float32) for k in range(3)]
    executable = Executable(lower(program, device.dialect), device)
    try:
        for inputs in (
            {"many": arrays, "one": arrays[0], "x": arrays[2]},
            {"many": arrays[1:], "one": None, "x": arrays[0]},
        ):
            found, wanted = executable.run(inputs), wb.compile(program, "ref").run(inputs).outputs
            assert np.allclose(found[0], wanted[0], 1e-6)
            assert np.allclose(found[1], wanted[1], 1e-6)
            assert (found[2] is None) == (wanted[2] is None)
    finally:
        executable.close()
    build = wb.compile(program, target="gpu", device=spec)
    assert [r.what for r in build.plan() if r.kind == "upload"] == ["x"]
    assert build.run(inputs, profile=True, repetitions=2)[2] is None


def test_other_targets_have_no_plan_and_no_device():
    with pytest.raises(OperationError, match="target='gpu'"):
        wb.compile(two_results(), target="cpu").plan()
    with pytest.raises(OperationError, match="has no devices"):
        wb.compile(two_results(), target="cpu", device="opencl")


def test_values_inside_a_run_are_compared_with_the_reference(spec: str):
    program = parse_onnx(MODELS["small_encoder"].path)
    build = wb.compile(program, target="gpu", device=spec)
    report = wb.compare(build, MODELS["small_encoder"].inputs())
    assert len(report.table()) > 5
    assert report.first_divergence() is None


def test_values_of_a_run_are_found_by_the_ids_of_the_source(spec: str):
    for program in (two_results(), dynamic(), split()):
        lens = {n: s.lens if s.dims is None else (3, 8) for n, s in program.parameters.items()}
        given = {
            n: np.random.default_rng(0).standard_normal(v, np.float32) for n, v in lens.items()
        }
        values = wb.compile(program, target="gpu", device=spec).values(given)
        wanted = wb.compile(program, target="ref").values(given)
        assert len(values) >= 1
        for output in program.outputs:  # of which views have no step on the device
            np.testing.assert_allclose(values[output], wanted[output], rtol=1e-4, atol=1e-6)


def split() -> Program:
    """The values and the indices of the largest two of each row, transposed, and a view of x."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (3, 5)))
    top = main.add("topk", main.add("tanh", x), k=2, axis=1)
    parts = [main.add("get_tuple_elem", top, index=k) for k in range(2)]
    turned = [main.add("transpose", one, permutation=(1, 0)) for one in (*parts, x)]
    main.add_return(*turned)
    return program


def test_programs_without_work_run(spec: str):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (0, 4)))
    program.main.add_return(program.main.add("relu", x), x)
    found = wb.compile(program, target="gpu", device=spec).run({"x": np.zeros((0, 4), np.float32)})
    assert [found[k].shape for k in range(2)] == [(0, 4), (0, 4)]
    constant = Program()
    constant.main.add_return(constant.main.add_literal(np.arange(3, dtype=np.int64)))
    np.testing.assert_array_equal(
        wb.compile(constant, target="gpu", device=spec).run()[0], range(3)
    )


def test_too_large_a_program_is_refused_and_the_device_goes_on(spec: str, device: Device):
    gc.collect()
    before = device.in_use
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (1 << 42,)))
    program.main.add_return(program.main.add("relu", x))
    plan = lower(program, device.dialect)
    with pytest.raises(DeviceError, match="memory"):
        Executable(plan, device)
    assert device.in_use == before
    wb.compile(two_results(), target="gpu", device=spec).run()


def test_an_interrupted_run_leaves_the_build_and_the_device_usable(spec: str, device: Device):
    program = two_results()
    given = inputs_of(program)
    build = wb.compile(program, target="gpu", device=spec)
    wanted = build.run(given)
    before = device.in_use

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build.runner.run(given, hook=interrupt)
    assert device.in_use == before
    np.testing.assert_array_equal(build.run(given)[0], wanted[0])


def test_two_threads_share_a_build(spec: str):
    program = two_results()
    build = wb.compile(program, target="gpu", device=spec)
    given = [inputs_of(program, k) for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(build.run, given))
    for inputs, result in zip(given, found, strict=True):
        np.testing.assert_allclose(
            result[0], np.tanh(inputs["x"] + inputs["y"]), rtol=1e-5, atol=1e-6
        )


def test_odd_names_do_no_harm(spec: str):
    program = Program()
    name = '<img src=x onerror=alert(1)>"\\n*/'
    x = program.main.add_parameter(name, Shape("float", (4,)))
    with program.source(name):
        program.main.add_return(program.main.add("relu", x))
    build = wb.compile(program, target="gpu", device=spec)
    build.run({name: np.ones(4, np.float32)})
    html = build.plan()._repr_mimebundle_()["text/html"]
    assert "<img" not in html


def test_no_device_library_is_loaded_before_a_device_is_asked_for():
    code = """
import sys, workbench as wb
wb.compile(wb.Program(), target='cpu', passes='ref')
print([m for m in ('pyopencl', 'cuda', 'hip') if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
