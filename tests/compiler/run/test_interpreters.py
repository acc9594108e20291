"""The fast interpreter gives what the plain one gives: for every sample of every operation, bit for bit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import workbench.compiler.ops  # noqa: F401  # registers every operation
from tests.compiler.ops import test_collection, test_module_operations, test_recurrent
from tests.compiler.ops.test_operations import SAMPLED
from tests.compiler.variants import Operand, cases
from workbench.compiler.arrays import memory, parallel
from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Family, Operation, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ops import elementwise
from workbench.compiler.ops.buffers import Written
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.reference import Interpreter
from workbench.knobs import knobs

pytestmark = pytest.mark.usefixtures("everything_is_large")
both_precisions = pytest.mark.parametrize("float64", [False, True], ids=["typed", "float64"])


@pytest.fixture(scope="module")
def everything_is_large():
    """Arrays of a few elements are placed, written over, cut into parts and shared by three threads."""
    with pytest.MonkeyPatch.context() as patch, knobs.scope(threads=3):
        patch.setattr(memory, "LARGE", 1)
        patch.setattr(elementwise, "LARGE", 1)
        patch.setattr(elementwise, "_PART", 2)
        patch.setattr(elementwise, "BLOCK", 2)
        patch.setattr(parallel, "WAKING", 0)
        yield


def expect_agreement(program: Program, inputs: Mapping[str, Any], float64: bool) -> None:
    """Two runs of the fast interpreter, the second in the memory of the first, give the reference's bits."""
    exact = all(i.op.family is not Family.CONTRACTION for i in program.instructions)
    wanted = outcome(Interpreter(program, float64), inputs)
    fast = PlannedInterpreter(program, float64)
    for found in (outcome(fast, inputs), outcome(fast, inputs)):
        expect_same(found, wanted, exact)


def outcome(interpreter: Interpreter | PlannedInterpreter, inputs: Mapping[str, Any]) -> Any:
    """The results, or the error's message: what cannot be computed in float64 fails alike."""
    try:
        with np.errstate(all="ignore"):
            return interpreter.run(inputs)
    except EvaluationError as error:
        return str(error)


def expect_same(found: Any, wanted: Any, exact: bool) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, list | tuple):
        for one, other in zip(found, wanted, strict=True):
            expect_same(one, other, exact)
    elif wanted is None or isinstance(wanted, str):
        assert found == wanted
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if exact or found.tobytes() == wanted.tobytes():
            assert found.tobytes() == wanted.tobytes()
        else:  # a product's sums may be in another order where operands lie elsewhere
            wide = found.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-5)


def program_of(op: Operation, operands: Sequence[Operand]) -> tuple[Program, dict[str, Any]]:
    """The operation on parameters and constants, and then on results that may be written over."""
    program, inputs = Program(), dict[str, Any]()
    values: list[Instruction] = []
    for i, x in enumerate(operands):
        if i % 2 and not isinstance(op, Written):
            values.append(program.main.add_literal(Argument(x.shape, x.array)))
        else:
            values.append(program.main.add_parameter(f"x{i}", x.shape))
            inputs[f"x{i}"] = x.array
    made = program.main.add(op, *values)
    for _ in range(2 if op.overwrites and made.shape == values[0].shape else 0):
        made = program.main.add(op, made, *values[1:])
    program.main.add_return(made)
    return program, inputs


@both_precisions
@pytest.mark.parametrize("name", SAMPLED)
def test_samples(name: str, float64: bool):
    for op, operands in cases(name):
        expect_agreement(*program_of(op, operands), float64)


@both_precisions
@pytest.mark.parametrize("case", test_module_operations.CASES)
def test_modules(case: str, float64: bool):
    program, inputs, _ = test_module_operations.CASES[case]()
    expect_agreement(program, inputs, float64)


@both_precisions
@test_collection.every_case
def test_collections(case: tuple, float64: bool):
    op, shapes, values, *_ = case
    program = test_collection.program_of(op, shapes)
    expect_agreement(program, {f"x{i}": v for i, v in enumerate(values)}, float64)


@both_precisions
@test_recurrent.every_network
def test_networks(name: str, float64: bool):
    op = make(name, hidden_size=3, direction="bidirectional")
    given = test_recurrent.operands(name, 2, (5, 3, 0))
    expect_agreement(*test_recurrent.program_of(op, given), float64)
