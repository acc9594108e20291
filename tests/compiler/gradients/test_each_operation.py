"""The contract of gradients: every operation declares one, or says why it has none; each is what it says."""

import numpy as np
import pytest

from tests.compiler.gradients.differences import STEP, check_gradient, moved
from tests.compiler.variants import Case, cases, said
from workbench.compiler.errors import DifferentiationError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.operation import Operation, all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.pointwise import Sqrt
from workbench.compiler.passes.gradients.differentiate import Differentiate
from workbench.compiler.passes.gradients.reverse import propagate
from workbench.compiler.run.reference import Interpreter

assert Differentiate  # its import registers what the pass knows of modules

OPERATIONS = all_operations()
BY_THE_PASS = {
    op.name for op in (*propagate.registry, Return, GetTupleElem) if op is not object
} - {""}
"""These have modules or tuples; test_control.py has programs of them."""


def declares(name: str) -> bool:
    return OPERATIONS[name].gradient is not Operation.gradient


DIFFERENTIABLE = sorted(n for n in OPERATIONS if declares(n))
REFUSED = {"roialign": "sampling_ratio=0 and mode=max"}
"""Forms of differentiable operations that are refused, by a part of the reason."""
FLAT = sorted(n for n, op in OPERATIONS.items() if op.flat)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_it_has_a_gradient_or_says_why_not(name: str):
    cls = OPERATIONS[name]
    given = [declares(name), cls.flat, bool(cls.not_differentiable), name in BY_THE_PASS]
    assert sum(given) == 1, f"{name}: declare gradient, flat or not_differentiable, and only one"
    if cls.not_differentiable:
        assert cls.not_differentiable[0].islower()
        assert not cls.not_differentiable.endswith(".")
        with pytest.raises(DifferentiationError, match=f"{name}: "):
            cls().gradient(None, None)


def of_doubles(case: Case, seed: int) -> tuple[Program, dict[str, np.ndarray]] | None:
    """A program of one operation on float64 operands, and these; None if it has no floats.

    Operands with infinities, NaN or the largest numbers have no difference quotient: also None.
    """
    op, operands = case
    floats = [x.array.astype(np.float64) for x in operands if x.type.is_float]
    if not floats or any(x.size and not np.abs(x).max() < 1e6 for x in floats):
        return None
    program, inputs = Program(), {}
    for k, x in enumerate(operands):
        shape = x.shape.with_type("double") if x.type.is_float else x.shape
        inputs[f"x{k}"] = moved(x.array, seed + k) if x.type.is_float else x.array
        program.main.add_parameter(f"x{k}", shape.as_standard() if shape.broadcasted else shape)
    made = program.main.add(op, *program.main.parameters.values())
    count = len(made.shape.subs or ())
    parts = [program.main.add("get_tuple_elem", made, index=k) for k in range(count)]
    program.main.add_return(*(parts or [made]))
    return program, inputs


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_the_gradient_is_that_of_finite_differences(name: str):
    tried = 0
    for case in cases(name):
        made = of_doubles(case, seed=1)
        if made is None or made[0].main.last.shape.is_dynamic:
            continue
        program, inputs = made
        if not any(o.shape.type.is_float for o in program.outputs):
            continue
        tried += 1
        try:
            check_gradient(program, inputs)
        except AssertionError as error:
            raise AssertionError(f"{said(*case)}: {error}") from error
        except DifferentiationError as error:
            if REFUSED.get(name, "not refused") not in str(error):
                raise AssertionError(f"{said(*case)}: {error}") from error
            tried -= 1
    assert tried, f"{name} has no sample with floats and fixed lengths"


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_operation_does_not_change(name: str):
    for case in cases(name) if any(True for _ in OPERATIONS[name].samples()) else ():
        made = of_doubles(case, seed=1)
        if made is None:
            continue
        program, inputs = made
        floats = [n for n, x in inputs.items() if x.dtype == np.float64]
        run = Interpreter(program).run
        before = run(inputs)
        after = run(inputs | {n: inputs[n] + STEP * np.sign(inputs[n]) for n in floats})
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a, b, said(*case))


def wrong_by(factor: float):
    """A gradient that is wrong by a factor."""

    return lambda _self, given, result, *_: [given * (0.5 * factor) / result]


@pytest.mark.parametrize("factor", [-1.0, 1.001, 0.0])
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, factor: float):
    test_the_gradient_is_that_of_finite_differences("sqrt")
    monkeypatch.setattr(Sqrt, "gradient", wrong_by(factor))
    with pytest.raises(AssertionError, match="by differences"):
        test_the_gradient_is_that_of_finite_differences("sqrt")


def test_an_operand_without_its_gradient_is_found(monkeypatch: pytest.MonkeyPatch):
    whole = OPERATIONS["mul"].gradient
    half = lambda *given: [whole(*given)[0], None]  # noqa: E731
    monkeypatch.setattr(OPERATIONS["mul"], "gradient", half)
    with pytest.raises(AssertionError, match="x1: 0"):
        test_the_gradient_is_that_of_finite_differences("mul")
