"""Bisection on a device: a kernel that computes something else than float64 on the same operands."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.elementary import Erf
from workbench.gpu.devices.base import Device


def layers() -> Program:
    """Two products with an erf after each, of as many rows as a run has."""
    program = Program("layers")
    x = program.main.add_parameter("x", Shape.dynamic("float", [Dim(1, 8), Dim(16, 16)]))
    random = np.random.default_rng(0)
    for k in range(2):
        with program.source(f"layer{k}"):
            weight = program.main.add_literal(random.standard_normal((16, 16), np.float32) / 4)
            dot = program.main.add("dot", x, weight)
            x = program.main.add("erf", dot) if k else program.main.add("sin", dot)
    program.main.add_return(x)
    return program


X = {"x": np.random.default_rng(1).standard_normal((3, 16), np.float32)}


def test_a_device_that_is_right(device: Device):
    found = wb.bisect(layers(), X, target="gpu", device=device.spec)
    assert (found.kind, found.runs) == ("none", 2)


@pytest.mark.parametrize("expression", ["erf({0}) * 1.25f", "erf({0}) * no_such_name"])
def test_a_wrong_kernel_is_named_with_its_nodes(
    expression: str, device: Device, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Erf, "expression", expression)
    found = wb.bisect(layers(), X, target="gpu", device=device.spec)
    assert (found.kind, found.step, found.culprit.shares) == ("kernel", None, False)
    error = 0.25 if expression.endswith("f") else np.inf  # this does not compile
    assert found.error == pytest.approx(error, abs=1e-3)
    assert "layer1" in found.sources
    assert "layer0" not in found.sources


def test_without_the_device_the_run_is_refused():
    with pytest.raises(DeviceError):
        wb.bisect(layers(), X, target="gpu", device="hip:gfx90a")
