"""Culprits: local errors, expected values of what has no counterpart, causes, references that do not fit."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.errors import InputError, ModelError, OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import OPERATIONS
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.compare.culprit import Cause
from workbench.numerics.compare.expected import is_computed
from workbench.numerics.compare.report import Report


def chain(scale: float = 1.0, names: tuple[str, ...] = ("a", "b", "c")) -> Program:
    """Three products with weights that the seed draws; the second is scaled."""
    program = Program("chain")
    x = program.main.add_parameter("x", Shape("float", (4, 8)))
    random = np.random.default_rng(0)
    for name, factor in zip(names, (1.0, scale, 1.0), strict=True):
        weight = random.standard_normal((8, 8), np.float32) * np.float32(factor)
        with program.source(name):
            x = program.main.add("dot", x, program.main.add_literal(weight))
            x = program.main.add("tanh", x)
    program.main.add_return(x)
    return program


def mul_exp(operands: tuple[float, float] = (1.0, 1.0)) -> Program:
    """exp(x · a) · b."""
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    for op, factor in zip(("exp", "neg"), operands, strict=True):
        literal = program.main.add_literal(np.full((2, 3), factor, np.float32))
        with program.source(op):
            x = program.main.add(op, program.main.add("mul", x, literal))
    program.main.add_return(x)
    return program


def causes(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    return [(c.cause.value, c.sources) for c in report.culprits()]


def test_the_local_error_leads_to_the_culprit_and_the_inherited_one_downstream():
    build = wb.compile(chain(), target="cpu", passes=[])
    second = [i for i in build.program.main if i.name == "tanh"][1]
    build.program.main.set_op(second, OPERATIONS["sigmoid"]())
    report = wb.compare(build)
    assert [r.id for r in report.rows if r.local.relative_rms > r.bound] == [second.id]
    assert sum(map(report.is_wrong, report.rows)) > 2
    assert causes(report)[0] == ("rewrite", ("b",))


def test_what_has_no_counterpart_is_expected_by_float64():
    model = MODELS["small_cnn"]
    build = wb.compile(wb.parse_onnx(model.path), target="gpu")
    report = wb.compare(build, model.inputs())
    assert {r.id for r in report.rows} == {i.id for i in report.program.main if is_computed(i)}
    assert "float64" in {r.how for r in report.rows}
    assert report.not_compared == []
    assert report.passed


@pytest.mark.parametrize(
    ("names", "how"), [(("a", "b", "c"), "node"), (("d", "e", "f"), "structure")]
)
def test_two_models_are_aligned_by_names_or_else_by_structure(names: tuple[str, ...], how: str):
    changed, original = wb.compile(chain(1.05), target="cpu"), chain(names=names)
    report = wb.compare(changed, reference=original)
    assert {r.how for r in report.rows} == {how}
    (culprit,) = report.culprits()
    assert (culprit.cause, culprit.sources) == (Cause.MODEL, ("b",))
    assert wb.compare(changed, original, {}).culprits() == [culprit]
    assert wb.compare(wb.compile(chain(), target="cpu"), reference=original).passed


def test_models_without_a_common_value_are_refused():
    with pytest.raises(OperationError, match="no value in common"):
        wb.compare(mul_exp(), chain())


def test_an_overflow_names_its_instruction_inside_the_kernel():
    half = wb.compile(mul_exp((2.0, 1.0)), target="cpu", precision="fp16")
    report = wb.compare(half, {"x": np.full((2, 3), 10, np.float32)})
    (culprit,) = report.culprits()
    assert (culprit.cause, culprit.sources) == (Cause.PRECISION, ("exp",))
    assert culprit.part is not None
    assert culprit.part.name == "exp"
    assert "overflows half, whose largest value is 65504" in culprit.reason
    assert culprit.error == np.inf
    inside = report.inside(culprit).set_index("name")
    assert list(inside.index) == ["convert", "mul", "exp", "neg", "convert"]
    assert inside.loc["exp", "local relative rms"] == np.inf
    assert np.isfinite(inside["local relative rms"]).sum() == len(inside) - 1
    unfused = wb.compile(mul_exp((2.0, 1.0)), target="ref", precision="fp16")
    (alone,) = wb.compare(unfused, {"x": np.full((2, 3), 10, np.float32)}).culprits()
    assert alone.reason.startswith("it overflows half")
    assert alone.part is not None
    assert alone.part.id == alone.id


def test_an_overflow_without_harm_is_no_culprit():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    mask = program.main.add_literal(np.float32([[0, -1e9, 0], [0, 0, -1e9]]))
    with program.source("mask"):
        masked = program.main.add("add", x, mask)
    program.main.add_return(program.main.add("softmax", masked, axis=1))
    report = wb.compare(wb.compile(program, target="cpu", precision="fp16"))
    assert report.passed
    assert report.culprits() == []


def test_what_is_not_finite_in_the_reference_is_right():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", ()))
    program.main.add_return(program.main.add("log", x))
    report = wb.compare(wb.compile(program, target="cpu"), {"x": np.float32(-1)})
    assert report.passed
    assert report.rows[0].metrics.reference_nan == 1


def test_values_beyond_the_budget_are_the_same():
    build = wb.compile(chain(), target="cpu")
    whole, spilled = wb.compare(build), wb.compare(build, budget=0)
    assert spilled.table().equals(whole.table())


@pytest.mark.parametrize("lens", [(0, 3), (), (1,), (1, 1)])
def test_small_values_are_compared(lens: tuple[int, ...]):
    program = Program()
    program.main.add_return(
        program.main.add("exp", program.main.add_parameter("x", Shape("float", lens)))
    )
    for target in ("ref", "cpu", "gpu"):
        report = wb.compare(wb.compile(program, target=target))
        assert report.passed
        assert len(report.rows) + len(report.not_compared) == 1


def test_a_program_that_computes_nothing_agrees():
    program = Program()
    program.main.add_return(program.main.add_parameter("x", Shape("float", (2,))))
    assert wb.compare(wb.compile(program, target="cpu")).passed


DUMPS: dict[str, Any] = {
    "none of 1 names is a tensor": {"foo": np.ones(3)},
    "none of 0 names": {},
    "expected real numbers": {"x": "text"},
    "array of object": {"x": np.array([None, 1])},
}


@pytest.mark.parametrize("said", DUMPS)
def test_a_dump_that_does_not_fit_is_refused(said: str):
    with pytest.raises(InputError, match=said):
        wb.compare(wb.compile(chain(), target="cpu"), reference=DUMPS[said])


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        (5, OperationError), ("tpu", OperationError), ("missing.onnx", ModelError),
        ("missing.npz", InputError), ("onnxruntime", OperationError),
    ],
)  # fmt: skip
def test_a_reference_that_is_none_is_refused(reference: Any, error: type[Exception]):
    with pytest.raises(error, match=r"found int|tpu|missing|model="):
        wb.compare(wb.compile(chain(), target="cpu"), reference=reference)


def test_a_dump_lists_what_it_lacks():
    model = MODELS["small_cnn"]
    program = wb.parse_onnx(model.path)
    name = next(iter(program.tensors))
    last = program.output_names[0]
    outputs = wb.compile(program, target="ref").run(model.inputs())
    report = wb.compare(
        wb.compile(program, target="cpu"),
        inputs=model.inputs(),
        reference={last: outputs[last], name + "?": np.ones(1)},
    )
    assert [r.reference for r in report.rows] == [last]
    assert {n.reason for n in report.not_compared} == {"no counterpart"}
    assert report.passed


def test_tolerances_of_single_values():
    half = wb.compile(chain(), target="cpu", precision="fp16")
    assert wb.compare(half).passed
    strict = wb.compare(half, tolerance={"b": 1e-9, "*": 1.0})
    assert {r.sources for r in strict.rows if strict.is_wrong(r)} == {("b",)}
    assert strict.passed  # no result is wrong
    assert not wb.compare(half, tolerance={"c": 1e-9}).passed
    assert not wb.compare(half, tolerance={DType.FLOAT: 1e-9, "op:dot": 1.0}).passed
    with pytest.raises(OperationError, match="output 'y'"):
        wb.compare(half, tolerance={"output:y": 1e-3})
    for wrong in (-1.0, float("nan"), "1e-3", {"b": -1}):
        with pytest.raises(OperationError, match="a number from 0"):
            wb.compare(half, tolerance=wrong)
