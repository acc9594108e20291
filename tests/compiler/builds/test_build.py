"""Compiling and running: pipelines as asked for, inputs checked, timings counted, errors that help."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import ClassVar

import numpy as np
import pytest

from workbench.compiler.builds import garbage
from workbench.compiler.builds.build import compile
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.builds.targets import target_named, targets
from workbench.compiler.errors import (
    DeviceError,
    EvaluationError,
    GraphError,
    InputError,
    OperationError,
    RewriteError,
)
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.passes.base import Pass, passes_of
from workbench.gpu.devices import registry
from workbench.gpu.devices.registry import Availability


@pytest.fixture
def program() -> Program:
    """relu(x · w) + 1, with a name for the output."""
    made = Program("layer")
    main = made.main
    x = main.add_parameter("x", Shape("float", (2, 3)))
    w = main.add_literal(np.arange(12, dtype=np.float32).reshape(3, 4))
    one = main.add("multibroadcast", main.add_literal(np.float32(1)), out_lens=(2, 4))
    with made.source("gemm"):
        dot = main.add("dot", x, w)
    with made.source("bias"):
        main.add_return(main.add("add", main.add("relu", dot), one))
    made.output_names = ("y",)
    return made


X = np.array([[1, 2, 3], [-1, -2, -3]], np.float32)
Y = np.array([[33, 39, 45, 51], [1, 1, 1, 1]], np.float32)


@pytest.mark.parametrize("target", ["ref", "cpu", "auto"])
def test_every_target_computes_the_same(program, target):
    result = compile(program, target=target).run({"x": X})
    np.testing.assert_array_equal(result["y"], Y)
    np.testing.assert_array_equal(result[0], Y)
    assert list(result) == ["y"]


def test_float64_computes_every_float_in_double(program):
    assert compile(program).run({"x": X}, precision="float64")[0].dtype == np.float64


def test_inputs_left_out_come_from_a_seed(program):
    build = compile(program)
    first, again, other = build.run(), build.run(), build.run(seed=1)
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first.inputs["x"], other.inputs["x"])


@pytest.mark.parametrize("target", ["ref", "cpu", "auto"])
@pytest.mark.parametrize("strides", [(0, 1), (1, 0), (0, 0)], ids=str)
def test_what_a_stride_of_0_repeats_must_be_equal(strides, target):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3), strides))
    program.main.add_return(program.main.add("neg", x))
    build = compile(program, target)
    part = X[tuple(slice(None if s else 1) for s in strides)].copy()
    part[0, 0] = np.nan  # which is no other element than itself
    for whole in (np.broadcast_to(part, (2, 3)), np.broadcast_to(part, (2, 3)).copy()):
        np.testing.assert_array_equal(build.run({"x": whole})[0], -whole)
    build.run()
    with pytest.raises(InputError, match=r"'x'.*axis \d, which has stride 0.*broadcast_to"):
        build.run({"x": X})


def test_generated_inputs_fit_every_type():
    program = Program()
    program.main.add_parameter("ids", Shape("int64", (3,)))
    program.main.add_parameter("any", Shape.dynamic(Shape().type, [Dim(2, 9), 4]))
    program.main.add_return(*program.main.parameters.values())
    found = generated_inputs(program)
    assert set(np.unique(found["ids"])) <= {0, 1}
    assert found["any"].shape == (2, 4)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"z": X}, "no parameter is called 'z'.*'x'"),
        ({"x": X.astype(np.float64)}, "expected float32, found float64"),
        ({"x": X.T}, r"float_type, \{2, 3\}"),
        ({"x": "page.png"}, "expected float32"),
    ],
)
def test_wrong_inputs_say_what_is_expected(program, inputs, says):
    with pytest.raises(InputError, match=says):
        compile(program).run(inputs)


def test_tensors_come_in_through_dlpack(program):
    class Tensor:
        def __dlpack__(self, **options):
            return X.__dlpack__(**options)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    np.testing.assert_array_equal(compile(program).run({"x": Tensor()})["y"], Y)


def test_an_unknown_output_lists_the_known_ones(program):
    with pytest.raises(InputError, match="expected one of y"):
        compile(program).run({"x": X})["z"]


def test_a_profile_times_every_kernel(program):
    build = compile(program, target="cpu")
    result = build.run({"x": X}, profile=True, repetitions=3)
    table = result.timings()
    kernels = [i for i in build.program.main if i.inputs and i.name != "@return"]
    assert set(table.index) == {i.id for i in kernels}
    assert table["share"].sum() == pytest.approx(1)
    dot = table[table["op"] == "dot"].iloc[0]
    assert dot["MFLOP"] == pytest.approx(2 * 2 * 3 * 4 / 1e6)
    assert dot["sources"] == "gemm"
    assert any("relu" in k and "add" in k for k in table["kernel"])


def test_plots_use_the_axes_they_are_given(program):
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    result = compile(program).run({"x": X})
    figure, ax = plt.subplots()
    assert result.plot_timings(ax) is ax
    assert len(ax.patches) == len(result.timings())
    plt.close(figure)


def test_an_instruction_that_fails_is_named():
    program = Program()
    x = program.main.add_parameter("x", Shape("int32", (2,)))
    data = program.main.add_parameter("data", Shape("float", (3,)))
    with program.source("lookup"):
        program.main.add_return(program.main.add("gather", data, x, axis=0))
    with pytest.raises(EvaluationError, match=r"gather.*lookup"):
        compile(program, target="ref").run(
            {"x": np.array([0, 7], np.int32), "data": np.ones(3, np.float32)}
        )


def test_passes_can_be_chosen_left_out_and_added(program):
    class Mark(Pass):
        """Append an identity."""

        name: ClassVar[str] = "mark"

        def apply(self, program: Program) -> None:
            last = program.outputs[0]
            program.main.add("identity", last)

    build = compile(program, passes=["normalize_ops", Mark(), ("dead_code_elimination", {})])
    assert [s.name for s in build.recording] == ["normalize_ops", "mark", "dead_code_elimination"]
    assert [len(s.edits) > 0 for s in build.recording] == [False, True, True]
    without = compile(program, target="cpu", disable=["fuse_pointwise"])
    assert not any(i.name == "pointwise" for i in without.program.main)


def test_wrong_names_list_the_right_ones(program):
    with pytest.raises(OperationError, match=r"unknown target 'tpu'.*ref"):
        compile(program, target="tpu")
    with pytest.raises(
        OperationError, match=r"unknown pass 'fuse_all'; did you mean fuse.*fuse_pointwise"
    ):
        compile(program, passes=["fuse_all"])
    with pytest.raises(OperationError, match="cannot be left out"):
        compile(program, disable=["nothing"])
    with pytest.raises(OperationError, match="its options are"):
        compile(program, passes=[("fuse_pointwise", {"speed": 11})])
    with pytest.raises(DeviceError, match="unknown device 'tpu'"):
        compile(program, target="gpu", device="tpu")


def test_a_switch_is_on_or_off():
    name, key = "fuse_pointwise", "enable_multi_output"
    assert passes_of([(name, {key: 1})]) == passes_of([(name, {key: True})])
    with pytest.raises(OperationError, match=f"{key}='yes'; expected True or False"):
        passes_of([(name, {key: "yes"})])


def test_targets_say_what_is_missing(monkeypatch):
    table = targets()
    assert list(table.index) == ["ref", "cpu", "gpu"]
    assert table.loc["cpu", "available"]
    none = [Availability("cuda", "cuda", missing="no driver")]
    monkeypatch.setattr(registry, "available", lambda: none)
    table = targets()
    assert not table.loc["gpu", "available"]
    assert table.loc["gpu", "missing"] == "cuda: no driver"
    assert target_named("auto").name == "cpu"
    monkeypatch.setattr(
        registry, "available", lambda: [Availability("cuda:0", "cuda", processor="GPU")]
    )
    assert target_named("auto").name == "gpu"


def test_a_pass_that_breaks_the_program_is_caught(program):
    class Break(Pass):
        """Swap the inputs of a dot behind everybody's back."""

        name: ClassVar[str] = "break"

        def apply(self, program: Program) -> None:
            dot = next(i for i in program.main if i.name == "dot")
            dot.inputs = dot.inputs[:1]

    with pytest.raises(GraphError, match="after pass break"):
        compile(program, passes=[Break()], check=True)


def test_without_a_recording_asking_for_it_is_refused(program):
    with pytest.raises(OperationError, match="record=True"):
        compile(program, record=False).near_misses()


def test_an_empty_program_compiles_and_runs():
    program = Program()
    build = compile(program, target="cpu")
    assert build.run().outputs == ()


def test_a_program_without_return_gives_its_last_value():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2,)))
    program.main.add("neg", x)
    result = compile(program, target="cpu").run({"x": np.array([1, -2], np.float32)})
    np.testing.assert_array_equal(result[0], [-1, 2])
    assert list(result) == ["output_0"]


def test_one_pass_and_one_name_do_as_well_as_lists(program):
    assert len(compile(program, passes="dead_code_elimination").recording) == 1
    left = compile(program, disable="fuse_pointwise").recording
    assert "fuse_pointwise" not in [s.name for s in left]


@pytest.mark.parametrize("wrong", [42, ("dead_code_elimination",), None])
def test_what_is_no_pass_is_refused(program, wrong):
    with pytest.raises(OperationError, match="expected a pass, a name"):
        compile(program, passes=[wrong])


def test_a_pass_class_is_refused_with_what_to_write(program):
    with pytest.raises(OperationError, match=r"make one with Pass\(\)"):
        compile(program, passes=[Pass])  # pyright: ignore[reportArgumentType]


def test_a_pass_that_raises_is_named_and_leaves_its_recording(program):
    class Half(Pass):
        """Half of something."""

        name: ClassVar[str] = "half_done"

        def apply(self, program: Program) -> None:
            root = next(i for i in program.main if i.name == "relu")
            program.main.replace(root, program.main.insert(root.following, "tanh", *root.inputs))
            raise KeyError("gone")

    before = str(program)
    with pytest.raises(RewriteError, match="pass half_done: KeyError") as caught:
        compile(program, passes=["dead_code_elimination", Half()])
    assert str(program) == before
    assert caught.value.recording is not None
    last = caught.value.recording[1]
    assert (last.name, len(last.edits)) == ("half_done", 1)
    assert "gone" in last.error
    assert "tanh" in str(last.after)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([1, 2], "found list"),
        ({"x": [[1, 2], [3]]}, "found list, which NumPy cannot read"),
        ({0: 1, "q": 2}, "no parameter is called 0"),
    ],
)
def test_inputs_that_are_none(program, inputs, said):
    with pytest.raises(InputError, match=said):
        compile(program).run(inputs)


OTHER_TYPES = (3, 2.5, [3], {"a": 1}, b"x", object())


@pytest.mark.parametrize("option", ["target", "passes", "disable", "precision", "device"])
@pytest.mark.parametrize("value", OTHER_TYPES, ids=lambda value: type(value).__name__)
def test_an_option_of_another_type_is_refused(program, option, value):
    target = {"target": "gpu"} if option == "device" else {}
    said = r"unknown|is not a pass|be left out|expected fp16"
    with pytest.raises((OperationError, DeviceError), match=said):
        compile(program, **target, **{option: value})


@pytest.mark.parametrize("option", ["precision", "repetitions"])
@pytest.mark.parametrize("value", OTHER_TYPES[1:], ids=lambda value: type(value).__name__)
def test_a_runs_option_of_another_type_is_refused(program, option, value):
    with pytest.raises(OperationError, match=r"expected"):
        compile(program).run(profile=True, **{option: value})


def test_repetitions_are_counted_from_one(program):
    with pytest.raises(OperationError, match="-1 repetitions"):
        compile(program).run(profile=True, repetitions=-1)


def test_an_input_past_memory_is_not_made_up():
    huge = Program()
    huge.main.add_return(
        huge.main.add("relu", huge.main.add_parameter("x", Shape("float", (1 << 40,))))
    )
    with pytest.raises(InputError, match="pass one"):
        compile(huge).run()


def test_a_build_that_was_edited_runs_as_it_is_now(program):
    build = compile(program, target="ref")
    build.run()
    root = next(i for i in build.program.main if i.name == "relu")
    build.program.main.replace(root, build.program.main.insert(root.following, "neg", *root.inputs))
    x = np.ones((2, 3), np.float32)
    assert (build.run({"x": x})["y"] < 0).all()


def test_threads_share_a_build():
    shared = Program()
    x = shared.main.add_parameter("x", Shape("float", (64,)))
    for name in ("tanh", "sigmoid", "erf") * 20:
        x = shared.main.add(name, x)
    shared.main.add_return(x)
    build = compile(shared)
    given = [{"x": np.full(64, k, np.float32)} for k in range(8)]
    wanted = [build.run(one)[0] for one in given]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: build.run(given[k % 8])[0], range(200)))
    assert all(np.array_equal(f, wanted[k % 8]) for k, f in enumerate(found))


def test_an_interrupted_run_can_be_repeated(program):
    build = compile(program)
    wanted = build.run()["y"]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build.evaluator().run(generated_inputs(program), hook=stop)
    assert np.array_equal(build.run()["y"], wanted)


def test_constants_past_memory_are_left_to_the_run():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (1,)))
    wide = main.add("multibroadcast", main.add_literal(np.ones(1, np.float32)), out_lens=(1 << 40,))
    padded = main.add(
        "pad", main.add("slice", wide, axes=[0], starts=[0], ends=[1]), pads=[1 << 40, 0]
    )
    total = main.add("reduce_max", padded, axes=[0])
    main.add_return(main.add("add", x, total))
    with pytest.raises(EvaluationError, match="pad"):
        compile(program).run()


def test_deep_constants_without_folding_do_not_recurse():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (1,)))
    value = main.add_literal(np.ones(1, np.float32))
    for _ in range(3000):
        value = main.add("neg", value)
    main.add_return(main.add("max", x, value))
    build = compile(program, passes=["fuse_pointwise"])
    assert build.run({"x": np.zeros(1, np.float32)})[0] == [1]


def test_compilations_in_two_threads_leave_the_collector_as_it_was(program):
    usual, met, seen = gc.get_threshold(), Barrier(2, timeout=30), []

    class Meet(Pass):
        """Wait for the other one."""

        name: ClassVar[str] = "meet"

        def apply(self, _: Program) -> None:
            met.wait()
            seen.append(gc.isenabled())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: compile(program, "cpu", passes=[Meet()]), range(2)))
    assert seen == [True, True]
    assert gc.get_threshold() == usual


def test_frozen_objects_are_counted_once_and_stay_frozen(monkeypatch: pytest.MonkeyPatch):
    counts: list[int] = []
    monkeypatch.setattr(garbage, "_frozen", False)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counts.append(1) or 5)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("what others froze was released"))
    for _ in range(3):
        with garbage.lasting():
            pass
    assert len(counts) == 1
