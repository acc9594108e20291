"""DOT checkpoints, text, JSON and the debug file."""

import json
import logging
from pathlib import Path

import pytest

from workbench.compat import popart
from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops
from workbench.knobs import knobs


@pytest.fixture
def ir() -> pir.Ir:
    """A call, a view, an update in place, two in sequence, a copy to another IPU."""
    ir = pir.Ir()
    with ir.main_graph():
        x = pir.variable([1.0, 2.0], name="x")
        with pir.in_sequence():
            graph = ir.create_graph(lambda a: a + 1, x)
            (y,) = ops.call(graph, x)
            z = ops.add_(ops.reshape_(x, (2,)), y)
        ops.host_store(pir.d2h_stream((2,), pir.float32, "out"), ops.ipu_copy(z, 1))
    return ir


@pytest.mark.parametrize(
    ("variable", "option", "written"),
    [
        (None, "", {"foo", "bar", "final"}), ("", "", set()), ("", "foo", {"foo"}),
        ("FOO:bar", "", {"foo", "bar"}), ("Final", "", {"final"}), ("all", "", {"foo", "bar", "final"}),
    ],
)  # fmt: skip
def test_checkpoints_that_are_on_write_a_file_for_each_graph(
    ir: pir.Ir, tmp_path: Path, variable: str | None, option: str, written: set[str]
) -> None:
    """By variable or option, in any case; all if neither is set."""
    ir.options.dotChecks = {option} if option else set()
    with knobs.scope(popart_dot_checks=None if variable is None else tuple(variable.split(":"))):
        for name in ("Foo", "Bar"):
            ir.dot_checkpoint(name, tmp_path / "made")
        pir.Session(ir, "ipu_model")
    names = {p.name for p in (tmp_path / "made").glob("*.dot")}
    assert names == {f"{check}_{graph}.dot" for check in written for graph in ("r", "0")}


def test_the_dot_file_has_colours_for_memory_and_order(ir: pir.Ir, tmp_path: Path) -> None:
    """In one file for all graphs, if so asked."""
    ir.options.separateCallOpPdfs = False
    ir.dot_checkpoint("Now", tmp_path)
    text = (tmp_path / "now_all.dot").read_text()
    assert text.startswith("digraph net {")
    assert '"x" [label="x\\n(2)\\nnc:2", shape=egg, color=blue]' in text
    assert "AddLhsInplace" in text
    assert "color=violet" in text
    assert "color=grey, style=dotted" in text
    assert "<0>" in text
    assert "vgid:1 0/1" in text
    assert "in:0" in text


def test_text_and_json_list_operations_with_their_attributes(
    ir: pir.Ir, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A session logs the text at DEBUG, and writes the JSON where the variable says."""
    path = tmp_path / "ir.json"
    with knobs.scope(popart_ir_dump=str(path)), caplog.at_level(logging.DEBUG, "popart.ir"):
        pir.Session(ir, "ipu_model")
    assert ir.log_ir() in caplog.text
    main, sub = ir.log_ir().split("=" * 60)
    assert 'Op "call", ' in main
    assert "destination: 1" in main
    assert "  Inputs: " in sub
    found = json.loads(path.read_text())
    assert [op["type"] for op in found["maingraph"]] == [op.op_type for op in ir.main_graph().ops()]
    (added,) = found[sub.split()[1]]
    assert added["type"] == "Add"
    assert added["inputs"][1] == {
        "name": added["inputs"][1]["name"],
        "shape": [],
        "type": "float32",
        "index": 1,
    }
    assert added["attributes"]["scope"] == sub.split()[1]


def test_the_debug_file_has_the_line_of_each_operation_and_tensor(tmp_path: Path) -> None:
    """Texts are numbers of a table."""
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    with pir.Ir().main_graph():
        a, b = pir.variable(0), pir.variable(1)
        c = a + b
    popart.closePoplarDebugInfo()
    _ = pir.Ir()
    found = json.loads(path.read_text())
    assert [x["category"] for x in found["contexts"]].count("tensor") == 3
    (made,) = (x for x in found["contexts"] if x["category"] == "op")
    assert (made["layer"], made["api"], made["inputs"]) == ("popart.ir", "add", [a.id, b.id])
    assert made["outputs"] == [c.id]
    assert found["stringTable"][made["location"]["fileName"]] == __file__
    with pytest.raises(ValueError, match=r"expected 'json'"):
        popart.initializePoplarDebugInfo(str(path), "xml")
