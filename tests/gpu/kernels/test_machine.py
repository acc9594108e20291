"""Kernels are shaped by what the device is made of: OpenCL on a GPU has a GPU's tiles."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.compiler.variants import expect_close
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device, DeviceFacts
from workbench.gpu.devices.opencl_platforms import machine_of
from workbench.gpu.dialect import OPENCL, Dialect, opencl_dialect
from workbench.gpu.kernels.reduce_tiling import tiling_of
from workbench.gpu.kernels.tiles import tiles_for
from workbench.gpu.lowering.lower import lower
from workbench.gpu.machine import CPU, Machine
from workbench.gpu.run.executable import Executable

ON_GPU = opencl_dialect(Machine(warp=32, units=24, threads=256))


def sum_of_rows() -> Program:
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (9, 3000)))
    program.main.add_return(program.main.add("reduce_sum", x, axes=(1,)))
    return program


def product() -> Program:
    program = Program()
    a = program.main.add_parameter("a", Shape("float", (40, 70)))
    b = program.main.add_parameter("b", Shape("float", (70, 33)))
    program.main.add_return(program.main.add("dot", a, b))
    return program


@pytest.mark.parametrize("make", [sum_of_rows, product])
def test_opencl_shares_work_on_a_gpu_and_not_on_a_cpu(make, device: Device):
    program = make()
    plans = {d: lower(program, d) for d in (OPENCL, ON_GPU)}
    items = {d: max(s.launch.kernel.block[0] for s in p.kernels) for d, p in plans.items()}
    assert items[OPENCL] < 32 <= items[ON_GPU] <= ON_GPU.machine.threads
    assert not any("SHUFFLE_XOR" in s.launch.kernel.source for s in plans[ON_GPU].kernels)
    if device.kind == "opencl":
        values = np.random.default_rng(1)
        shapes = {n: i.shape.lens for n, i in program.main.parameters.items()}
        inputs = {n: values.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}
        executable = Executable(plans[ON_GPU], device)
        (found,) = executable.run(inputs)
        executable.close()
        expect_close(found, np.asarray(run(program, inputs)[0]), np.float32, "as on a GPU")


def test_what_an_opencl_device_tells_of_itself_is_what_schedules_ask():
    facts = DeviceFacts("a", "b", compute_units=24, shared=32 << 10, threads=256)
    told = SimpleNamespace(wavefront_width_amd=64)
    made = machine_of(told, facts)
    assert made == Machine(warp=64, units=24, shared=32 << 10, threads=256)
    on_cpu = DeviceFacts("a", "b", compute_units=24, processor="CPU")
    found = machine_of(told, on_cpu)
    assert replace(found, vector=CPU.vector, registers=CPU.registers) == CPU
    assert (found.vector, found.registers) in {(64, 32), (32, 16), (16, 16)}


def test_the_dialects_name_decides_nothing():
    renamed = Dialect("anything", OPENCL.prologue, CPU, shuffles=False)
    rows = (9, 3000, True, 3000, 4)
    assert tiling_of(*rows, renamed.machine) == tiling_of(*rows, OPENCL.machine)
    assert tiling_of(*rows, ON_GPU.machine) != tiling_of(*rows, OPENCL.machine)
    assert tiles_for(renamed, 4, 1, 40, 33, 70)[0].alone
    assert not tiles_for(ON_GPU, 4, 1, 40, 33, 70)[0].alone
