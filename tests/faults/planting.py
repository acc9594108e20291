"""Faults of the target itself, which stay while a context is open: wrong expressions and wrong kernels."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from workbench.compiler.ir.operation import Operation
from workbench.compiler.report.result import kernel_sources
from workbench.gpu.emit import scalar
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.plan import KernelStep, Plan, Step
from workbench.gpu.run import runner


@contextmanager
def expression(kind: type[Operation], text: str) -> Iterator[None]:
    """Let the emitter write another expression for an operation.

    Args:
        kind: the class of the operation.
        text: the expression, in which `{}` stands for the right one.
    """
    right = scalar._expression

    def wrong(w: Any, op: Operation, *rest: Any) -> str:
        made = right(w, op, *rest)
        return text.format(made) if isinstance(op, kind) else made

    with patch.object(scalar, "_expression", wrong):
        yield


@contextmanager
def kernel(node: str, *changes: tuple[str, str], before: str = "") -> Iterator[list[str]]:
    """Change the source of the kernels of one node of the model.

    Args:
        node: the node's name.
        changes: regular expressions, and what stands in place of each match.
        before: functions that are put before the kernel.

    Yields:
        The names of the kernels that were changed; it grows as programs are lowered.
    """
    right, names = runner.lower, list[str]()

    def lower(*given: Any) -> Plan:
        plan = right(*given)
        return replace(plan, steps=tuple(_changed(plan.steps, node, changes, before, names)))

    with patch.object(runner, "lower", lower):
        yield names


def _changed(
    steps: Sequence[Step],
    node: str,
    changes: Sequence[tuple[str, str]],
    before: str,
    names: list[str],
) -> Iterator[Step]:
    for step in steps:
        if not isinstance(step, KernelStep) or node not in kernel_sources(step.instruction):
            yield step
            continue
        old = step.launch.kernel
        made = _rewritten(old, changes, before)
        if made is not old:
            names.append(made.name)
        yield replace(step, launch=replace(step.launch, kernel=made))


def _rewritten(kernel: Kernel, changes: Sequence[tuple[str, str]], before: str) -> Kernel:
    """A kernel with a changed source, and so with a name of its own; itself if nothing matches."""
    source = kernel.source
    for pattern, text in changes:
        source = re.sub(pattern, text, source)
    if source == kernel.source:
        return kernel
    name = f"wrong_{hashlib.sha256((before + source).encode()).hexdigest()[:16]}"
    return replace(kernel, name=name, source=before + source.replace(kernel.name, name))
