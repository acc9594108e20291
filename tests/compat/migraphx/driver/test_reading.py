"""The driver loads models, changes them, and writes them in every form."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import json_format

import workbench as wb
from tests.compat.migraphx.driver.conftest import Call
from workbench.compiler.files import mxr


def test_read_prints_the_text_form_and_nothing_else(model: Path, call: Call):
    found = call("read", model)
    assert (found.code, found.out) == (0, f"{wb.parse_onnx(model, default_dim_value=1)}\n")
    assert f"Reading: {model}\n" in found.err


def test_the_test_model_is_a_product(call: Call):
    text = call("read", "--test").out
    assert "@2 = dot(a,b) -> float_type, {4, 3}, {3, 1}" in text
    assert "a = @param:a -> float_type, {4, 5}, {5, 1}" in text


def test_json_is_migraphx_s(model: Path, call: Call):
    value = json.loads(call("read", model, "--json").out)
    assert (value["version"], value["targets"]) == (8, [])
    assert value["modules"]["main"]["nodes"][-1]["name"] == "@return"


def test_netron_s_form_is_an_onnx_model(model: Path, call: Call):
    text = call("read", model, "--netron").out
    found = json_format.Parse(text, onnx.ModelProto())
    assert [n.op_type for n in found.graph.node if n.op_type != "multibroadcast"] == [
        "dot", "add", "relu",
    ]  # fmt: skip
    given = {i.name for i in (*found.graph.input, *found.graph.initializer)}
    made = {o for n in found.graph.node for o in n.output}
    assert {i for n in found.graph.node for i in n.input} <= given | made
    assert {o.name for o in found.graph.output} <= made


@pytest.mark.parametrize("flag", ["--graphviz", "-g"])
def test_graphviz_has_a_node_and_edges_for_each_instruction(model: Path, call: Call, flag: str):
    text = call("read", model, flag).out
    assert text.startswith("digraph {\n")
    assert 'label="float_type\\n{1, 3}, {3, 1}"' in text
    assert "<B>relu</B>" in text
    assert '[label="relu"];' in call("read", model, flag, "--brief").out


def test_cpp_builds_the_program(model: Path, call: Call):
    lines = call("read", model, "--cpp").out.splitlines()
    assert lines[:2] == [
        "migraphx::program p;",
        "migraphx::module_ref mmain = p.get_main_module();",
    ]
    assert 'auto x_6 = mmain->add_instruction(migraphx::make_op("relu"), x_5);' in lines


@pytest.mark.parametrize("flag", ["--py", "--python"])
def test_python_is_read_again(model: Path, call: Call, tmp_path: Path, flag: str):
    script = tmp_path / "again.py"
    script.write_text(call("read", model, flag).out)
    call("read", script, "-o", tmp_path / "again.mxr")
    again = mxr.load(tmp_path / "again.mxr")
    x = np.ones((1, 3), np.float32)
    wanted, found = (wb.compile(p, "ref").run({"x": x})[0] for p in (wb.parse_onnx(model), again))
    np.testing.assert_array_equal(wanted, found)


@pytest.mark.parametrize("form", [["--binary"], []])
def test_a_file_is_binary_unless_said_otherwise(
    model: Path, call: Call, tmp_path: Path, form: list[str]
):
    file = tmp_path / "small.mxr"
    assert call("read", model, "-o", file, *form).out == ""
    assert call("read", file).out == call("read", model).out


def test_json_goes_to_a_file_and_comes_back(model: Path, call: Call, tmp_path: Path):
    file = tmp_path / "small.json"
    call("read", model, "--json", "--output", file)
    assert call("read", file).out == call("read", model).out
    other = file.rename(tmp_path / "small.bin")
    assert call("read", other, "--migraphx-json").out == call("read", model).out


def test_what_the_workbench_saved_is_read(model: Path, call: Call, tmp_path: Path):
    file = tmp_path / "small.zip"
    wb.save(wb.parse_onnx(model, default_dim_value=1), file)
    assert call("read", file).out == call("read", model).out


def test_open_dimensions_are_the_batch(model: Path, call: Call):
    assert "x = @param:x -> float_type, {5, 3}, {3, 1}" in call("read", model, "--batch", 5).out


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        (["--input-dim", "@x", "7", "3"], "float_type, {7, 3}, {3, 1}"),
        (["--dim-param", "@n", "7"], "float_type, {7, 3}, {3, 1}"),
        (["--dim-param", "@n", "{min:1, max:7}"], "dynamic, float_type, {[1..7], 3}"),
        (["--dyn-input-dim", "@x", "[{min:1,max:7},3]"], "dynamic, float_type, {[1..7], 3}"),
        (["--default-dyn-dim", "{min:1,max:7,optimals:[2]}"], "dynamic, float_type, {[1..7], 3}"),
    ],
)
def test_dimensions_are_given_by_name(model: Path, call: Call, options: list[str], shape: str):
    found = call("params", model, *options)
    assert found.out == f"x: {shape}\n"


def test_parameters_and_outputs_as_json(model: Path, call: Call):
    found = json.loads(call("params", model, "--json").out)
    assert found["parameters"]["x"]["lens"] == [1, 3]
    assert found["outputs"]["y"]["lens"] == [1, 4]


def test_trim_and_a_window(model: Path, call: Call):
    assert "relu" not in call("read", model, "--trim", 2).out
    text = call("read", model, "-t", 1, "-s", 2).out
    assert "dot" not in text
    assert "relu" in text


def test_passes_by_name_with_commas_and_options(model: Path, call: Call):
    words = ["-p", "simplify_reshapes,eliminate_dead_code", "-p", "fuse_pointwise"]
    text = call("read", model, *words).out
    assert "= pointwise(" in text
    assert call("read", model, "-p", "fuse_pointwise{enable_multi_output:true}").code == 0


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("fuse_nothing", "unknown pass 'fuse_nothing'"),
        ("fuse_pointwise{no_such:1}", "its options are"),
        ("{a:1}", "expected the name of a pass"),
        ("fuse_pointwise{a}", "expected a list, object or number"),
    ],
)
def test_a_wrong_pass_is_one_message(model: Path, call: Call, word: str, says: str):
    found = call("read", model, "-p", word)
    assert found.code in (1, 2)
    assert says in found.err.splitlines()[-1]


def test_optimize_folds_and_shares(model: Path, call: Call):
    plain, less = (len(call("read", model, *o).out.splitlines()) for o in ([], ["-O"]))
    assert less <= plain


def test_literals_become_parameters(model: Path, call: Call):
    text = call("read", model, "--replace-literals").out
    assert "@literal" not in text
    assert {"literal:0", "literal:1"} <= set(re.findall(r"@param:(literal:\d)", text))
    assert call("run", model, "--replace-literals").code == 0


def test_debug_symbols_name_the_nodes(model: Path, call: Call):
    assert "# last/Relu" in call("read", model, "--debug-symbols").out


SCRIPTS = [
    ("x = 1\n", 1, "no program found"),
    ("1 / 0\n", 1, "ZeroDivisionError"),
    ("a = migraphx.program()\nb = migraphx.program()\n", 1, "several programs"),
    ("only = migraphx.program()\nonly.get_main_module()\n", 0, ""),
]


@pytest.mark.parametrize(("code", "exits", "says"), SCRIPTS)
def test_scripts_leave_a_program(call: Call, tmp_path: Path, code: str, exits: int, says: str):
    script = tmp_path / "model.py"
    script.write_text(code)
    found = call("read", script)
    assert found.code == exits
    assert says in found.err


def test_a_script_that_imports_migraphx_gets_ours(call: Call, tmp_path: Path):
    script = tmp_path / "model.py"
    lines = [
        "import migraphx",
        "p = migraphx.program()",
        "m = p.get_main_module()",
        'x = m.add_parameter("x", migraphx.shape(type="float_type", lens=[2]))',
        'm.add_return([m.add_instruction(migraphx.op("relu"), [x])])',
        "q = p",
    ]
    script.write_text("\n".join(lines))
    assert "@1 = relu(x) -> float_type, {2}, {1}" in call("read", script).out
