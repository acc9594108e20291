"""Names with any characters print so that they read back; usual names print as they are."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.mxr.examples import expect_same
from workbench.compiler.files import mxr
from workbench.compiler.ir.builtin import Unknown
from workbench.compiler.ir.debug_symbols import add_debug_symbols
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.quoting import symbol_text, unquoted, value_text, word_text
from workbench.compiler.ir.shape import Shape
from workbench.compiler.text import printing as text

ODD = [
    "", " ", "a b", "a,b", "a, b", "a\nb", "a\r\tb", 'say "a"', '"a"', "a = b", "a -> b", "a # b",
    "@3", "m:@3", "f(x)", "f(x", "x)", ")(", "x[0]", "[", "]", "{", "\\", "a\\nb", "ä", "\u2028", "\x00",
    "\x7f", "m:x", "main", "@param:x", "nullopt", "a=b", " a", "a ", "'", "x'", "\U0001f600", "a,", ", ",
]  # fmt: skip
NAMES = st.sampled_from(ODD) | st.text(max_size=6) | st.text("ab,@:0 ()[]{}=->#\"'\\\n", max_size=8)
SHAPE = Shape("float", (2,))
USUAL = [
    "x", "x.1", "input:0", "/model/layer.0/Conv_output_0", "onnx::MatMul_12", "a b", "serving_default;x",
    "past_key_values[0].key", "f(x)", "ä", "x'", "gpu_0/data_0", "a-b", "a>b", "a#b", "100%", "#loop_in_1",
]  # fmt: skip


@pytest.mark.parametrize("name", USUAL)
def test_usual_names_print_as_they_are(name):
    assert value_text(name) == symbol_text(name) == name
    program = Program()
    program.main.add_return(program.main.add("relu", program.main.add_parameter(name, SHAPE)))
    assert f"{name} = @param:{name} -> float_type, {{2}}, {{1}}\n@1 = relu({name}) ->" in str(
        program
    )
    assert str(text.parse(str(program))) == str(program)


@pytest.mark.parametrize("name", ODD)
def test_odd_names_stay_on_their_line(name):
    for shown in (value_text(name), symbol_text(name), word_text(name)):
        assert unquoted(shown) == name
        assert not re.search(r"[\x00-\x1f\x7f\u2028]", shown)


def odd(parameters, modules, symbols, operator) -> Program:
    """A program whose names are all odd."""
    program = Program()
    main = program.main
    values = [main.add_parameter(n, SHAPE) for n in dict.fromkeys(parameters)]
    called = []
    for name in dict.fromkeys(modules):
        if name != "main":
            module = program.create_module(name)
            inner = module.add_parameter(parameters[0], SHAPE)
            literal = module.add_literal(np.float32([1, 2]))
            module.add_return(module.add("add", module.add("mul", inner, literal), values[0]))
            called.append(module)
    whole = main.insert(None, Unknown(op=operator), *values, modules=called)
    if symbols := [s for s in symbols if s]:
        add_debug_symbols(whole, symbols)
    tagged = main.insert(None, Unknown(op=operator), whole)
    add_debug_symbols(main.add_return(tagged, *values), ["end"])
    return program


@given(
    st.lists(NAMES, min_size=1, max_size=4),
    st.lists(NAMES, max_size=3),
    st.lists(NAMES, max_size=3),
    NAMES,
)
def test_any_names_read_back(parameters, modules, symbols, operator):
    program = odd(parameters, modules, symbols, operator)
    printed = str(program)
    assert len(printed.split("\n")) == len(text.lines(program)) + 1
    expect_same(program, text.parse(printed, literals=text.literals(program)))
    for form in ("msgpack", "json"):
        expect_same(program, mxr.load_buffer(mxr.save_buffer(program, form), form))


@given(NAMES)
def test_any_attribute_that_is_a_text_reads_back(value):
    program = Program()
    x = program.main.add_parameter("x", SHAPE)
    program.main.add_return(program.main.add("group", x, tag=value, modules=[_body(program)]))
    assert text.parse(str(program)).main.outputs[0].op == program.main.outputs[0].op


def _body(program: Program):
    body = program.create_module("body", bypass=True)
    body.add_return(body.add("relu", body.add_parameter("x0", SHAPE)))
    return body
