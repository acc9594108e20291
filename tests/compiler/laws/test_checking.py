"""compile(check=…): the first pass that breaks a program or changes what it computes is named."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.arrays.metrics import difference
from workbench.compiler.errors import MeaningError
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, RewritePass
from workbench.compiler.rewrite import Rewriter, Rule, op, var


@wb.rule(op("exp", var("x")))
def wrong_exp(b: Rewriter, x: wb.Instruction) -> wb.Instruction:
    """exp(x) → x + x"""
    return b("add", x, x)


@wb.rule(op("neg", op("neg", var("x"))))
def right_neg(b: Rewriter, x: wb.Instruction) -> wb.Instruction:  # noqa: ARG001
    """neg(neg(x)) → x"""
    return x


class Mistaken(RewritePass):
    """Some right, some wrong."""

    name: ClassVar[str] = "mistaken"
    rules: ClassVar[tuple[Rule, ...]] = (right_neg, wrong_exp)


@pytest.fixture
def program() -> Program:
    program = wb.parse(
        'module: "main"\nx = @param:x -> float_type, {2, 3}, {3, 1}\n'
        + "".join(f"n{i} = neg({'x' if not i else f'n{i - 1}'})\n" for i in range(6))
        + "e = exp(n5)\nr = @return(e)\n"
    )
    exp = next(i for i in program.main if i.name == "exp")
    program.main.set_sources(exp, ["loud"])
    return program


def test_the_first_wrong_edit_is_named(program: Program):
    with pytest.raises(MeaningError) as caught:
        wb.compile(program, target="cpu", passes=["normalize_ops", Mistaken()], check={})
    error = caught.value
    assert "after pass mistaken: output 0: relative RMS" in str(error)
    assert "by wrong_exp" in str(error)
    assert "exp(x) → x + x" in str(error)
    assert error.edit is not None
    assert error.edit.rule == "wrong_exp"
    assert error.step is not None
    assert error.step.name == "mistaken"
    assert error.recording is not None
    assert error.instruction is not None
    assert error.instruction.name == "add"
    assert f"; add (#{error.instruction.id}, from 'loud') in place of exp (#" in str(error)


def test_an_edit_that_no_value_shows_is_named_without_one():
    @dataclass(frozen=True)
    class Swap(Pass):
        """Swap the results."""

        name: ClassVar[str] = "swap"

        def apply(self, program: Program) -> None:
            """Swap them."""
            program.main.set_inputs(program.main.last, program.outputs[::-1])

    program = Program()
    x = program.main.add_parameter("x", wb.Shape("float", (3,)))
    program.main.add_return(program.main.add("neg", x), program.main.add("exp", x))
    with pytest.raises(MeaningError, match="swap") as caught:
        wb.compile(program, target="cpu", passes=[Swap()], check={})
    assert caught.value.edit is not None
    assert caught.value.instruction is None


def test_without_a_recording_too(program: Program):
    with pytest.raises(MeaningError, match="wrong_exp"):
        wb.compile(program, target="cpu", passes=[Mistaken()], check={}, record=False)
    build = wb.compile(
        program, target="cpu", check={"x": np.ones((2, 3), np.float32)}, record=False
    )
    with pytest.raises(wb.WorkbenchError, match="no recording"):
        _ = build.recording


def test_a_tolerance_is_taken(program: Program):
    wb.compile(program, target="cpu", passes=[Mistaken()], check={}, tolerance=1e3)


@pytest.mark.parametrize("name", ["small_encoder", "small_cnn", "small_branches", "small_loop"])
@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
def test_models_pass(name: str, precision: str | None):
    program = wb.parse_onnx(MODELS[name].path)
    build = wb.compile(program, target="cpu", check=MODELS[name].inputs(), precision=precision)
    assert build.recording.steps
    assert not build.program.listeners


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, 2.0], [1.0, 2.1], "relative RMS"),
        ([1.0, np.nan], [1.0, np.nan], ""),
        ([1.0, np.nan], [1.0, 3.0], "a NaN or an infinity is not where it was"),
        ([1.0, 2.0], [1.0, np.inf], "a NaN or an infinity is not where it was"),
        ([1.0, np.inf], [1.0, np.inf], ""),
        ([1, 2], [1, 2], ""),
        ([1, 2], [1, 3], "1 of 2 elements differ"),
        ([1, 2], [1.0, 2.0], "it was int64"),
        ([1.0], [1.0, 2.0], "it was float64 of [1]"),
        ([], [], ""),
        ((np.ones(2), np.ones(3)), (np.ones(2), np.zeros(3)), "relative RMS"),
    ],
)
def test_differences(a, b, reason):
    one, other = (v if isinstance(v, tuple) else np.array(v) for v in (a, b))
    found = difference(one, other, 1e-4)
    assert (reason in found) if reason else (found == "")
