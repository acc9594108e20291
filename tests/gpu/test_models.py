"""Whole models: on the device they give what the reference gives; their kernels compile for AMD's GPUs."""

from functools import cache

import numpy as np
import pytest

import workbench as wb
from tests.gpu.harness import as_built, together
from tests.models.registry import MODELS, Model
from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import parse_onnx
from workbench.gpu.code.objects import read_code_object
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.lowering.lower import lower

LIGHT = [n for n, m in MODELS.items() if m.kind in ("small", "wheel")]
HEAVY = [n for n, m in MODELS.items() if m.kind in ("light", "export")]
LENGTHS = {"small_loop"}
"""Only a run knows the lengths of their results."""
AS_USERS = "pplcnet_orient"
"""The model whose kernels are all optimized, as the notebooks have them; of others, a few are."""
AMD = ("gfx90a", "gfx908", "gfx1030")

every_model = pytest.mark.parametrize(
    "name", [*LIGHT, *(pytest.param(n, marks=pytest.mark.models) for n in HEAVY)]
)


def parsed(model: Model) -> Program:
    return parse_onnx(model.path, map_input_dims={n: v.shape for n, v in model.inputs().items()})


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])
@every_model
def test_a_model_gives_what_the_reference_gives(name: str, fused: bool, device: Device):
    program, inputs = parsed(MODELS[name]), MODELS[name].inputs()
    disable = () if fused else ("fusion",)
    build = wb.compile(program, target="gpu", device=device.spec, disable=disable)
    if not (fused and name == AS_USERS):
        as_built(build, device)
    wanted = wb.compile(program, target="ref").run(inputs)
    found = build.run(inputs)
    limit = program_tolerance(program)
    for key in wanted:
        assert not difference(np.asarray(wanted[key]), np.asarray(found[key]), limit), key
    assert bool(build.runner.plan().host) == (name in LENGTHS)


@every_model
def test_fusion_makes_fewer_kernels(name: str):
    counts = [
        len(lower(_compiled(name, fused), compiler_for("hip:gfx90a").dialect).kernels)
        for fused in (True, False)
    ]
    assert counts[0] <= counts[1]


@cache
def _compiled(name: str, fused: bool = True) -> Program:
    disable = () if fused else ("fusion",)
    return wb.compile(parsed(MODELS[name]), target="cpu", passes="gpu", disable=disable).program


@pytest.mark.parametrize("arch", AMD)
def test_every_kernel_of_the_models_compiles_for_amd(arch: str):
    compiler = compiler_for(f"hip:{arch}")
    kernels = {
        step.launch.kernel.name: step.launch.kernel
        for name in LIGHT
        for step in lower(_compiled(name), compiler.dialect).kernels
    }
    assert len(kernels) > 100
    codes = together(list(kernels.values()), compiler, 60)
    for name in kernels:
        binary = codes[name].binary
        assert binary.startswith(b"\x7fELF")
        assert read_code_object(binary).kernel(name).name == name
