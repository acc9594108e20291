"""Every pass and pipeline on every model: valid after it, and the same results."""

import numpy as np
import pytest

from tests.compiler.programs import with_buffers
from tests.models.registry import MODELS, Model
from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.builds.build import compile
from workbench.compiler.ir.program import Program
from workbench.compiler.laws.pass_checks import Validation
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.passes.base import Pass, all_passes, run_pass
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import Interpreter

ROUNDS = {"quantize_float", "truncate_float", "quantize_int4"}
"""What computes in a narrower type on purpose: how far that leads is the model's affair."""
DIFFERENTIATES = {"differentiate"}
"""It returns more than the program did; tests/compiler/gradients holds what it computes."""
PASSES: dict[str, Pass] = {
    n: p() for n, p in all_passes().items() if n not in ROUNDS | DIFFERENTIATES
} | dict(PIPELINES)
TRAINED = [m for m in MODELS.values() if m.kind == "wheel"]
"""Small enough for every test run; the rest is left to `make models`."""


def subjects() -> list[object]:
    """The models; small ones are subjects of tests/compiler/passes/test_each_pass.py."""
    found = [m for m in MODELS.values() if m.kind != "small"]
    return [
        pytest.param(m, id=m.name, marks=[] if m in TRAINED else [pytest.mark.models])
        for m in found
    ]


def parsed(model: Model) -> Program:
    lens = {n: v.shape for n, v in model.inputs().items()}
    return parse_onnx(model.path, map_input_dims=lens)


@pytest.mark.parametrize("model", subjects())
def test_every_pass_keeps_the_meaning(model: Model):
    source, inputs = parsed(model), model.inputs()
    wanted = Interpreter(source).run(inputs)
    for name, pass_ in PASSES.items():
        work = source.clone()
        work.listeners.append(Validation(work))
        version = work.version
        run_pass(pass_, work)
        if work.version == version:
            continue
        with np.errstate(all="ignore"):
            found = Interpreter(work).run(with_buffers(work, inputs))
        limit = program_tolerance(work)
        reasons = [difference(a, b, limit) for a, b in zip(wanted, found, strict=True)]
        assert not any(reasons), f"{name}: {reasons}"


@pytest.mark.parametrize("model", subjects())
def test_no_pass_of_the_pipelines_changes_a_result(model: Model):
    for pipeline in ("optimize", "gpu"):
        compile(parsed(model), target="cpu", passes=pipeline, check=model.inputs())
