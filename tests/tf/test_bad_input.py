"""Files that are no graphs, damaged or hostile ones, and what is not supported: refused with the reason."""

import contextlib
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.tf.graphs import Graph, Type
from workbench.compiler.errors import EvaluationError, ModelError, WorkbenchError
from workbench.compiler.tf import NodeContext, parse_tf, registry, tf_op
from workbench.compiler.tf import reader as tf_reader


def small() -> Graph:
    """A graph with one operator."""
    graph = Graph()
    graph.node("made", "Relu", graph.given("x", 2, 3))
    return graph


def refused(graph: Graph, words: str, **options: object) -> None:
    """Importing fails, and the message has these words."""
    with pytest.raises(ModelError, match=words):
        parse_tf(graph.bytes(), **options)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "ZIP archive"),
        (b"\x89HDF rest", "HDF5"),
        (b"version https://git-lfs", "Git LFS pointer"),
        (b"<html>", "web page"),
        (b'{"a": 1}', "JSON"),
        (b"node {\n name", "text form"),
        (b"\xff" * 64, "not a GraphDef"),
        (b"\x08\x01", "no nodes"),
    ],
)
def test_what_is_no_graph(data: bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        parse_tf(data)


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        parse_tf(tmp_path / "none.pb")
    with pytest.raises(ModelError, match="a folder"):
        parse_tf(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="SavedModel; freeze it"):
        parse_tf(tmp_path)
    with pytest.raises(ModelError, match="neither a path nor bytes"):
        parse_tf(3)  # type: ignore[arg-type]
    path = tmp_path / "graph.pb"
    path.write_bytes(small().bytes())
    assert parse_tf(path).name == "graph.pb"
    assert str(parse_tf(str(path))) == str(parse_tf(small().bytes()))


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    data = small().bytes()
    monkeypatch.setattr(tf_reader, "import_module", absent)
    with pytest.raises(ModelError, match=re.escape("pip install graph-workbench[tf]")):
        parse_tf(data)


def test_names() -> None:
    graph = small()
    graph.node("made", "Relu", "x")
    refused(graph, "'made'.*expected a unique, nonempty name")
    graph = small()
    graph.node("", "Relu", "x")
    refused(graph, "expected a unique, nonempty name")
    refused(small(), "output name 'relu6' not found in graph", output_names=["relu6"])
    refused(small(), "output name 'made:3' not found", output_names=["made:3"])
    refused(small(), "no placeholder 'y'", map_input_dims={"y": [1]})


def test_options() -> None:
    refused(small(), "batch_size=0", batch_size=0)
    refused(small(), "no negative lengths", map_input_dims={"x": [-1]})


def test_inputs_that_do_not_exist() -> None:
    graph = Graph()
    graph.node("made", "Relu", "nobody")
    refused(graph, "'made' .Relu. reads 'nobody', which is not a node")
    graph = small()
    graph.node("more", "Relu", "made:1")
    refused(graph, "an output of node 'made' .Relu. that is not supported")


def test_cycles_and_depth() -> None:
    graph = Graph()
    graph.node("a", "Relu", "b")
    graph.node("b", "Relu", "a")
    refused(graph, "a cycle: node 'a'.*loops are not supported", output_names=["a"])
    graph = Graph()
    graph.node("n0", "Relu", graph.given("x", 2))
    for i in range(3000):
        graph.node(f"n{i + 1}", "Relu", f"n{i}")
    assert len(parse_tf(graph.bytes()).main) == 3003


def test_unknown_operators_are_listed() -> None:
    graph = Graph()
    x = graph.given("x", 2, 3)
    for i in range(2):
        x = graph.node(f"odd{i}", "DoesNotExist", x)
    graph.node("made", "Relu", x)
    refused(graph, r"unknown operators: DoesNotExist .2×.*tf_op.*skip_unknown_operators")
    program = parse_tf(graph.bytes(), skip_unknown_operators=True)
    assert "unknown:DoesNotExist(x)" in str(program)
    with pytest.raises(EvaluationError, match="DoesNotExist"):
        wb.compile(program, "ref").run()


def test_calls_of_functions_say_how_to_be_without() -> None:
    graph = Graph()
    graph.node("made", "StatefulPartitionedCall", graph.given("x", 2, 3))
    refused(graph, "StatefulPartitionedCall .1×.; inline functions and loops")


def test_what_nothing_needs_may_be_unknown() -> None:
    graph = small()
    graph.node("odd", "DoesNotExist", "x")
    graph.node("after", "Relu", "odd")
    graph.node("check/Assert", "Assert", "after")
    program = parse_tf(graph.bytes())
    assert "unknown" not in str(program)
    assert program.output_names == ("made",)


def test_an_operator_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_HANDLERS", {})

    @tf_op("TestDouble")
    def double(node: NodeContext, inputs: list[wb.Instruction]) -> wb.Instruction:
        return node.add("add", inputs[0], inputs[0])

    graph = Graph()
    graph.node("made", "TestDouble", graph.given("x", 2))
    assert "add(x,x)" in str(parse_tf(graph.bytes()))


def constant(change: Callable[[Graph], None]) -> Graph:
    """A graph whose constant was tampered with."""
    graph = Graph()
    graph.filled("c", 1.0, 2, 3)
    change(graph)
    graph.node("made", "Relu", "c")
    return graph


def tensor(graph: Graph) -> object:
    """The tensor of the last node."""
    return graph.message.node[-1].attr["value"].tensor


def test_constants() -> None:
    def set_content(data: bytes) -> Callable[[Graph], None]:
        return lambda g: setattr(tensor(g), "tensor_content", data)

    refused(constant(set_content(b"abc")), "3 bytes; expected 24 .*damaged")
    refused(
        constant(lambda g: tensor(g).float_val.extend([1.0] * 9)), "10 values; expected at most 6"
    )
    refused(constant(lambda g: setattr(tensor(g), "dtype", 7)), "DT_STRING; expected one of float")
    refused(constant(lambda g: setattr(tensor(g), "dtype", 101)), "a reference")
    refused(constant(lambda g: setattr(tensor(g), "dtype", 999)), "code 999")
    refused(
        constant(lambda g: tensor(g).tensor_shape.dim.add(size=-1)), "expected them all to be known"
    )
    refused(constant(lambda g: tensor(g).tensor_shape.dim.add(size=1 << 60)), "would take")
    refused(
        constant(lambda g: [tensor(g).tensor_shape.dim.add(size=1) for _ in range(99)]),
        "99|101 dim",
    )
    refused(constant(lambda g: g.message.node[-1].attr.pop("value")), "'value' is missing")
    refused(
        constant(lambda g: setattr(g.message.node[-1].attr["value"], "i", 3)),
        "is an integer; expected",
    )


def test_placeholders() -> None:
    graph = Graph()
    graph.node("x", "Placeholder", dtype=Type("float32"))
    refused(graph, "number of dimensions is unknown; give map_input_dims")
    assert parse_tf(graph.bytes(), map_input_dims={"x": [2]}).main.parameters["x"].shape.lens == (
        2,
    )
    graph = Graph()
    graph.given("x", 1 << 50, 1 << 13)
    refused(graph, "expected at most")
    graph = Graph()
    graph.given("x", 3, type="string")
    refused(graph, "DT_STRING")


def test_what_nothing_needs_may_be_of_any_type() -> None:
    graph = small()
    graph.given("path", type="string")
    graph.node("pixels", "ReadFile", "path")
    graph.node("of any rank", "Placeholder", dtype=Type("float32"))
    graph.node("more", "Relu", "of any rank")
    program = parse_tf(graph.bytes(), output_names=["made"])
    assert list(program.main.parameters) == ["x"]
    refused(graph, "'path'.*DT_STRING", output_names=["pixels"], skip_unknown_operators=True)
    refused(graph, "'of any rank'.*dimensions is unknown", output_names=["more"])


@pytest.mark.parametrize("length", [60, 123])
def test_length_of_a_node_is_no_sign_of_another_format(length: int) -> None:
    graph = Graph()
    graph.node("a", "Placeholder", dtype=Type("float32"))
    shape = graph.message.node[0].attr["shape"].shape
    shape.dim.add(size=2)
    graph.message.node[0].name = "a" * (1 + length - graph.message.node[0].ByteSize())
    graph.node("made", "Relu", graph.message.node[0].name)
    data = graph.bytes()
    assert data[:2] == bytes([10, length])
    assert parse_tf(data).output_names == ("made",)


def switched(predicate: object) -> Graph:
    """A graph with a branch for training, whose operators are unknown, and one for inference."""
    graph = Graph()
    given = graph.given("x", 2)
    if isinstance(predicate, bool):
        graph.const("phase", predicate, "bool")
    else:
        graph.given("phase", type="bool")
    graph.node("switch", "Switch", given, "phase")
    graph.node("noise", "RandomUniform", "switch:1")
    graph.node("scaled", "Relu", "switch:0")
    graph.node("merge", "Merge", "scaled", "noise")
    graph.node("made", "Relu", "merge")
    return graph


def test_only_the_branch_that_is_taken_is_imported() -> None:
    assert "Random" not in str(parse_tf(switched(predicate=False).bytes()))
    refused(switched(predicate=True), r"unknown operators: RandomUniform .1×.*tf_op")
    refused(switched(predicate=False), "'noise'.*not taken", output_names=["noise"])
    refused(switched(predicate=None), r"unknown operators: RandomUniform .1×.*tf_op")


def fed() -> Graph:
    """``x - 1`` on one branch of a fed predicate; on the other, a constant and a branch of another one."""
    graph = Graph()
    for name in ("phase", "other"):
        graph.given(name, type="bool")
    graph.node("switch", "Switch", graph.given("x", 2), "phase")
    graph.node("less", "Sub", "switch:1", graph.filled("one", 1.0, 2))
    graph.node("inner", "Switch", "switch:0", "other")
    graph.node("twice", "Add", "inner:1", "inner:1")
    graph.node("negative", "Neg", "inner:0")
    graph.node("within", "Merge", "negative", "twice")
    graph.node("merge", "Merge", "within", "less")
    graph.node("made", "Identity", "merge")
    graph.node("number", "Identity", "merge:1")
    return graph


def test_a_predicate_may_be_fed() -> None:
    program = parse_tf(fed().bytes(), output_names=["made", "number"])
    x = np.array([1, 2], np.float32)
    for target in ("ref", "cpu"):
        build = wb.compile(program, target)
        for phase, other, wanted in ((1, 0, x - 1), (1, 1, x - 1), (0, 1, x + x), (0, 0, -x)):
            flags = {"phase": np.asarray(phase, bool), "other": np.asarray(other, bool)}
            found = build.run({"x": x, **flags})
            assert np.asarray(found["made"]).tolist() == wanted.tolist()
            assert int(found["number"]) == phase


def test_a_branch_that_is_not_taken_is_left_out_of_a_choice() -> None:
    graph = Graph()
    graph.given("phase", type="bool")
    graph.const("never", False, "bool")
    graph.node("idle", "Switch", graph.given("x", 2), "never")
    graph.node("switch", "Switch", "x", "phase")
    graph.node("twice", "Add", "switch:1", "switch:1")
    graph.node("merge", "Merge", "idle:1", "switch:0", "twice")
    graph.node("made", "Identity", "merge")
    graph.node("number", "Identity", "merge:1")
    build = wb.compile(parse_tf(graph.bytes(), output_names=["made", "number"]), "ref")
    for phase in (False, True):
        found = build.run({"x": np.ones(2, np.float32), "phase": np.asarray(phase)})
        assert np.asarray(found["made"]).tolist() == [1.0 + phase] * 2
        assert int(found["number"]) == 1 + phase


def test_branches_that_cannot_be_chosen_from_are_refused() -> None:
    graph = Graph()
    graph.given("phase", type="bool")
    graph.node("switch", "Switch", graph.given("x", 2), "phase")
    graph.node("longer", "ConcatV2", "switch:1", "switch:1", graph.const("axis", 0))
    graph.node("merge", "Merge", "longer", "switch:0")
    graph.node("made", "Relu", "merge")
    refused(graph, r"'merge' .Merge.: branches .*[{]4[}], [{]1[}] and .*[{]2[}], [{]1[}]; expected")
    graph = Graph()
    graph.given("phase", type="bool")
    graph.node("switch", "Switch", graph.given("x", 2), "phase")
    graph.node("merge", "Merge", "switch:1", "x")
    graph.node("made", "Relu", "merge")
    refused(graph, "'merge' .Merge.: its inputs are not the two branches of one predicate")


def test_a_placeholder_with_a_default_is_fed_if_its_lens_are_given() -> None:
    graph = Graph()
    graph.node("x", "PlaceholderWithDefault", graph.filled("c", 2.0, 3), dtype=Type("float32"))
    graph.node("made", "Neg", "x")
    fixed, open_ = (parse_tf(graph.bytes(), map_input_dims=d) for d in ({}, {"x": [3]}))
    assert np.asarray(wb.compile(fixed, "ref").run({})["made"]).tolist() == [-2.0] * 3
    fed = {"x": np.ones(3, np.float32)}
    assert np.asarray(wb.compile(open_, "ref").run(fed)["made"]).tolist() == [-1.0] * 3


def test_memory_is_not_taken_for_what_a_file_only_claims() -> None:
    graph = Graph()
    graph.given("x", 2)
    for name, value in (("start", 0), ("limit", 2_000_000_000), ("delta", 1)):
        graph.const(name, value)
    graph.node("made", "Range", "start", "limit", "delta")
    refused(graph, "would take")
    graph = Graph()
    graph.const("lens", [100_000, 100_000])
    graph.filled("value", 1.0)
    graph.node("made", "Fill", "lens", "value")
    refused(graph, "would take")
    graph = Graph()
    graph.const("depth", 1_000_000)
    graph.filled("on", 1.0)
    graph.filled("off", 0.0)
    graph.node("made", "OneHot", graph.given("i", 2, type="int32"), "depth", "on", "off")
    refused(graph, "would take")


def one(op: str, *lens: int, given: tuple[object, ...] = (), **attributes: object) -> Graph:
    """A graph with one operator and constants."""
    graph = Graph()
    names = [graph.const(f"c{i}", value) for i, value in enumerate(given)]
    graph.node("made", op, graph.given("x", *lens), *names, **attributes)
    return graph


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (one("Relu", 2, given=(1,)), "2 inputs; expected 1"),
        (one("Mean", 2, 3, given=([5],)), "axis 5 is out of range; expected -2 to 1"),
        (one("ArgMax", 2, 3, given=(-3,)), "axis -3 is out of range"),
        (one("Reshape", 2, 3, given=([4, 4],)), "reshape"),
        (one("Reshape", 2, 3, given=([0, 6],)), "without elements"),
        (one("ExpandDims", 2, given=(4,)), "axis 4 is out of range"),
        (one("Pad", 2, 3, given=([[1, 1]],)), "expected 4 nonnegative numbers"),
        (one("Slice", 4, given=([2], [9])), "are out of range for"),
        (one("GatherV2", 4, given=([1], 0), batch_dims=1), "batch_dims=1; expected 0"),
        (one("StridedSlice", 4, given=([0], [1], [0])), "strides"),
        (
            one("StridedSlice", 4, given=([9], [10], [1]), shrink_axis_mask=1),
            "index 9 is out of range",
        ),
        (one("StridedSlice", 4, given=([0, 0], [1, 1], [1, 1])), "2 entries for rank 1"),
        (one("Tile", 2, given=([2, 2],)), "expected 1 positive numbers"),
        (one("Transpose", 2, 3, given=([0, 0],)), "made"),
        (one("SplitV", 6, given=([2, 2], 0)), "expected them to sum to 6"),
        (one("MatMul", 2, given=([1.5],)), "expected matrices|float"),
        (one("Cast", 2, DstT=3), "'DstT' is an integer"),
        (one("Cast", 2), "'DstT' is missing"),
        (
            one("MaxPool", 1, 4, 4, 3, ksize=[1, 2, 2, 2], strides=[1, 1, 1, 1]),
            "1 for batch and channels",
        ),
        (one("MaxPool", 4, 4, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1]), "expected rank 4"),
        (
            one("MaxPool", 1, 4, 4, 3, ksize=[2], strides=[1, 1, 1, 1]),
            "ksize has 1 values; expected 4",
        ),
        (
            one("AvgPool", 1, 4, 4, 3, padding="ODD", ksize=[1] * 4, strides=[1] * 4),
            "padding='ODD'",
        ),
        (one("BiasAdd", 1, 4, 4, 3, given=([1, 2],), data_format="CHWN"), "data_format='CHWN'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operators_say_what_is_wrong(graph: Graph, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        parse_tf(graph.bytes())
    assert "node 'made'" in str(caught.value)


def test_lengths_that_only_a_run_knows() -> None:
    graph = Graph()
    graph.node("made", "Reshape", graph.given("x", 6), graph.given("lens", 2, type="int32"))
    refused(graph, "the lens is computed at run time; expected a constant")


def test_training_is_refused() -> None:
    graph = Graph()
    names = [graph.given("x", 1, 2, 2, 3), *(graph.given(n, 3) for n in "abcd")]
    graph.node("made", "FusedBatchNormV3", *names, is_training=True)
    refused(graph, "is_training is set")


def test_random_damage_is_refused_or_harmless() -> None:
    with np.load(Path(__file__).parent / "goldens.npz") as arrays:
        whole = [
            arrays[f"{name}/graph"].tobytes() for name in ("network", "slices", "joins", "lengths")
        ]
    chance = random.Random(5)
    for _ in range(300):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        with contextlib.suppress(WorkbenchError):
            parse_tf(bytes(data), skip_unknown_operators=chance.random() < 0.5)
