"""The fast interpreter gives what the plain one gives on whole models, and so may stand in for it."""

import pytest

from tests.models.registry import MODELS, Model
from workbench.compiler.arrays.metrics import difference
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.reference import Interpreter

ROUNDING = {False: 1e-5, True: 1e-13}
"""Relative RMS by whether floats are float64: products may be summed in another order."""


def subjects() -> list[object]:
    """The models; heavy ones are left to `make models`."""
    marks = {True: [pytest.mark.models], False: []}
    return [pytest.param(m, id=m.name, marks=marks[m.heavy]) for m in MODELS.values()]


@pytest.mark.parametrize("model", subjects())
def test_models(model: Model):
    inputs = model.inputs()
    program = parse_onnx(model.path, map_input_dims={n: v.shape for n, v in inputs.items()})
    for float64, tolerance in ROUNDING.items():
        wanted = Interpreter(program, float64).run(inputs)
        found = PlannedInterpreter(program, float64).run(inputs)
        reasons = [difference(a, b, tolerance) for a, b in zip(wanted, found, strict=True)]
        assert not any(reasons), reasons
