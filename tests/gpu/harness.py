"""Runs single instructions and programs on a device, without passes unless they are named."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.compiler.variants import Case, Operand, cases, parts
from workbench.compiler.builds.build import Build
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.gpu.code.cache import compiled
from workbench.gpu.code.saved import saved_kernels
from workbench.gpu.devices.base import Code, Compiler, Device
from workbench.gpu.devices.opencl import OpenCLDevice
from workbench.gpu.devices.opencl_compiler import OpenCLCompiler
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import Plan
from workbench.gpu.run.executable import Executable

samples = cases
"""The samples of an operation, by its name."""
OPTIMIZED, MORE = 64, 64
"""One kernel in 64 is compiled for OpenCL as users have it, and one in 64 more by the seed of the run."""
TOGETHER = 5
"""The most kernels of one source: PoCL parses the prologue once for them, but loads them all for each."""


class Ran(NamedTuple):
    """The results of a run, and its plan."""

    values: list[np.ndarray]
    plan: Plan


def program_of(op: Operation, operands: Sequence[Operand]) -> Program:
    """A program with one instruction, whose parameters are laid out as the operands."""
    program = Program()
    inputs = [program.main.add_parameter(f"x{k}", x.shape) for k, x in enumerate(operands)]
    program.main.add_return(program.main.add(op, *inputs))
    return program


def run_one(op: Operation, operands: Sequence[Operand], device: Device) -> Ran:
    """The results of one instruction on a device."""
    (ran,) = run_all([(op, list(operands))], device)
    return ran


def planned(use: Case, device: Device) -> Plan:
    """The plan of one instruction on a device."""
    return lower(program_of(*use), device.dialect)


def run_all(
    uses: Sequence[Case], device: Device, codes: dict[str, Code] | None = None
) -> Iterator[Ran]:
    """The results of each instruction; their kernels are compiled together, unless they are given."""
    plans = [planned(use, device) for use in uses]
    codes = built(plans, device) if codes is None else codes
    for plan, (_, operands) in zip(plans, uses, strict=True):
        arrays = {
            f"x{k}": np.asarray(x.array).reshape(x.shape.lens) for k, x in enumerate(operands)
        }
        yield run_plan(plan, arrays, device, codes)


def run_program(program: Program, inputs: dict[str, Any], device: Device) -> Ran:
    """The results of a program as it stands."""
    return run_plan(lower(program, device.dialect), inputs, device)


def run_plan(
    plan: Plan, inputs: Mapping[str, Any], device: Device, codes: dict[str, Code] | None = None
) -> Ran:
    """The results of a plan; its kernels are compiled now, unless their code is given."""
    executable = Executable(plan, device, built([plan], device) if codes is None else codes)
    try:
        values = [p for v in executable.run(inputs) for p in parts(v)]
    finally:
        executable.close()
    return Ran(values, plan)


def as_built(build: Build, device: Device) -> Build:
    """The compiled program, whose kernels are compiled as the tests' others are, not as users have them."""
    plan = build.runner.plan()
    build.runner.trust(saved_kernels(plan, device.compiler, built([plan], device)))
    return build


@contextmanager
def unoptimized(device: Device) -> Generator[None]:
    """Compiles a device's kernels for OpenCL as most of the tests' are, a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(device, OpenCLDevice):
            patch.setattr(device, "compiler", OpenCLDevice(device.index, optimize=False).compiler)
        yield


# Code


def built(plans: Iterable[Plan], device: Device) -> dict[str, Code]:
    """The code of all kernels; most of those for OpenCL without optimization, several in one source."""
    kernels = {s.launch.kernel.name: s.launch.kernel for p in plans for s in p.kernels}
    if device.kind != "opencl":
        return compiled(kernels.values(), device.compiler, progress=False)
    others = [k for k in kernels.values() if not _is_optimized(k)]
    as_users = [k for k in kernels.values() if _is_optimized(k) or _is_drawn(k)]
    compiler = _quick(device.index)
    quick = together(others, compiler)
    assert not compiler.with_header  # all that kernels call is declared
    return quick | compiled(as_users, device.compiler, progress=False)


def quickly_built(plan: Plan, device: Device) -> dict[str, Code]:
    """The code of kernels for OpenCL, none of which is optimized: those that emulate others take long."""
    kernels = {s.launch.kernel.name: s.launch.kernel for s in plan.kernels}
    return together([*kernels.values()], _quick(device.index))


def _is_optimized(kernel: Kernel) -> bool:
    """Whether tests compile it as users do, by its digest."""
    return int(kernel.name[-16:], 16) % OPTIMIZED == 0


def _is_drawn(kernel: Kernel) -> bool:
    """Whether this run compiles it as users do, too: the sources of several kernels stay as they are."""
    drawn = f"{kernel.name[-16:]} {os.environ['WORKBENCH_TEST_SEED']}"
    return int.from_bytes(hashlib.sha256(drawn.encode()).digest()) % MORE == 0


@cache
def _quick(index: int) -> OpenCLCompiler:
    compiler = OpenCLDevice(index, optimize=False).compiler
    assert isinstance(compiler, OpenCLCompiler)
    return compiler


_DEFINITION = re.compile(r"^[^\s}].*\n(?:[\s}].*\n)*", re.MULTILINE)
"""A line at the margin, and those that go on with it."""


def together(
    kernels: Sequence[Kernel], compiler: Compiler, count: int = TOGETHER
) -> dict[str, Code]:
    """The code of each kernel, by name: up to ``count`` have one, from a source with all of them."""
    groups = [kernels[k : k + count] for k in range(0, len(kernels), count)]
    wholes = [merged(group) for group in groups]
    codes = compiled(wholes, compiler, progress=False)
    return {
        k.name: codes[whole.name]
        for group, whole in zip(groups, wholes, strict=True)
        for k in group
    }


def merged(kernels: Sequence[Kernel]) -> Kernel:
    """One source with several kernels; what they need is defined once."""
    if len(kernels) == 1:
        return kernels[0]
    definitions: dict[str, None] = {}
    bodies: list[str] = []
    for kernel in kernels:
        head, word, body = kernel.source.partition("KERNEL(")
        definitions |= dict.fromkeys(_DEFINITION.findall(head))
        bodies.append(word + body)
    source = "".join([*definitions, *bodies])
    name = f"together_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return Kernel(name, source, kernels[0].grid, kernels[0].block)
