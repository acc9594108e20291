"""Recurrent networks on a device: a step's kernels, launched in a loop, in every form."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import workbench as wb
from tests.gpu.harness import as_built
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.text.parsing import parse_operation
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import LoopStep

STEPS, BATCH, WIDTH, HIDDEN = 6, 3, 2, 4
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
OPTIONS = {"b", "lens", "h", "c", "p"}
"""A bias, lengths, the first hidden and cell states, peepholes."""
CASES: dict[str, tuple[str, str, str, set[str]]] = {
    "rnn forward": ("rnn", "forward", "", set()),
    "rnn, two functions": ("rnn", "bidirectional", "actv_func={tanh, relu}", {"b", "lens", "h"}),
    "gru, reset later": ("gru", "forward", "linear_before_reset=1", {"b"}),
    "gru, clipped": ("gru", "reverse", "linear_before_reset=1,clip=0.2", {"b", "lens"}),
    "gru bidirectional": ("gru", "bidirectional", "", {"b", "lens", "h"}),
    "lstm forward": ("lstm", "forward", "", {"b"}),
    "lstm, coupled, peepholes": ("lstm", "reverse", "input_forget=1,clip=0.3", {"b", "h", "p"}),
    "lstm bidirectional": ("lstm", "bidirectional", "", OPTIONS),
}


def noise(*lens: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens).astype(np.float32)


def network(
    kind: str, direction: str, extra: str, given: set[str], type: str = "float"
) -> tuple[Program, dict[str, Any]]:
    """A network whose operands are parameters, with its last states."""
    count, wide = 1 + (direction == "bidirectional"), GATES[kind] * HIDDEN
    program = Program()
    sizes = {
        "x": (STEPS, BATCH, WIDTH), "w": (count, wide, WIDTH), "r": (count, wide, HIDDEN),
        "b": (count, 2 * wide), "lens": (BATCH,), "h": (count, BATCH, HIDDEN),
        "c": (count, BATCH, HIDDEN), "p": (count, 3 * HIDDEN),
    }  # fmt: skip
    names = list(sizes)[: 8 if kind == "lstm" else 6]
    inputs: dict[str, Any] = {}
    operands = []
    for seed, name in enumerate(names):
        if name not in {"x", "w", "r"} | given:
            operands.append(program.main.add("undefined"))
            continue
        value = noise(*sizes[name], seed=seed) / 2
        inputs[name] = np.array([4, 0, STEPS], np.int32) if name == "lens" else value
        inputs[name] = inputs[name] if name == "lens" else value.astype(Shape(type).type.numpy)
        shape = Shape("int32" if name == "lens" else type, sizes[name])
        operands.append(program.main.add_parameter(name, shape))
    text = f"{kind}[hidden_size={HIDDEN},direction={direction}{',' * bool(extra)}{extra}]"
    every = program.main.add(parse_operation(text), *operands)
    last = ["rnn_last_hs_output"] + ["rnn_last_cell_output"] * (kind == "lstm")
    program.main.add_return(every, *[program.main.add(n, every) for n in last])
    return program, inputs


def check(program: Program, inputs: dict[str, Any], device: Device, limit: float) -> wb.Build:
    build = as_built(wb.compile(program, target="gpu", device=device.spec), device)
    wanted = wb.compile(program, target="ref").run(inputs)
    found = build.run(inputs)
    for k in range(len(program.main.outputs)):
        np.testing.assert_allclose(found[k], wanted[k], rtol=limit, atol=limit)
    return build


@pytest.mark.parametrize("name", CASES)
def test_a_network_gives_what_the_reference_gives(name: str, device: Device):
    program, inputs = network(*CASES[name])
    build = check(program, inputs, device, 1e-5)
    plan = build.runner.plan()
    assert not plan.host
    (loop,) = [s for s in plan.steps if isinstance(s, LoopStep)]
    assert loop.iterations == STEPS
    assert plan.is_fixed


def test_a_network_in_half_precision(device: Device):
    check(*network("gru", "bidirectional", "", {"b"}, "half"), device, 4e-3)


def test_examples_first(device: Device):
    """ONNX's layout 1: batch, then steps."""
    names = {"x": (BATCH, STEPS, WIDTH), "w": (1, 16, WIDTH), "r": (1, 16, HIDDEN)}
    node = helper.make_node("LSTM", list(names), ["y", "h", "c"], hidden_size=HIDDEN, layout=1)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in names.items()]
    results = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (BATCH, STEPS, 1, HIDDEN)),
        *(helper.make_tensor_value_info(n, TensorProto.FLOAT, (BATCH, 1, HIDDEN)) for n in "hc"),
    ]
    model = helper.make_model(helper.make_graph([node], "g", values, results))
    program = wb.parse_onnx(model.SerializeToString())
    check(program, {n: noise(*s, seed=len(s)) for n, s in names.items()}, device, 1e-5)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("device", ["hip:gfx90a", "cuda:sm_90"])
def test_the_number_of_kernels_does_not_grow_with_that_of_steps(kind: str, device: str):
    counts = set()
    for steps in (STEPS, 240):
        program, _ = network(kind, "forward", "", {"b"})
        x = program.main.parameters["x"]
        program.main.set_shape(x, Shape("float", (steps, BATCH, WIDTH)))
        for i in list(program.main)[1:]:
            program.main.reinfer(i) if i.inputs else None
        compiled = wb.compile(program, target="gpu", device=device)
        plan = lower(compiled.program, compiler_for(device).dialect)
        assert sum(n for _, n in plan.timed) > steps
        counts.add(len(plan.kernels))
    assert counts <= set(range(9))
    assert len(counts) == 1
