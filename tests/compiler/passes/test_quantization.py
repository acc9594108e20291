"""Quantized products on whole ranges of integers, and types that a device lacks."""

import numpy as np
import pytest

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.passes.precision.eliminate_data_type import EliminateDataType
from workbench.compiler.passes.precision.quantized_products import find_quantizable
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import drive
from workbench.compiler.run.reference import run


def laid(m: Module, random: np.random.Generator, values: np.ndarray, lens, axis) -> Instruction:
    """One of the values everywhere, or all of them along an axis, in one of two ways."""
    kind = random.integers(3)
    if kind == 0:
        one = m.add_literal(Argument(Shape.scalar(DType.of(values.dtype)), values[:1]))
        return m.add("multibroadcast", one, out_lens=lens)
    if kind == 1:
        return m.add("broadcast", m.add_literal(values), axis=axis, out_lens=lens)
    line = values.reshape([len(values) if i == axis else 1 for i in range(len(lens))])
    return m.add("multibroadcast", m.add_literal(line), out_lens=lens)


def dequantized(m: Module, random: np.random.Generator, name: str, lens, axis) -> Instruction:
    """A parameter of int8 with scales and zero points, mostly along an axis that is not summed over."""
    if random.random() < 0.15:
        axis = int(random.integers(len(lens)))
    scale = random.uniform(0.05, 0.3, lens[axis]).astype(np.float32)
    zero = random.integers(-9, 9, lens[axis]).astype(np.int8) * np.int8(random.integers(2))
    x = m.add_parameter(name, Shape(DType.INT8, lens))
    parts = (laid(m, random, v, lens, axis) for v in (scale, zero))
    return m.add("dequantizelinear", x, *parts)


def product(random: np.random.Generator) -> Program:
    """A product of matrices, of which the second may be transposed, or a convolution in groups."""
    program = Program()
    m = program.main
    n, k, p, groups = (int(v) for v in random.integers(1, 5, 4))
    if random.random() < 0.5:
        a = dequantized(m, random, "a", (n, k), 0)
        turned = bool(random.integers(2))
        b = dequantized(m, random, "b", (p, k) if turned else (k, p), 0 if turned else 1)
        m.add("dot", a, m.add("transpose", b, permutation=(1, 0)) if turned else b)
    else:
        x = m.add_parameter("a", Shape(DType.INT8, (n, k * groups, 5, 5)))
        one = (np.array([0.1], np.float32), np.array([random.integers(-9, 9)], np.int8))
        parts = (m.add("multibroadcast", m.add_literal(v), out_lens=x.shape.lens) for v in one)
        a = m.add("dequantizelinear", x, *parts)
        b = dequantized(m, random, "b", (p * groups, k, 3, 3), 0)
        m.add("convolution", a, b, padding=(1, 1), group=groups)
    return program


@pytest.mark.parametrize("seed", range(60))
def test_products_of_integers_are_those_of_floats(seed):
    random = np.random.default_rng(seed)
    program = product(random)
    inputs = {
        name: random.integers(-128, 128, shape.lens).astype(np.int8)
        for name, shape in program.parameters.items()
    }
    before = run(program, inputs)[0]
    drive(program, (find_quantizable,))
    after = run(program, inputs)[0]
    np.testing.assert_allclose(after, before, rtol=0, atol=3e-6 * np.abs(before).max())


def test_names_of_types_are_kept_in_one_order():
    made = EliminateDataType(unsupported_types={"int8", "half"}, unsupported_ops="dot")
    assert made.unsupported_types == ("half", "int8")
    assert made.unsupported_ops == ("dot",)
    assert hash(made) == hash(EliminateDataType(("half", "int8"), unsupported_ops=("dot",)))


def test_a_type_cannot_be_replaced_by_itself():
    with pytest.raises(OperationError, match="is itself in unsupported_types"):
        run_pass(pass_named("eliminate_data_type", unsupported_types=("float",)), Program())


def test_an_operation_that_refuses_the_type_says_so():
    program = Program()
    table = program.main.add_parameter("table", Shape(DType.FLOAT, (3, 4)))
    index = program.main.add_parameter("index", Shape(DType.INT64, (2,)))
    program.main.add("gather", table, index)
    with Recording(program) as recording:
        run_pass(pass_named("eliminate_data_type", unsupported_types=("int64",)), program)
    assert [i.name for i in program.main] == ["@param", "@param", "gather"]
    assert "gather" in recording.near_misses()[0].reason
