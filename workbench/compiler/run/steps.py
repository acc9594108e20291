"""The plan of a module: its steps, the values known before them, and the values freed at each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from workbench.compiler.ir.builtin import Param, Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Value
from workbench.compiler.ops.movement import Allocate

_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction prepared for execution."""

    instruction: Instruction
    inputs: tuple[int, ...]
    """Ids of the values it reads."""
    frees: tuple[int, ...]
    """Ids of the values it reads last."""
    dies: tuple[int, ...]
    """The inputs among these, for an operation that may overwrite one of them with its result."""
    is_dynamic: bool
    """Whether the value's lengths are known only at run time, or depend on such lengths."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, and the values known before the first of them, by id."""

    steps: list[Step]
    known: dict[int, Value]


def steps_of(module: Module, known: Collection[int] = ()) -> list[Step]:
    """A step for each instruction that computes something, except those whose values are known."""
    work = [i for i in module if not isinstance(i.op, Param | Return) and i.id not in known]
    last_use = {used: i.id for i in work for used in uses(i)}
    keep = {o.id for o in module.outputs}.union(known)
    own = {i.id for i in module} - keep
    frees: dict[int, list[int]] = {}
    for used, by in last_use.items():
        if used in own:
            frees.setdefault(by, []).append(used)
    return [_step(i, tuple(frees.get(i.id, ()))) for i in work]


def step_of(instruction: Instruction) -> Step:
    """The step of a single instruction: it frees and overwrites nothing."""
    inputs = tuple(x.id for x in instruction.inputs)
    return Step(instruction, inputs, (), (), _is_dynamic(instruction))


def _step(instruction: Instruction, frees: tuple[int, ...]) -> Step:
    inputs = tuple(x.id for x in instruction.inputs)
    may_overwrite = instruction.op.overwrites and not instruction.modules
    dies = tuple(k for k, id in enumerate(inputs) if may_overwrite and id in frees)
    return Step(instruction, inputs, frees, dies, _is_dynamic(instruction))


def _is_dynamic(instruction: Instruction) -> bool:
    is_dynamic = instruction.shape.dims is not None
    return is_dynamic or any(x.shape.dims is not None for x in instruction.inputs)


def uses(instruction: Instruction) -> list[int]:
    """Ids of the values that an instruction reads, including captures of its modules."""
    found = [x.id for x in instruction.inputs]
    for module in instruction.modules:
        for inner in module:
            if inner.inputs or inner.modules:
                found += uses(inner)
    return found


def lasting(module: Module) -> set[int]:
    """Ids of the constants that are computed once for all runs.

    A constant that takes much more memory than its operands is excluded: each run computes it again.
    """
    found: set[int] = set()
    for instruction in module:
        if instruction.literal is not None or (
            instruction.is_constant
            and not isinstance(instruction.op, Allocate)  # a run may write to it
            and not instruction.modules
            and all(x.id in found for x in instruction.inputs)
            and _is_no_larger(instruction)
        ):
            found.add(instruction.id)
    return found


def _is_no_larger(instruction: Instruction) -> bool:
    shape, inputs = instruction.shape, [x.shape for x in instruction.inputs]
    if instruction.op.alias is not None:
        return True
    if shape.is_dynamic or not inputs:
        return False
    return shape.bytes <= max(_SMALL, sum(s.bytes for s in inputs))


def read_by(steps: Iterable[Step], module: Module) -> set[int]:
    """Ids of the values that the steps read, and of the module's results."""
    found = {o.id for o in module.outputs}
    for step in steps:
        found.update(uses(step.instruction))
    return found
