"""Values of a run: those that a run computes, found by every name they have, or told where they went."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.programs import inputs_for, programs
from tests.models.registry import MODELS
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.errors import GraphError, InputError, OperationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.metrics.histogram import Histogram
from workbench.numerics.metrics.statistics import histogram_of, statistics_of

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)


def network() -> Program:
    """Two layers of dot, mul, add and tanh, the nodes layer0 and layer1, and a softmax."""
    random = np.random.default_rng(0)
    program = Program("network")
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 8)))
    for i in range(2):
        weight = main.add_literal(random.standard_normal((8, 8), np.float32))
        with program.source(f"layer{i}"):
            x = main.add("dot", x, weight)
            x = main.add("tanh", main.add("add", x, main.add("mul", x, x)))
    main.add_return(main.add("softmax", x, axis=1))
    program.output_names = ("y",)
    return program


def named(program: Program, name: str) -> Instruction:
    return next(i for i in program.main if i.name == name)


def hooked(build: Build, inputs: dict[str, Any]) -> dict[int, Any]:
    """The values that the runner hands to a hook."""
    found: dict[int, Any] = {}

    def keep(instruction: Instruction, value: Any, _: object) -> None:
        found[instruction.id] = value

    build.evaluator().run(inputs, hook=keep)
    return found


@given(programs(), st.sampled_from(["ref", "cpu"]), st.sampled_from([0, 1 << 20]))
def test_values_are_those_of_a_run(program: Program, target: str, budget: int):
    build, inputs = compile(program, target), inputs_for(program)
    wanted = hooked(build, inputs)
    with build.values(inputs, budget=budget) as values:
        assert list(values) == list(wanted)
        assert all(np.array_equal(values[id], wanted[id], equal_nan=True) for id in wanted)
        assert values.store.peak <= budget
        result = build.run(inputs)
        for output, value in zip(build.program.outputs, result.outputs, strict=True):
            assert np.array_equal(values[output], value, equal_nan=True)


def test_a_value_has_the_names_of_the_model():
    program = network()
    build = compile(program, "cpu")
    values = build.values({"x": X})
    tanh = program.main.outputs[0].inputs[0]
    for key in ("layer1", tanh, tanh.id):
        assert np.array_equal(values[key], values["layer1"])
    assert np.array_equal(values["y"], build.run({"x": X})["y"])
    assert np.array_equal(values["x"], X)
    weight = next(i for i in program.main if i.literal is not None)
    assert np.array_equal(values[weight], weight.literal.numpy())
    assert values.tensors.keys() == {"x", "y"}
    assert "layer0" in values
    assert not any(key in values for key in ("layer2", 10**6, None))
    with pytest.raises(ValueError, match="read-only"):
        values["y"][0] = 0


def test_tensors_of_a_model_are_found_in_every_build():
    model = MODELS["small_cnn"]
    inputs, program = model.inputs(), wb.parse_onnx(model.path)
    plain = wb.compile(program, "ref").values(inputs)
    assert len(plain.tensors) > 60
    for precision, tolerance in ((None, 1e-5), ("fp16", 1e-2)):
        values = wb.compile(program, "cpu", precision=precision).values(inputs)
        found = values.tensors
        assert {"image", "logits", "/Conv_0_output_0", "/Relu_2_output_0"} <= found.keys()
        for name in found.keys() & plain.tensors.keys():
            assert np.allclose(values[name], plain[name], tolerance, tolerance * 10), name


def test_a_fused_value_is_in_the_kernel_that_the_message_names():
    program = network()
    build = compile(program, "cpu")
    add = named(program, "add")
    values = build.values({"x": X})
    kernel = next(i for i in build.program.main if i.modules)
    assert add.id not in values
    for ask in (lambda: values[add], lambda: build.values({"x": X}, add)):
        with pytest.raises(
            GraphError, match=rf"inside a kernel .*mul · add · tanh \(#{kernel.id}\)"
        ):
            ask()


def test_a_value_that_is_gone_says_which_rule_removed_it():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2,)))
    twice = program.main.add("neg", program.main.add("neg", x))
    dead = program.main.add("exp", x)
    program.main.add_return(program.main.add("tanh", twice))
    values = compile(program, "cpu").values()
    with pytest.raises(GraphError, match=rf"does not compute #{dead.id}: #{dead.id} is gone"):
        _ = values[dead]


def test_only_what_is_asked_for_is_kept():
    program = network()
    build = compile(program, "ref")
    dot = named(program, "dot")
    values = build.values({"x": X}, ["layer0", dot])
    assert len(values) == 2
    with pytest.raises(GraphError, match=r"softmax #\d+ was kept: it was not asked for"):
        _ = values["y"]
    single = build.values({"x": X}, "layer0")
    assert np.array_equal(single["layer0"], values["layer0"])
    assert len(build.values({"x": X}, [])) == 0
    assert np.array_equal(build.values({"x": X}, "x")["x"], X)


def test_what_names_no_value_is_refused():
    build = compile(network(), "cpu")
    with pytest.raises(GraphError, match=r"node or module 'layer_0'; did you mean 'layer0'"):
        build.values(which="layer_0")
    with pytest.raises(GraphError, match="99"):
        build.values(which=99)
    with pytest.raises(InputError, match="named by a float; expected an instruction"):
        build.values(which=[1.5])  # pyright: ignore[reportArgumentType]
    with pytest.raises(OperationError, match="per_channel is for statistics=True"):
        build.values(per_channel=1)
    with pytest.raises(InputError, match="no parameter is called 'z'"):
        build.values({"z": X})


def test_a_build_without_a_recording_knows_its_own_instructions():
    build = compile(network(), "cpu", record=False)
    last = build.program.outputs[0]
    assert np.array_equal(build.values({"x": X})[last.id], build.run({"x": X})["y"])
    assert build.values({"x": X}, last, statistics=True)["tensors"].tolist() == [""]
    with pytest.raises(OperationError, match="record=True"):
        build.values(which="layer0")


def test_open_lengths_and_seeds():
    program = Program()
    x = program.main.add_parameter("x", Shape.dynamic("float", (Dim(1, 9), Dim(3, 3))))
    program.main.add_return(program.main.add("relu", x))
    build = compile(program, "cpu")
    (id,) = build.values({"x": np.ones((5, 3), np.float32)})
    assert build.values({"x": np.ones((5, 3), np.float32)})[id].shape == (5, 3)
    first, again, other = (build.values(seed=s)["x"] for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_later_changes_of_an_input_change_no_value():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    program.main.add_return(program.main.add("transpose", x, permutation=(1, 0)))
    data = np.zeros((2, 3), np.float32)
    values = compile(program, "ref").values({"x": data})
    data += 1
    assert not any(values[id].any() for id in values)


# Statistics


def test_the_table_has_a_row_per_value():
    program = network()
    build = compile(program, "cpu")
    values, table = build.values({"x": X}), build.values({"x": X}, statistics=True)
    assert list(table.index) == list(values)
    for id, row in table.iterrows():
        assert row["count"] == values[id].size
        assert row["min"] == values[id].min()
        assert row["histogram"].counts.sum() == values[id].size
    last = table.loc[build.program.outputs[0].id]
    assert (last["tensors"], last["kernel"], last["mean"]) == ("y", "softmax", pytest.approx(1 / 8))
    assert table.loc[table.index[1], "sources"] == "layer0"


def test_the_table_of_channels():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3, 4)))
    relu = program.main.add("relu", x)
    program.main.add_return(relu, program.main.add("reshape", relu, dims=(24,)))
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (1, -2):
        table = compile(program, "ref").values({"x": data}, statistics=True, per_channel=axis)
        assert table.loc[relu.id].index.tolist() == [0, 1, 2]
        assert table.loc[relu.id, "max"].tolist() == [15, 19, 23]
        flat = [id for id in table.index.levels[0] if id != relu.id]
        assert [table.loc[id].index.tolist() for id in flat] == [[-1]]
        assert "histogram" not in table


def test_a_table_of_nothing_has_its_columns():
    table = compile(network(), "cpu").values(which=[], statistics=True)
    assert len(table) == 0
    assert {"name", "tensors", "mean", "nan", "histogram"} <= set(table.columns)


def one(value: Array) -> dict[str, float]:
    return {k: v.item() for k, v in statistics_of(value).items()}


def test_counts_at_the_edges():
    tiny = np.float32(2.0**-126)
    value = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, tiny / 2, -tiny / 4], np.float32)
    found = one(value)
    assert (found["count"], found["nan"], found["inf"]) == (8, 1, 2)
    assert (found["zero"], found["subnormal"]) == (2, 2)
    assert (found["min"], found["max"]) == (-tiny / 4, tiny)
    assert found["below half"] == 3 / 5
    assert found["beyond half"] == 0


@pytest.mark.parametrize(
    ("type", "least"),
    [(np.float64, 2.0**-1022), (np.float16, 2.0**-14), (ml_dtypes.bfloat16, 2.0**-126),
     (ml_dtypes.float8_e4m3fn, 2.0**-6), (ml_dtypes.float8_e5m2fnuz, 2.0**-15)],
)  # fmt: skip
def test_subnormal_is_a_property_of_the_type(type: type, least: float):
    assert float(ml_dtypes.finfo(type).smallest_normal) == least
    value = np.array([least, least / 2, -least / 2, 0, 1], type)
    assert one(value)["subnormal"] == 2


def test_the_range_of_half():
    edges = np.array([65504, 65519.996, 65520, -1e30, 2.0**-24, 2.0**-25, 2.0**-25 * 1.001, 0])
    with np.errstate(over="ignore"):
        half = edges.astype(np.float16)
    assert one(edges)["beyond half"] == np.isinf(half).mean()
    assert one(edges)["below half"] == ((half == 0) & (edges != 0)).mean()


@pytest.mark.parametrize("lens", [(), (0,), (2, 0, 3)])
def test_statistics_of_rank_0_and_of_nothing(lens: tuple[int, ...]):
    found = one(np.full(lens, 3, np.int32))
    if lens:
        assert found["count"] == 0
        assert all(np.isnan(found[k]) for k in ("min", "max", "mean", "std", "beyond half"))
    else:
        assert (found["mean"], found["std"], found["subnormal"]) == (3, 0, 0)
    assert histogram_of(np.full(lens, 3, np.int32)).counts.sum() == found["count"]
    assert len(statistics_of(np.zeros((2, 0, 3)), 1)["count"]) == 0


@given(st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_statistics_are_those_of_the_finite_elements(values: list[float]):
    value = np.array(values, np.float32)
    finite = value[np.isfinite(value)].astype(np.float64)
    found = one(value)
    assert found["nan"] + found["inf"] == value.size - finite.size
    if finite.size:
        assert (found["min"], found["max"]) == (finite.min(), finite.max())
        assert found["mean"] == pytest.approx(finite.mean())
        assert found["std"] == pytest.approx(finite.std())
    rows = statistics_of(value.reshape(1, -1), 1)
    assert rows["count"].tolist() == [1] * value.size


def test_a_histogram_is_shown_as_blocks():
    histogram = Histogram()
    assert repr(histogram).strip() == "±0"
    histogram.add(np.array([-1.0, 0.99, 0.99]), 1.0)
    assert repr(histogram) == "±1 ▄              █"


def test_values_that_do_not_fit_in_memory_are_in_a_folder():
    build = compile(network(), "cpu")
    with build.values({"x": X}, budget=0) as values:
        assert isinstance(values.store, ValueStore)
        assert values.store.used == 0
        assert np.array_equal(values["y"], build.run({"x": X})["y"])
    assert len(values) == 0
