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
PASSES: dict[str, Pass] = {n: p() for n, p in all_passes().items() if n not in ROUNDS} | dict(
    PIPELINES
)


def results(program: Program, inputs: dict[str, Any], float64: bool = True) -> list[Any] | None:
    """The results of a program; None where an operation refuses the values."""
    try:
        with np.errstate(all="ignore"):
            return Interpreter(program, float64=float64).run(with_buffers(program, inputs))
    except EvaluationError:
        return None


def change(
    before: Program, after: Program, inputs: dict[str, Any], modes: tuple[bool, ...] = (True, False)
) -> str:
    """The difference of results, in float64 and as typed: folding happens as typed."""
    narrow = program_tolerance(after)
    tolerance = narrow if narrow > 1e-3 else 1e-5
    found = ""
    for float64 in modes:
        wanted, got = results(before, inputs, float64), results(after, inputs, float64)
        if wanted is None:
            return ""  # a refused value may be gone with what nobody needs
        if got is None:
            return "a run fails"
        parts = [difference(a, b, tolerance) for a, b in zip(wanted, got, strict=True)]
        found = next((p for p in parts if p), "")
        if not found:
            return ""
    return found


def keeps_meaning(pass_: Pass, program: Program, inputs: dict[str, Any]) -> None:
    """Run it, with the program valid after every pass, and compare what is computed before and after."""
    work = program.clone()
    work.listeners.append(Validation(work))
    run_pass(pass_, work)
    buffers = any(i.name in IN_BUFFERS for i in work.instructions)
    modes = (False,) if buffers else (True, False)
    assert change(program, work, inputs, modes) == "", f"{program}\n{work}"


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(program=mixed_programs())
def test_random_programs(name: str, program: Program):
    keeps_meaning(PASSES[name], program, mixed_inputs(program))


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("model", SMALL)
def test_small_models(name: str, model: str):
    keeps_meaning(PASSES[name], *subject(model))


@cache
def subject(model: str) -> tuple[Program, dict[str, Any]]:
    """A model, which passes work on a copy of, and its inputs."""
    inputs = MODELS[model].inputs()
    lens = {n: v.shape for n, v in inputs.items()}
    return parse_onnx(MODELS[model].path, map_input_dims=lens), inputs
