"""The contract of writing operations: each is read back with the same values, or refused by reason."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.ops.test_module_operations import CASES as MODULE_CASES
from tests.compiler.ops.test_operations import BITS, OPERATIONS, SAMPLED
from tests.compiler.variants import Operand, cases, checked, expect_close, retyped, said
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.onnx.write import to_onnx
from workbench.compiler.onnx.write.registry import refused, written
from workbench.compiler.run.reference import Interpreter

GIVEN = {"@param", "@literal", "@return"}
# ONNX has no operator of the same arithmetic: a formula of others is off by a few roundings.
ROUNDED = {"atan2", "log2", "softplus"}
# Their attributes are floats of 32 bits in ONNX, so in float64 they are off by a rounding of those.
FLOAT_ATTRIBUTES = {"lrn"}
# Samples of written operations that are refused: how many, and a word of the reason.
REFUSED_SAMPLES = {
    **{f"scatter_{how}": (1, "skips indices") for how in ("none", "add", "mul", "min", "max")},
    **dict.fromkeys(["undefined", "set_stream", "record_event", "wait_event"], (1, "no value")),
    "@comment": (2, "no value"),
    "topk": (1, "equal elements"),
}


def program_of(op: Operation, operands: list[Operand]) -> Program:
    """A program that applies an operation to its parameters, and returns each of its results."""
    program = Program()
    main = program.main
    found = [main.add_parameter(f"x{i}", x.shape) for i, x in enumerate(operands)]
    made = main.add(op, *found)
    parts = made.shape.subs if made.shape.is_tuple else None
    main.add_return(*([made] if parts is None else
                      [main.add("get_tuple_elem", made, index=i) for i in range(len(parts))]))  # fmt: skip
    return program


def evaluated(program: Program, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    given = {n: np.array(inputs[n]) for n in program.parameters}
    return [np.asarray(x) for x in Interpreter(program).run(given)]


def expect_read_back(
    program: Program, inputs: dict[str, np.ndarray], rounded: bool = False
) -> None:
    """Writing is what the checker accepts, and reading what was written gives the same values."""
    model = to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    wanted = evaluated(program, inputs)
    found = evaluated(parse_onnx(model), inputs)
    for a, b in zip(wanted, found, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if rounded:
            expect_close(b, a, a.dtype, str(program))
        else:
            expect_same_bits(a, b)


def expect_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Equal bits; NaN is NaN whatever its bits."""
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
        return
    nan = np.isnan(a.astype(np.float64))
    assert (nan == np.isnan(b.astype(np.float64))).all()
    assert a[~nan].tobytes() == b[~nan].tobytes()


def test_every_operation_is_written_or_refused_with_a_reason():
    assert set(written()).isdisjoint(refused())
    assert set(written()) | set(refused()) == set(OPERATIONS) - GIVEN
    assert set(written()) >= ROUNDED | set(REFUSED_SAMPLES)


@pytest.mark.parametrize("name", sorted(set(SAMPLED) & set(written())))
def test_samples_are_read_back_as_they_were(name: str):
    reasons: list[str] = []
    for op, operands in cases(name):
        program = program_of(op, operands)
        inputs = {f"x{i}": x.array for i, x in enumerate(operands)}
        try:
            expect_read_back(program, inputs, name in ROUNDED)
        except ModelError as error:
            reasons.append(str(error))
        except AssertionError as error:
            raise AssertionError(said(op, operands)) from error
    count, word = REFUSED_SAMPLES.get(name, (0, ""))
    assert [word in r for r in reasons] == [True] * count, reasons


@pytest.mark.parametrize("name", sorted(set(SAMPLED) & set(written()) - BITS))
def test_every_type_is_read_back_or_refused(name: str):
    op, operands = cases(name)[0]
    found: list[str] = []
    for type, variant in retyped(operands):
        if checked(op, variant) is None or (name in FLOAT_ATTRIBUTES and "DOUBLE" in type):
            continue
        try:
            expect_read_back(
                program_of(op, variant),
                {f"x{i}": x.array for i, x in enumerate(variant)},
                name in ROUNDED,
            )
        except Exception as error:  # what the checker, the reader or a comparison says
            found.append(f"{type}: {str(error)[:300]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", sorted(refused()))
def test_what_onnx_has_no_meaning_for_is_refused_by_name(name: str):
    if name not in SAMPLED:
        return
    for op, operands in cases(name):
        with pytest.raises(ModelError) as refusal:
            to_onnx(program_of(op, operands))
        assert refused()[name] in str(refusal.value)
        assert name in str(refusal.value)


@pytest.mark.parametrize("case", sorted(MODULE_CASES))
def test_modules_become_functions_and_graphs(case: str):
    program, inputs, _ = MODULE_CASES[case]()
    reasons = [refused()[i.name] for i in program.main if i.name in refused()]
    if reasons:
        with pytest.raises(ModelError, match=reasons[0]):
            to_onnx(program)
    else:
        expect_read_back(program, inputs)


def test_the_page_lists_what_is_refused_with_its_reason():
    page = (Path(__file__).parents[3] / "docs" / "onnx.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(.+?)` \| (.*) \|$", page, re.MULTILINE)) == refused()
