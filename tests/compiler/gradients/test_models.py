"""Gradients of whole networks: by differences, and the same on each target and after all passes."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.compiler.gradients.differences import check_gradient
from tests.models.registry import MODELS
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.run.reference import Interpreter

NETWORKS = ["encoder", "decoder", "cnn", "branches", "loop", "loop_stops", "scan", "function"]


@cache
def source(name: str) -> tuple[Program, dict[str, Any]]:
    """A model with fixed lengths, and its inputs."""
    inputs = MODELS[f"small_{name}"].inputs()
    lens = {n: v.shape for n, v in inputs.items()}
    return parse_onnx(MODELS[f"small_{name}"].path, map_input_dims=lens), inputs


def with_weights(name: str, type: DType) -> tuple[Program, dict[str, Any]]:
    """A model whose float constants and inputs are parameters of a type."""
    made, inputs = source(name)
    program, given = made.clone(), dict(inputs)
    main = program.main
    for k, i in enumerate(list(main)):
        tensor = i.shape.is_tensor and not i.shape.is_dynamic
        if not tensor or not i.shape.type.is_float or i.shape.elements < 2:
            continue
        if i.literal is not None:
            _replaced(i, f"w{k}", type)
            given[f"w{k}"] = i.literal.numpy().astype(type.numpy)
        elif i.parameter and type is not i.shape.type:
            given[f"w{k}"] = given.pop(i.parameter).astype(type.numpy)
            _replaced(i, f"w{k}", type)
    return program, given


def _replaced(value: Instruction, name: str, type: DType) -> None:
    """Let a parameter take the place of a value; in float64 mode the conversion keeps its digits."""
    module = value.module
    new = module.add_parameter(name, value.shape.with_type(type).as_standard())
    module.move(new, value)
    if type is not value.shape.type:
        new = module.insert(value.following, "convert", new, target_type=value.shape.type)
    for user in list(value.users):
        if user is not new:
            inputs = [new if i is value else i for i in user.inputs]
            user.module.set_inputs(user, inputs)
    module.remove(value)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_by_differences(name: str):
    program, inputs = with_weights(name, DType.DOUBLE)
    check_gradient(program, inputs, together=True, of=static(program))


def static(program: Program) -> list[int]:
    """The positions of the float outputs of fixed lengths."""
    shapes = [o.shape for o in program.outputs]
    return [k for k, s in enumerate(shapes) if s.type.is_float and not s.is_dynamic]


def run_gradient(name: str) -> tuple[Program, dict[str, Any], list[np.ndarray]]:
    """The gradient of a network in float32, inputs, and what the reference gives."""
    program, inputs = with_weights(name, DType.FLOAT)
    made = wb.gradient(program, of=static(program))
    for n, shape in made.parameters.items():
        if n not in inputs:
            inputs[n] = np.random.default_rng(5).standard_normal(shape.lens).astype(np.float32)
    return made, inputs, Interpreter(made).run(inputs)


def expect_near(found: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(found, wanted, strict=True):
        scale = np.abs(b).max() if b.size else 1
        np.testing.assert_allclose(a, b, 2e-4, 2e-5 * max(float(scale), 0.1))


@pytest.mark.parametrize("name", NETWORKS)
def test_targets_and_passes_agree(name: str):
    made, inputs, wanted = run_gradient(name)
    found = wb.compile(made, target="cpu").run(inputs)
    expect_near(list(found.values()), wanted)
    work = made.clone()
    PIPELINES["gpu"].run(work)
    expect_near(Interpreter(work).run(inputs), wanted)
