"""Kernels that are taken over from an earlier instruction like it are those that it would have got itself."""

from collections.abc import Callable

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.gpu.dialect import OPENCL
from workbench.gpu.kernels.kernel import Launch
from workbench.gpu.lowering import lower as lowering
from workbench.gpu.lowering.plan import KernelStep, Plan, flat
from workbench.gpu.lowering.repeats import Repeats


class _None(Repeats):
    """Takes over nothing."""

    def launches(
        self,
        lowering: lowering.Lowering,
        instruction: Instruction,
        make: Callable[[Instruction], list[Launch] | None],
    ) -> list[Launch] | None:
        return make(instruction)


def _layers(x: Value) -> Value:
    """Layers that are alike, one with another factor, and one with rows of another layout."""
    weights = np.random.default_rng(1).standard_normal((5, 8, 8)).astype(np.float32)
    for k, w in enumerate(weights):
        y = x @ (w.T if k == 3 else w) * (2.0 if k == 2 else 1.5)
        y = (y - y.mean(-1, keepdims=True)) / 3.0
        x = x + y
    return x @ x.T + x @ weights[0]


def _table(x: Value) -> Value:
    for k in range(3):
        x = x * np.arange(8, dtype=np.float32) + float(k)
    return x


@pytest.mark.parametrize("make", [_layers, _table])
@pytest.mark.parametrize("passes", ["gpu", "ref"])
def test_a_plan_is_the_same_as_without_repeats(make, passes, monkeypatch: pytest.MonkeyPatch):
    program = wb.trace(make, x=(8, 8))
    program = wb.compile(program, "ref", passes=passes, record=False).program
    found = lowering.lower(program, OPENCL)
    monkeypatch.setattr(lowering, "Repeats", _None)
    assert _text(found) == _text(lowering.lower(program, OPENCL))


def test_layers_that_are_alike_are_lowered_once(monkeypatch: pytest.MonkeyPatch):
    made: list[Instruction] = []
    make = lowering.Lowering._made

    def counted(self: lowering.Lowering, instruction: Instruction) -> list[Launch] | None:
        made.append(instruction)
        return make(self, instruction)

    monkeypatch.setattr(lowering.Lowering, "_made", counted)
    program = Program()
    x = program.main.add_parameter("x", wb.Shape("float", (8, 8)))
    for k in range(20):
        w = program.main.add_parameter(f"w{k}", wb.Shape("float", (8, 8)))
        x = program.main.add("dot", x, w)
    program.main.add_return(x)
    plan = lowering.lower(program, OPENCL)
    assert len(plan.steps) == 20
    assert len(made) == 2  # the first one reads a parameter


def _text(plan: Plan) -> list[object]:
    kernels = [s.launch for s in flat(plan.steps) if isinstance(s, KernelStep)]
    roots = [[r.bytes for r in k.arguments] for k in kernels]
    return [kernels, roots, plan.offsets, plan.arena, [*plan.literals]]
