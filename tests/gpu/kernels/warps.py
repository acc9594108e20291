"""Runs kernels that were made for devices with warps on OpenCL: shuffles go through shared memory."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.gpu.harness import Ran, run_plan, run_program
from workbench.compiler.ir.program import Program
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import OPENCL, Dialect
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import KernelStep, Plan, Step
from workbench.gpu.machine import Machine

_SHUFFLE = """\
#define SHUFFLE_XOR(v, m) ({ \\
  __typeof__((v) + 0) got = v; \\
  *(__local __typeof__((v) + 0) *)(shuffled + LOCAL(0)) = got; BARRIER(); \\
  got = *(__local __typeof__((v) + 0) *)(shuffled + (LOCAL(0) ^ (m))); BARRIER(); \\
  got; })
"""
_HEAD = re.compile(r"(KERNEL\(\d+\) \w+\([^)]*\) \{)")


def warped(warp: int) -> Dialect:
    """OpenCL with what kernels for GPUs rely on: vectors, and warps of this many work items."""
    return Dialect(f"warps of {warp}", OPENCL.prologue, Machine(warp=warp))


def run_warped(program: Program, inputs: dict[str, Any], device: Device, warp: int) -> Ran:
    """The results of a program whose kernels were made for warps; those that the device has are its own."""
    if device.kind != "opencl":
        return run_program(program, inputs, device)
    return run_plan(with_kernels(lower(program, warped(warp)), with_shuffles), inputs, device)


def with_kernels(plan: Plan, emulated: Callable[[Kernel], Kernel]) -> Plan:
    """A plan with each kernel as a function of it."""

    def changed(step: Step) -> Step:
        if not isinstance(step, KernelStep):
            return step
        return replace(step, launch=replace(step.launch, kernel=emulated(step.launch.kernel)))

    return replace(plan, steps=tuple(map(changed, plan.steps)))


def with_shuffles(kernel: Kernel) -> Kernel:
    """The kernel, with shuffles through shared memory."""
    if "SHUFFLE_XOR" not in kernel.source:
        return kernel
    source = _SHUFFLE + _HEAD.sub(r"\1 SHARED u64 shuffled[1024];", kernel.source)
    return replace(kernel, source=source)
