"""The contract of operations. A new operation enters by being registered; it needs samples."""

import dataclasses

import numpy as np
import pytest

from tests.compiler.c_expressions import evaluate
from tests.compiler.variants import (
    Operand,
    cases,
    checked,
    computed,
    expect_close,
    inferred,
    operand,
    said,
    shapes,
)
from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation, all_operations, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.shape_rules import PLAIN, STRICT
from workbench.compiler.ops.elementwise import keeps_scalars
from workbench.compiler.text.printing import parse, to_text

OPERATIONS = all_operations()

# Of these no value is known: test_what_has_no_value_says_so.
WITHOUT_VALUE = {"@param", "@literal", "@return", "@outline", "outline", "unknown:"}
# Their inputs are modules or tuples: test_module_operations.py has programs for each.
WITH_MODULES = {n for n, op in OPERATIONS.items() if op.takes_modules} | {"get_tuple_elem"}
# Their input is a network, not an array of any origin: test_recurrent.py has programs for each.
OF_NETWORKS = {"rnn_last_hs_output", "rnn_last_cell_output"}
# Their values are sequences or optionals, which tests/onnx has models of.
OF_COLLECTIONS = {n for n, op in OPERATIONS.items() if op.__module__.endswith(".collection")}
SAMPLED = sorted(set(OPERATIONS) - WITHOUT_VALUE - WITH_MODULES - OF_NETWORKS - OF_COLLECTIONS)
POINTWISE = [name for name in SAMPLED if OPERATIONS[name].pointwise]
COMMUTATIVE = {"add", "mul", "max", "min", "equal", "bitwise_and", "bitwise_or", "bitwise_xor"}
# These read bits, so their meaning changes with the type.
BITS = {"bit_cast", "load", "pack_fp4"}
VARIADIC = {"concat", "multibroadcast", "identity", "capture"}

every_operation = pytest.mark.parametrize("name", sorted(OPERATIONS))
every_sampled = pytest.mark.parametrize("name", SAMPLED)
every_pointwise = pytest.mark.parametrize("name", POINTWISE)


@every_operation
def test_it_is_described_and_its_attributes_are_a_value(name: str):
    cls = OPERATIONS[name]
    assert cls.__doc__
    assert not cls.__doc__.startswith(f"{cls.__name__}("), f"{cls.__name__} has no docstring"
    assert cls.name == name
    op = cls()
    assert hash(op) == hash(cls())
    assert op == make(name, **op.attributes())
    for field in dataclasses.fields(cls):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(op, field.name, getattr(op, field.name))


@every_sampled
def test_the_shape_rule_agrees_with_the_value(name: str):
    for op, operands in cases(name):
        assert checked(op, operands) is not None, f"{said(op, operands)}: its own sample is refused"


@every_sampled
def test_it_prints_and_parses_back(name: str):
    for op, operands in cases(name):
        expect_reads_back(op, shapes(operands))


def expect_reads_back(op: Operation, inputs: list[Shape]) -> None:
    program = Program()
    found = [program.main.add_parameter(f"x{i}", s) for i, s in enumerate(inputs)]
    program.main.add_return(program.main.add(op, *found))
    again = parse(to_text(program))
    assert to_text(again) == to_text(program)
    assert [str(i.op) for i in again.main] == [str(i.op) for i in program.main]


@every_sampled
def test_float64_operands_give_close_float64_results(name: str):
    for op, operands in cases(name) if name not in BITS else ():
        narrow, wide = computed(op, operands), computed(op.widened(), as_float64(operands))
        for a, b in zip(narrow, wide, strict=True):
            floats = DType.of(a.dtype).is_float and operands
            assert b.dtype == (np.float64 if floats else a.dtype), said(op, operands)
            expect_close(a, b, a.dtype, said(op, operands))


def as_float64(operands: list[Operand]) -> list[Operand]:
    wide = [x.array.astype(np.float64) if DType.of(x.array.dtype).is_float else x.array
            for x in operands]  # fmt: skip
    return [x.with_array(w) for x, w in zip(operands, wide, strict=True)]


@every_sampled
def test_a_wrong_number_of_inputs_is_refused(name: str):
    op, operands = cases(name)[0]
    for wrong in ([], [shapes(operands)[0]] * 9 if operands else [Shape()] * 9):
        if len(wrong) == len(operands) or (wrong and name in VARIADIC):
            continue
        assert inferred(op, wrong) is None, f"{op} takes {len(wrong)} inputs"


@pytest.mark.parametrize("name", sorted(WITHOUT_VALUE - {"@param", "@literal", "@return"}))
def test_what_has_no_value_says_so(name: str):
    op = make(name, op="Foo") if name == "unknown:" else make(name, shape=Shape("half", (2, 3)))
    inputs = [Shape("half", (2, 3))] if name == "unknown:" else []
    assert op.compute_shape(inputs) == Shape("half", (2, 3))
    expect_reads_back(op, inputs)
    with pytest.raises(EvaluationError):
        op.compute()


def test_packed_floats_are_moved_and_not_computed_with():
    program = Program()
    x = program.main.add_parameter("x", Shape("fp4x2", (2, 3)))
    y = program.main.add("transpose", x, permutation=[1, 0])
    assert y.shape == Shape("fp4x2", (3, 2), (1, 3))
    for name, inputs in (("add", [x, x]), ("exp", [x]), ("softmax", [x]), ("dot", [x, y])):
        with pytest.raises(ShapeError, match=f"{name}: .* unpack_fp4"):
            program.main.add(name, *inputs)
    assert program.main.add("unpack_fp4", x).shape == Shape("fp8e4m3fn", (2, 6))


@every_pointwise
def test_its_expression_computes_the_same(name: str):
    assert OPERATIONS[name].expression, f"{name} is pointwise and has no expression"
    tried = 0
    for op, operands in cases(name):
        wanted = computed(op, operands)[0]
        if not _is_direct(op, operands):
            continue
        tried += 1
        found = evaluate(op, [x.array for x in operands], wanted.dtype)
        lens = np.broadcast_shapes(*[x.array.shape for x in operands])
        expect_close(np.broadcast_to(found, lens), wanted, wanted.dtype, said(op, operands))
    assert tried > 3


def _is_direct(op: Operation, operands: list[Operand]) -> bool:
    """Whether arithmetic is done in the operands' own type, so that C's rules are NumPy's."""
    types = {x.type for x in operands}
    if op.name in {"convert", "bit_cast"}:
        return True
    if op.name in {"quantizelinear", "dequantizelinear"}:
        return DType.HALF not in types
    return types <= {DType.FLOAT, DType.DOUBLE, DType.BOOL} or (
        getattr(op, "exact", False) and not any(t.is_float for t in types)
    )


@every_pointwise
def test_operands_broadcast_inside_fused_bodies(name: str):
    op, operands = cases(name)[0]
    first, *rest = [np.ascontiguousarray(x.array) for x in operands]
    if rest:
        single = [x.reshape(-1)[:1] for x in rest]
        whole = [np.broadcast_to(x, first.shape) for x in single]
        (a,), (b,) = results(op, first, *single), results(op, first, *whole)
        expect_close(a, b, a.dtype, said(op, operands))


def results(op: Operation, *arrays: np.ndarray) -> list[np.ndarray]:
    return computed(op, [operand(x) for x in arrays])


@every_pointwise
def test_large_arrays_are_computed_as_small_ones(name: str):
    op, operands = cases(name)[0]
    large = [np.tile(x.array, (1, 9001)) for x in operands]
    width = operands[0].array.shape[1]
    for variant in (large, [*large[:-1], np.broadcast_to(large[-1][:1], large[-1].shape)]):
        first = results(op, *[x[:, :width] for x in variant])[0]
        expect_close(results(op, *variant)[0], np.tile(first, (1, 9001)), first.dtype, name)


@every_operation
def test_commutative_operations_are_those_that_migraphx_names(name: str):
    assert OPERATIONS[name].commutative == (name in COMMUTATIVE)


@pytest.mark.parametrize("name", sorted(COMMUTATIVE))
def test_commutative_operations_commute(name: str):
    for op, (x, y) in cases(name):
        np.testing.assert_array_equal(computed(op, [x, y])[0], computed(op, [y, x])[0])


@pytest.mark.parametrize("name", [n for n in POINTWISE if keeps_scalars(OPERATIONS[n])])
def test_elementwise_work_on_scalars_gives_a_scalar_of_its_type(name: str):
    for op, operands in OPERATIONS[name].samples():
        types = [Argument.of(value).shape.type for value in operands]
        usual = op.compute_shape([Shape(type, (2, 3)) for type in types])
        for rules in (PLAIN, STRICT):
            assert op.shape_by(rules, list(map(Shape.scalar, types))) == Shape.scalar(usual.type)
