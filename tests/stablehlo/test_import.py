"""Modules of StableHLO as programs: forms of a module, names, lineage, constants, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import ModelError

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore")]

HEAD = "module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {"
END = "\n return %0 : tensor<2xf32> } }"
HUGE = (HEAD + "%0 = stablehlo.iota dim = 0 : tensor<2xf32>" + END).replace(
    "2xf32", "9999999999xf32"
)


def scaled(x):
    import jax.numpy as jnp

    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    return {"a": x @ table, "b": (jnp.tanh(x), x.astype(jnp.bfloat16) + jnp.bfloat16(0.3))}


def value(program, x):
    build = wb.compile(program, target="ref")
    return [np.asarray(v) for v in build.run({next(iter(program.parameters)): x}).values()]


def test_every_form_of_a_module_is_read(tmp_path):
    import jax
    import jax.export

    x = np.array([[1.0, -2.0]], np.float32)
    lowered = jax.jit(scaled).lower(x)
    exported = jax.export.export(jax.jit(scaled))(x)
    (tmp_path / "module.mlir").write_text(lowered.as_text())
    (tmp_path / "module.stablehlo").write_bytes(exported.mlir_module_serialized)
    forms = [
        lowered, exported, lowered.as_text(), exported.mlir_module_serialized, tmp_path / "module.mlir",
        str(tmp_path / "module.stablehlo"),
    ]  # fmt: skip
    wanted = [np.asarray(v, np.float32) for v in jax.tree.leaves(jax.jit(scaled)(x))]
    for form in forms:
        program = wb.parse_stablehlo(form)
        assert program.output_names == ("a", "b.0", "b.1")
        assert program.name in {"scaled", "module.mlir", "module.stablehlo"}
        for found, right in zip(value(program, x), wanted, strict=True):
            np.testing.assert_allclose(found.astype(np.float32), right, rtol=1e-2)
    assert list(wb.from_jax(exported).parameters) == ["x"]


def test_nodes_have_the_path_of_names_and_the_users_line():
    import jax
    import jax.numpy as jnp

    def outer(x):
        with jax.named_scope("layer"):
            return jax.jit(jnp.sin)(x) * 2.0

    program = wb.from_jax(outer, np.ones(3, np.float32))
    made = {s.op_type: s for s in program.source_nodes.values()}
    assert made["stablehlo.multiply"].scope == ("layer",)
    assert made["stablehlo.sine"].scope == ("layer", "sin")
    assert "test_import.py:" in made["stablehlo.multiply"].attributes
    sine = next(i for i in program.main if i.name == "sin")
    assert sine.sources == ("layer/sin/sin",)


def test_arguments_are_trees_and_parameters_have_their_paths():
    program = wb.from_jax(lambda p, x: p["w"] * x + p["b"][0], {"w": 2.0, "b": [1.0]}, np.ones(2))
    assert list(program.parameters) == ["p['b'][0]", "p['w']", "x"]
    inputs = program.arguments({"w": 2.0, "b": [1.0]}, np.ones(2))
    assert value_of(program, inputs).tolist() == [3.0, 3.0]
    with pytest.raises(ModelError, match=r"1 leaves; expected 3: p\['b'\]\[0\]"):
        program.arguments(1.0)


def value_of(program, inputs):
    return next(iter(wb.compile(program, target="ref").run(inputs).values()))


def test_loops_of_known_length_are_known():
    from jax import lax

    x = np.ones((5, 2), np.float32)
    program = wb.from_jax(lambda x: lax.scan(lambda c, t: (c + t, c), x[0], x), x)
    loop = next(i for i in program.main if i.name == "loop")
    assert loop.op.max_iterations == 5
    assert loop.inputs[1].literal is not None


@pytest.mark.parametrize(
    ("type", "text", "wanted"),
    [
        ("bf16", "[1.5, 0x7F80]", [1.5, np.inf]),
        ("bf16", '"0x803F0040"', [1.0, 2.0]),
        ("f8E4M3FN", "[1.5, -2.0]", [1.5, -2.0]),
        ("f16", "0.1", [0.09997559, 0.09997559]),
        ("i1", "[true, false]", [1, 0]),
        ("ui32", "[4294967295, 0]", [4294967295, 0]),
    ],
)
def test_constants_of_every_kind_are_read(type: str, text: str, wanted: list[float]):
    line = f"%0 = stablehlo.constant dense<{text}> : tensor<2x{type}>"
    source = HEAD.replace("%a: tensor<2xf32>", "").replace("2xf32", f"2x{type}") + line
    source += END.replace("2xf32", f"2x{type}")
    found = value_of(wb.parse_stablehlo(source), {})
    np.testing.assert_allclose(np.asarray(found).astype(np.float64), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("module {", "the text: .*line 1"),
        (b"ML\xefRxx", "the module: "),
        (b"\xff\xfe", "neither MLIR's bytecode nor text"),
        ("nothing.mlir", "cannot read 'nothing.mlir'"),
        (3, "a module of StableHLO from int"),
        ("module { }", "public functions none"),
        ("(" * 5000 + "{", "nested 1001 deep; expected at most 1000"),
        (HEAD + "%0 = stablehlo.custom_call @lib(%a) : (tensor<2xf32>) -> tensor<2xf32>" + END,
         r"stablehlo.custom_call at line 1: a custom call of 'lib'"),
        (HEAD + "%0 = func.call @main(%a) : (tensor<2xf32>) -> tensor<2xf32>" + END, "nested deeper than 60"),
        (HEAD.replace("2xf32", "?xf32") + "return %a : tensor<?xf32> } }", "expected fixed lengths"),
        (HEAD.replace("2xf32", "2xcomplex<f32>") + "return %a : tensor<2xcomplex<f32>> } }", "complex<f32>"),
        (HUGE, "expected at most"),
        ((HEAD + "%0 = stablehlo.cholesky %a : tensor<2xf32>" + END).replace("2xf32", "2x2xf32"),
         r"unknown operations: stablehlo.cholesky \(1×\); the first is .* at line 1"),
    ],
)  # fmt: skip
def test_what_is_damaged_or_unknown_is_refused(source, message: str):
    with pytest.raises(ModelError, match=message):
        wb.parse_stablehlo(source)


def test_damaged_bytecode_ends_no_process_but_its_own():
    """MLIR's reader crashes on some of these; here each is an error, or a program."""
    import jax
    import jax.export

    whole = jax.export.export(jax.jit(scaled))(np.ones((1, 2), np.float32)).mlir_module_serialized
    random = np.random.default_rng(3)
    for _ in range(12):
        data = bytearray(whole)
        for place in random.integers(40, len(data), 4):
            data[place] = random.integers(256)
        try:
            wb.parse_stablehlo(bytes(data))
        except ModelError as error:
            assert "the module: " in str(error)  # noqa: PT017
    with pytest.raises(ModelError, match="damaged bytecode"):
        wb.parse_stablehlo(bytes(whole[:60]))


def test_calls_that_double_are_bounded(monkeypatch):
    from workbench.compiler.stablehlo import importer

    monkeypatch.setattr(importer, "MAX_OPERATIONS", 1000)
    head = "func.func private @f{}(%a: tensor<f32>) -> tensor<f32> {{"
    line = "%{} = call @f{} (%{}) : (tensor<f32>) -> tensor<f32>\n"
    twice = [line.format(0, k + 1, "a") + line.format(1, k + 1, 0) for k in range(40)]
    parts = [f"{head.format(k)}{t}return %1 : tensor<f32> }}" for k, t in enumerate(twice)]
    last = head.format(40) + "return %a : tensor<f32> }"
    main = parts[0].replace("private @f0", "@main")
    with pytest.raises(ModelError, match="more than 1,000 operations once calls are inlined"):
        wb.parse_stablehlo("\n".join(["module {", main, *parts, last, "}"]))


def test_a_handler_can_be_added():
    from workbench.compiler.stablehlo import stablehlo_op
    from workbench.compiler.stablehlo.registry import _HANDLERS

    @stablehlo_op("custom_call.twice")
    def twice(node, x):
        return node.apply("mul", x, 2.0)

    source = HEAD + "%0 = stablehlo.custom_call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>" + END
    try:
        program = wb.parse_stablehlo(source)
    finally:
        del _HANDLERS["custom_call.twice"]
    assert value_of(program, {"arg0": np.ones(2, np.float32)}).tolist() == [2.0, 2.0]


def test_a_function_that_cannot_be_traced_is_an_error():
    with pytest.raises(ModelError, match="jax: ZeroDivisionError"):
        wb.from_jax(lambda x: x / (1 // 0), 1.0)


def test_the_code_of_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "from_jax.md"
    blocks = re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    names: dict = {}
    exec(compile("\n".join(blocks), page.name, "exec"), names)
    (found,) = names["found"].disassemble_into_single_device_arrays()
    np.testing.assert_allclose(found[0], names["result"]["output"], rtol=1e-6)


def test_the_command_line_and_open_take_modules(tmp_path):
    from workbench.compiler.builds.models import read_model, reading_code

    path = tmp_path / "net.mlir"
    path.write_text(HEAD + "%0 = stablehlo.tanh %a : tensor<2xf32>" + END)
    assert [i.name for i in read_model(path).main][-2:] == ["tanh", "@return"]
    assert reading_code("net.mlir") == "wb.parse_stablehlo('net.mlir')"
