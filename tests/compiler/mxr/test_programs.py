"""Programs in MIGraphX's files: its structure, and back the very same program."""

import numpy as np
import pytest
from hypothesis import given

import workbench as wb
from tests.compiler.mxr.examples import (
    EXAMPLES,
    attributes,
    branches,
    expect_same,
    strided,
    symbols,
)
from tests.compiler.programs import inputs_for, programs
from workbench.compiler.errors import ModelError, OperationError
from workbench.compiler.files import mxr
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Unknown
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym import lit, var
from workbench.compiler.text import printing as text

FORMS = ("msgpack", "json")


def scalar_sum() -> Program:
    program = Program()
    scalar = Shape("int32", (1,), (0,))
    x = program.main.add_parameter("x", scalar)
    two = program.main.add_literal(Argument(scalar, np.array([2], np.int32)))
    program.main.add_return(program.main.add("add", x, two))
    return program


def test_the_value_of_a_program():
    shape = {
        "type": "int32_type",
        "sub_shapes": [],
        "lens": [1],
        "strides": [0],
        "dynamic_dimensions": [],
        "dyn_strides": [],
    }
    value = mxr.to_value(scalar_sum())
    literal = value["modules"]["main"]["nodes"][0].pop("literal")
    assert bytes(literal["data"]) == b"\x02\0\0\0"
    assert literal["shape"] == shape
    common = {"shape": shape, "normalized": False}
    assert value == {
        "version": 8,
        "migraphx_version": "2.16.0",
        "targets": [],
        "contexts": [],
        "modules": {
            "main": {
                "name": "main",
                "nodes": [
                    {"output": "@0", "name": "@literal", **common, "operator": {}, "inputs": []},
                    {
                        "output": "x",
                        "name": "@param",
                        **common,
                        "operator": {"parameter": "x"},
                        "inputs": [],
                    },
                    {
                        "output": "@2",
                        "name": "add",
                        **common,
                        "operator": {},
                        "inputs": ["x", "@0"],
                    },
                    {"output": "@3", "name": "@return", **common, "operator": {}, "inputs": ["@2"]},
                ],
            }
        },
    }
    order = ["version", "migraphx_version", "targets", "contexts", "modules"]
    assert list(value) == order
    node = mxr.to_value(symbols())["modules"]["main"]["nodes"][2]
    assert list(node) == [
        "output", "name", "shape", "normalized", "operator", "inputs", "debug_symbols",
    ]  # fmt: skip


def test_attributes_are_numbers_texts_and_lists():
    nodes = mxr.to_value(attributes())["modules"]["main"]["nodes"]
    by_name = {n["name"]: n["operator"] for n in nodes}
    assert by_name["pooling"]["mode"] == 2
    assert by_name["pooling"]["padding_mode"] == 0
    assert by_name["pooling"]["lengths"] == [2, 2]
    assert by_name["convert"] == {"target_type": 1}
    assert by_name["pad"]["value"] == -np.inf
    assert by_name["allocate"]["shape"]["strides"] == [1, 2]


def test_modules_are_called_by_name():
    value = mxr.to_value(branches())
    assert list(value["modules"]) == ["main", "then", "else"]
    call = value["modules"]["main"]["nodes"][2]
    assert call["module_inputs"] == ["then", "else"]
    assert value["modules"]["then"]["nodes"][0]["output"] == "then:@0"
    assert value["modules"]["then"]["nodes"][1]["inputs"] == ["x", "then:@0"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", EXAMPLES)
def test_what_was_saved_is_loaded(make, form):
    program = make()
    expect_same(program, mxr.load_buffer(mxr.save_buffer(program, form), form))


@pytest.mark.parametrize("form", FORMS)
def test_symbolic_lengths_are_kept(form):
    n, m = var("n", 1, 8, {2, 4}), var("m", 2, 6)
    dims = [n, lit(3), n * m + 2, (n - 1) // 2 + 1, n * n * 3]
    program = Program()
    shape = Shape.dynamic(wb.DType.FLOAT, [Dim.of(d) for d in dims])
    program.main.add_return(program.main.add("relu", program.main.add_parameter("x", shape)))
    loaded = mxr.load_buffer(mxr.save_buffer(program, form), form)
    expect_same(program, loaded)
    found = loaded.parameters["x"]
    assert found.dyn_strides == shape.dyn_strides
    assert found.dims is not None
    assert found.dims[0].optimals == (2, 4)


@given(programs())
def test_random_programs(program):
    for form in FORMS:
        expect_same(program, mxr.load_buffer(mxr.save_buffer(program, form), form))
    build = wb.compile(program, "cpu")
    loaded = mxr.load_buffer(mxr.save_buffer(build.program))
    expect_same(build.program, loaded)
    inputs = inputs_for(program)
    again = wb.compile(loaded, "ref", passes=[]).run(inputs)
    for a, b in zip(build.run(inputs).outputs, again.outputs, strict=True):
        assert np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_compiled_program_keeps_its_target(target, tmp_path):
    compiled = wb.compile(branches(), target).program
    assert compiled.targets == (target,)
    wb.save(compiled, tmp_path / "compiled.mxr")
    value = mxr.to_value(compiled)
    assert value["targets"] == [{"name": target}]
    assert value["contexts"] == [None]
    loaded = wb.load(tmp_path / "compiled.mxr")
    assert isinstance(loaded, Program)
    expect_same(compiled, loaded)


def test_what_needs_normalization_is_marked_once_it_is_compiled():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    program.main.add_return(program.main.add("softmax", x, axis=-1))
    for one, marked in ((program, False), (wb.compile(program, "ref").program, True)):
        nodes = mxr.to_value(one)["modules"]["main"]["nodes"]
        assert [n["normalized"] for n in nodes if n["name"] == "softmax"] == [marked]


def test_what_migraphx_has_no_place_for_is_kept_beside_it(tmp_path):
    program = branches()
    with program.source("here"):
        extra = program.create_module("unused")
        extra.add_return(extra.add_literal(np.float32(1)))
    next(iter(program.main)).target_id = 3
    program.modules["then"].bypass = True
    value = mxr.to_value(program)
    found = value["workbench"]
    assert found["bypass"] == ["then"]
    assert found["order"] == ["main", "then", "else", "unused"]
    assert found["modules"]["main"] == {
        "parameters": ["x", "condition"],
        "target_ids": [3, 0, 0, 0, 0],
    }
    for form in FORMS:
        expect_same(program, mxr.load_buffer(mxr.save_buffer(program, form), form))
    wb.save(program, tmp_path / "p.json")
    loaded = wb.load(tmp_path / "p.json")
    assert isinstance(loaded, Program)
    expect_same(program, loaded)


def test_a_file_without_what_only_the_workbench_knows_loads_too():
    program = wb.compile(branches(), "cpu").program
    value = mxr.to_value(program)
    value.pop("workbench", None)
    assert str(mxr.from_value(value)) == str(program)


def test_empty_parts_may_be_null_or_objects_or_missing():
    value = mxr.to_value(scalar_sum())
    node = value["modules"]["main"]["nodes"][2]
    node["operator"] = None
    node["shape"]["dynamic_dimensions"] = None
    node["shape"]["dyn_strides"] = {}
    del node["shape"]["sub_shapes"]
    value["targets"] = None
    assert str(mxr.from_value(value)) == str(scalar_sum())


def test_unknown_operators_are_kept():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2,)))
    program.main.add_return(program.main.insert(None, Unknown(op="Foo bar"), x))
    expect_same(program, mxr.load_buffer(mxr.save_buffer(program)))


def test_the_text_and_the_literals_are_the_whole_program():
    program = strided()
    program.main.reverse_parameters()
    found = text.parse(str(program), literals=text.literals(program))
    expect_same(program, found)


def test_another_version_of_migraphx_is_said_and_read():
    value = mxr.to_value(scalar_sum()) | {"migraphx_version": "2.17.1"}
    with pytest.warns(UserWarning, match=r"2\.17\.1"):
        assert str(mxr.from_value(value)) == str(scalar_sum())


def test_names_of_files_say_their_form(tmp_path):
    build = wb.compile(branches(), "cpu")
    with pytest.raises(OperationError, match="recording"):
        wb.save(build.recording, tmp_path / "r.mxr")
    with pytest.raises(OperationError, match="xml"):
        mxr.save(build.program, tmp_path / "p.mxr", "xml")
    with pytest.raises(OperationError, match="xml"):
        mxr.load(tmp_path / "p.mxr", "xml")
    with pytest.raises(ModelError, match=r"none\.mxr: cannot be read"):
        wb.load(tmp_path / "none.mxr")
    with pytest.raises(FileNotFoundError, match="no folder"):
        wb.save(build.program, tmp_path / "none" / "p.mxr")
