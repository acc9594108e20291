"""Every pass and pipeline on random programs over all operations, and on the small models."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.compiler.mixed_programs import mixed_inputs, mixed_programs
from tests.compiler.programs import with_buffers
from tests.models.registry import MODELS
from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.program import Program
from workbench.compiler.laws.pass_checks import Validation
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.passes.base import Pass, all_passes, run_pass
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import Interpreter

EXAMPLES = max(100, settings.default.max_examples if settings.default else 0)
"""100, and what the profile says in a nightly run."""

SMALL = [n for n, m in MODELS.items() if m.kind == "small"]
IN_BUFFERS = {"load", "write"}
"""Operations of programs that run as typed only: a buffer has no room for wider values."""
ROUNDS = {"quantize_int4"}
"""What rounds values, in float64 too."""
DIFFERENTIATES = {"differentiate"}
"""It returns more than the program did; tests/compiler/gradients holds what it computes."""
PASSES: dict[str, Pass] = {
    n: p() for n, p in all_passes().items() if n not in ROUNDS | DIFFERENTIATES
} | dict(PIPELINES)


def results(program: Program, inputs: dict[str, Any], float64: bool = True) -> list[Any] | None:
    """The results of a program; None where an operation refuses the values."""
    try:
        with np.errstate(all="ignore"):
            return Interpreter(program, float64=float64).run(with_buffers(program, inputs))
    except EvaluationError:
        return None


class Subject:
    """A program that passes work on copies of, its inputs, and its results, each run once."""

    def __init__(self, program: Program, inputs: dict[str, Any]) -> None:
        self.program = program
        self.inputs = inputs
        self.wanted = cache(lambda float64: results(program, inputs, float64))

    def change(self, after: Program) -> str:
        """The difference of results, in float64 and as typed: folding happens as typed."""
        narrow = program_tolerance(after)
        tolerance = narrow if narrow > 1e-3 else 1e-5
        found = ""
        buffers = any(i.name in IN_BUFFERS for i in after.instructions)
        for float64 in (False,) if buffers else (True, False):
            wanted = self.wanted(float64)
            if wanted is None:
                return ""  # a refused value may be gone with what nobody needs
            got = results(after, self.inputs, float64)
            if got is None:
                return "a run fails"
            parts = [difference(a, b, tolerance) for a, b in zip(wanted, got, strict=True)]
            found = next((p for p in parts if p), "")
            if not found:
                return ""
        return found


def keeps_meaning(name: str, subject: Subject) -> None:
    """Run it, with the program valid after every pass, and compare what is computed before and after."""
    work = subject.program.clone()
    work.listeners.append(Validation(work))
    run_pass(PASSES[name], work)
    change = subject.change(work)
    assert change == "", f"{name}: {change}\n{subject.program}\n{work}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(program=mixed_programs())
def test_every_pass_keeps_what_random_programs_compute(program: Program):
    subject = Subject(program, mixed_inputs(program))
    for name in PASSES:
        keeps_meaning(name, subject)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("model", SMALL)
def test_small_models(name: str, model: str):
    keeps_meaning(name, subject_of(model))


@cache
def subject_of(model: str) -> Subject:
    """A model with its inputs."""
    inputs = MODELS[model].inputs()
    lens = {n: v.shape for n, v in inputs.items()}
    return Subject(parse_onnx(MODELS[model].path, map_input_dims=lens), inputs)
