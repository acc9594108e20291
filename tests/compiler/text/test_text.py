"""The text form: exactly as MIGraphX prints, and read back."""

import numpy as np
import pytest
from hypothesis import given

from tests.compiler.programs import programs
from tests.compiler.written_programs import FUSED
from workbench.compiler.errors import TextError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.text import printing as text
from workbench.compiler.text.parsing import parse_shape


def test_a_fused_program_reads_and_prints_the_same():
    program = text.parse(FUSED, newest_first=True)
    assert str(program) == FUSED
    assert program.modules["main:pointwise0"].bypass
    assert list(program.parameters) == ["x", "y", "z"]


def test_attributes_print_as_migraphx_prints_them():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (1, 3, 8, 8)))
    w = program.main.add_literal(np.zeros((4, 3, 3, 3), np.float32))
    program.main.add("convolution", x, w, padding=[1, 1, 1, 1])
    program.main.add("convert", x, target_type=DType.HALF)
    lines = [line.text for line in text.lines(program)]
    assert lines[3] == (
        "@2 = convolution[padding={1, 1, 1, 1},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,@0)"
        " -> float_type, {1, 4, 8, 8}, {256, 64, 8, 1}"
    )
    assert "convert[target_type=1](x) -> half_type" in lines[4]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.1), "{0.1}"),
        (np.array([1e-7, 2], np.float32), "{1e-07, 2}"),
        (np.array([True, False]), "{1, 0}"),
        (np.arange(10), "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}"),
        (np.arange(11), "{ ... }"),
        (np.array([1.5], np.float16), "{1.5}"),
    ],
)
def test_literals(value, shown):
    program = Program()
    program.main.add_literal(value)
    assert f"@literal{shown} ->" in str(program)


def test_shapes_read_back():
    shapes = [
        Shape("half", (2, 3), (1, 2)),
        Shape.scalar(DType.INT64),
        Shape.dynamic(DType.FLOAT, [Dim(1, 4), 3]),
        Shape.tuple_of([Shape("float", (2,)), Shape.dynamic(DType.INT8, [Dim(0, 9)])]),
    ]
    for shape in shapes:
        assert parse_shape(str(shape)) == shape


@given(programs())
def test_round_trip(program: Program):
    printed = str(program)
    assert str(text.parse(printed, fill_seed=0)) == printed


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("", 'module: "main"'),
        ("@0 = relu(x)", r"line 1, column 11: 'x' is not defined"),
        ('module: "main"\nnonsense', "line 2"),
        ('module: "main"\n@0 = relu(x) -> float_type, {1}, {1}', "not defined"),
        (
            'module: "main"\nx = @param:x -> float_type, {2}, {1}\n@1 = rellu(x) -> float_type, {2}, {1}',
            "rellu",
        ),
        (
            'module: "main"\nx = @param:x -> float_type, {2}, {1}\n@1 = relu(x) -> float_type, {3}, {1}',
            "line says",
        ),
        ('module: "main"\n@0 = @literal{ ... } -> float_type, {20}, {1}', "elided"),
        ('module: "main"\nx = @param:x -> florp_type, {2}, {1}', "florp"),
        ('module: "main"\nx = @param:x -> float_type, {2}, {1}\n@1 = pointwise(x), [a]', "'a'"),
    ],
)
def test_bad_text_names_the_line(broken, says):
    with pytest.raises(TextError, match=says):
        text.parse(broken)
