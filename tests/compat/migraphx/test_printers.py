"""Programs as Python, C++ and Graphviz: what is printed is the program, and no name is code."""

import ast
import itertools
import re
from collections import Counter

import numpy as np
import pytest

import workbench as wb
from tests.models import registry
from workbench.compat import migraphx
from workbench.compat.migraphx.printers.cpp import to_cpp
from workbench.compat.migraphx.printers.graphviz import to_dot
from workbench.compat.migraphx.printers.python import operation_code, to_python
from workbench.compiler.ir import sym
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.pool import PoolingMode

OPERATIONS = all_operations()

MODELS = (
    "small_branches",
    "small_loop",
    "small_loop_stops",
    "small_scan",
    "small_cnn",
    "small_encoder",
)
HOSTILE = ('x"); raise SystemExit("', "a\nb", "\\", "é☃", "a.b", "a_b", "@3", "", "a\x00b")


def executed(program: Program) -> Program:
    """The program that the printed Python builds."""
    names: dict[str, object] = {"migraphx": migraphx}
    exec(to_python(program), names)
    made = names["p"]
    assert isinstance(made, migraphx.program)
    return made.core


def facts(program: Program) -> Counter[tuple[str, str]]:
    """The contents of a program in no particular order; MIGraphX holds rank 0 in a scalar's shape."""
    return Counter(
        (
            "@literal" if i.literal is not None else str(i.op),
            str(i.shape).replace("{}, {}", "{1}, {0}"),
        )
        for i in program.instructions
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["", "cpu"])
def test_the_python_of_a_model_builds_it_again(name: str, target: str):
    program = wb.parse_onnx(registry.path(name))
    if target:
        program = wb.compile(program, target).program
    again = executed(program)
    assert facts(again) == facts(program)
    assert [m.bypass for m in again.modules.values()].count(True) == [
        m.bypass for m in program.modules.values()
    ].count(True)


@pytest.mark.parametrize("name", ["small_branches", "small_loop"])
def test_what_was_built_again_computes_the_same(name: str):
    program = wb.parse_onnx(registry.path(name))
    inputs = registry.MODELS[name].inputs()
    wanted, found = (wb.compile(p, "ref").run(inputs) for p in (program, executed(program)))
    np.testing.assert_array_equal(wanted[0], found[0])


def small() -> Program:
    """A few instructions with attributes of several kinds."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (1, 2, 4, 4)))
    one = main.add_literal(np.float32(0.1))
    pooled = main.add(
        "pooling",
        x,
        mode=PoolingMode.MAX,
        lengths=(2, 2),
        stride=(2, 2),
        padding=(0, 0),
        ceil_mode=True,
    )
    many = main.add("multibroadcast", one, out_lens=pooled.shape.lens)
    main.add_return(main.add("add", pooled, many), main.add("convert", pooled, target_type="half"))
    return program


def test_python_line_by_line():
    assert to_python(small()) == """\
p = migraphx.program()
m = p.get_main_module()
x_0 = m.add_literal(migraphx.create_argument(migraphx.shape(type="float_type", lens=[1], strides=[0]), [0.1]))
p_x = m.add_parameter("x", migraphx.shape(type="float_type", lens=[1, 2, 4, 4]))
x_2 = m.add_instruction(migraphx.op("pooling", mode=1, stride=[2,2], lengths=[2,2], ceil_mode=True), [p_x]) \
# migraphx.shape(type="float_type", lens=[1, 2, 2, 2])
x_3 = m.add_instruction(migraphx.op("multibroadcast", out_lens=[1,2,2,2]), [x_0]) \
# migraphx.shape(type="float_type", lens=[1, 2, 2, 2], strides=[0, 0, 0, 0])
x_4 = m.add_instruction(migraphx.op("add"), [x_2, x_3]) # migraphx.shape(type="float_type", lens=[1, 2, 2, 2])
x_5 = m.add_instruction(migraphx.op("convert"), [x_2]) # migraphx.shape(type="half_type", lens=[1, 2, 2, 2])
m.add_return([x_4, x_5])

"""  # fmt: skip


def test_cpp_line_by_line():
    lines = to_cpp(small()).splitlines()
    one = "migraphx::shape{migraphx::shape::float_type, {1}}"
    assert lines[:4] == [
        "migraphx::program p;",
        "migraphx::module_ref mmain = p.get_main_module();",
        f"auto x_0 = mmain->add_literal(migraphx::abs(migraphx::generate_literal({one}, 0)));",
        'auto p_x = mmain->add_parameter("x",migraphx::shape{migraphx::shape::float_type, {1, 2, 4, 4}});',
    ]
    assert lines[5] == (
        'auto x_3 = mmain->add_instruction(migraphx::make_json_op("multibroadcast", '
        r'"{\"out_dyn_dims\":[],\"out_lens\":[1,2,2,2]}"), x_0);'
    )
    assert lines[-2] == "mmain->add_return({x_4, x_5});"


def test_cpp_passes_modules_to_what_takes_them():
    program = wb.parse_onnx(registry.path("small_cnn"), default_dim_value=1)
    text = to_cpp(wb.compile(program, "cpu").program)
    made = re.search(
        r"^migraphx::module_ref (\w+) = p.create_module\(\"main:pointwise0\"\);", text, re.MULTILINE
    )
    assert made is not None
    assert re.search(rf'make_op\("pointwise"\), {{x_\d+, x_\d+}}, {{{made[1]}}}\);', text)


def test_large_literals_are_generated_and_small_ones_kept_exactly():
    program = Program()
    values = np.array([1 / 3, 1e-45, 3.4e38, -0.0, np.nan, np.inf, -np.inf, 1e6 + 0.5], np.float32)
    program.main.add_literal(np.zeros(1024, np.float32))
    program.main.add_literal(np.array([True, False]))
    program.main.add_literal(np.array([2**63 - 1, -(2**63)]))
    program.main.add_literal(np.array([0.1, 1 / 3]))
    program.main.add_literal(values)
    again = executed(program)
    text = to_python(program)
    assert 'migraphx.generate_argument(migraphx.shape(type="float_type", lens=[1024]), 0)' in text
    found = {i.shape.type: i.literal for i in again.main if i.shape.elements < 1024 and i.literal}
    for i in program.main:
        assert i.literal is not None
        if i.shape.elements < 1024:
            literal = found[i.shape.type]
            np.testing.assert_array_equal(literal.numpy(), i.literal.numpy())


def test_dynamic_and_symbolic_dimensions_and_tuples():
    program = Program()
    n = sym.var("n", 1, 8, [2, 4])
    program.main.add_parameter("a", Shape.dynamic(DType.FLOAT, [Dim(1, 4, (2,)), 3]))
    program.main.add_parameter("b", Shape.dynamic(DType.FLOAT, [Dim.of(n), Dim.of(n * 2 + 1)]))
    program.main.add_parameter(
        "c", Shape.tuple_of([Shape("int8", (2,)), Shape("half", (1,), (0,))])
    )
    again = executed(program)
    assert again.parameters == program.parameters


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_code(name: str):
    program = Program()
    other = program.create_module(f"then {name}")
    other.add_return(other.add_literal(np.float32(1)))
    x = program.main.add_parameter(name, Shape("bool", (1,), (0,)))
    program.main.add_parameter("a b", Shape())
    program.main.add_return(program.main.add("if", x, modules=[other, other]))
    tree = ast.parse(to_python(program))
    calls = {
        n.func.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    }
    assert calls <= {
        "program", "get_main_module", "create_module", "add_literal", "add_parameter", "op", "shape",
        "add_return", "add_instruction", "create_argument",
    }  # fmt: skip
    names = [n.targets[0].id for n in tree.body if isinstance(n, ast.Assign)]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(set(names)) == len(names)
    again = executed(program)
    assert set(again.parameters) == set(program.parameters)
    assert set(again.modules) == set(program.modules)
    for text in (to_cpp(program), to_dot(program), to_dot(program, brief=True)):
        for line in text.splitlines():
            assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0


def test_the_graph_line_by_line():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    program.main.add_return(program.main.add("transpose", x, permutation=(1, 0)))
    assert to_dot(program, brief=True) == (
        'digraph {\n\trankdir=LR;\n\t"x"[label="@param"];\n\t"@1"[label="transpose"];\n\t"x" -> "@1";\n'
        '\t"@2"[label="@return"];\n\t"@1" -> "@2";\n}\n'
    )
    lines = to_dot(program).splitlines()
    assert lines[4] == '\t"x" -> "@1"[label="float_type\\n{2, 3}, {3, 1}"];'
    assert (
        '<TD><B>transpose</B></TD></TR><TR ALIGN="center"><TD>transpose[permutation={1, 0}]'
        in lines[3]
    )
    assert 'fillcolor="#98FB98"' in lines[3]
    assert 'fillcolor="#F0E68C"' in lines[2]


def operations() -> list[str]:
    return sorted(OPERATIONS)


@pytest.mark.parametrize("name", operations())
def test_the_python_of_an_operation_makes_it_again(name: str):
    for op, _ in itertools.islice(OPERATIONS[name].samples(), 8):
        made = eval(operation_code(op), {"migraphx": migraphx})
        if "1e+40" in str(op):
            continue  # attributes are floats of 32 bits, as MIGraphX's are
        if name == "slice":  # bounds beyond 32 bits are cut
            assert made.core.axes == op.attributes()["axes"]
        else:
            assert str(made.core) == str(op)


@pytest.mark.parametrize("type", [t for t in DType if t is not DType.TUPLE], ids=lambda t: t.name)
def test_literals_of_every_type_are_kept(type: DType):
    program = Program()
    values = np.arange(-4, 4).astype(np.float32) / 3
    data = values.astype(type.numpy) if type.is_float else np.arange(8).astype(type.numpy)
    if type is DType.FP4X2:
        data = np.arange(8, dtype=np.uint8)
    program.main.add_literal(Argument(Shape(type, (2, 4), (1, 2)), data.reshape(2, 4)))
    (found,) = executed(program).main
    assert found.literal is not None
    assert str(found.shape) == str(Shape(type, (2, 4), (1, 2)))
    np.testing.assert_array_equal(found.literal.numpy(), data.reshape(2, 4))


def test_the_outline_of_a_value_is_made_again():
    program = Program()
    shape = Shape("float", (2,))
    outline = program.main.add("@outline", shape=shape)
    program.main.add_return(program.main.add("relu", outline))
    assert facts(executed(program)) == facts(program)
