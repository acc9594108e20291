"""Runs single instructions and programs on a device, without passes unless they are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.compiler.variants import Operand, cases, parts
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import Plan
from workbench.gpu.run.executable import Executable

samples = cases
"""The samples of an operation, by its name."""


class Ran(NamedTuple):
    """What a run gave, and the plan that it followed."""

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
    arrays = {f"x{k}": np.asarray(x.array).reshape(x.shape.lens) for k, x in enumerate(operands)}
    return run_program(program_of(op, operands), arrays, device)


def run_program(program: Program, inputs: dict[str, Any], device: Device) -> Ran:
    """The results of a program as it stands."""
    plan = lower(program, device.dialect)
    executable = Executable(plan, device)
    try:
        values = [p for v in executable.run(inputs) for p in parts(v)]
    finally:
        executable.close()
    return Ran(values, plan)
