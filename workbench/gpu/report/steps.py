"""The words and the work of steps; a loop's own kernels only carry values."""

from __future__ import annotations

from workbench.compiler.ops.collectives import Collective
from workbench.compiler.ops.control import Loop
from workbench.compiler.report.result import Work, kernel_text, work_of
from workbench.gpu.lowering.plan import CollectiveStep, KernelStep, Step


def is_of_loop(step: Step) -> bool:
    """Whether a step is a kernel that a loop itself needs, besides those of its module."""
    return isinstance(step, KernelStep) and isinstance(step.instruction.op, Loop)


def step_text(step: Step) -> str:
    """The operation, or the parts of a fused one."""
    return "loop: carry" if is_of_loop(step) else kernel_text(step.instruction)


def step_work(step: Step) -> Work:
    """The work of a step's instruction."""
    return Work(0, 0) if is_of_loop(step) else work_of(step.instruction)


def moved(step: Step) -> int:
    """The bytes that a step reads and writes, by the sizes of its arguments."""
    if isinstance(step, KernelStep):
        return sum(r.bytes for r in dict.fromkeys(step.launch.arguments))
    return 0


def groups_text(step: CollectiveStep) -> str:
    """The replicas among which a collective exchanges values."""
    op = step.instruction.op
    assert isinstance(op, Collective)
    groups = op.divisions()
    return f"among replicas {' and '.join(_listed(g) for g in groups)}"


def _listed(group: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, group)) + "}"
