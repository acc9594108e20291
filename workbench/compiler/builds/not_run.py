"""Passes that would have made a difference and did not run: left out, switched off, or stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.passes.base import RewritePass, all_passes, is_disabled

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.record.edits import Step

_DECOMPOSE = "workbench.compiler.passes.decompose."


def steps_of(build: Build, name: str) -> list[Step]:
    """The steps of a pass in a build's recording."""
    return [s for s in build.recording.steps if s.name.partition("(")[0] == name]


def not_run(build: Build, name: str, rule: str = "") -> str:
    """The reason why a pass, or one of its rules, had no effect on a build; empty if it ran to its end."""
    steps = steps_of(build, name)
    if not steps:
        switched = is_disabled(name)
        return f"an option switched off {name}" if switched else f"the pipeline did not run {name}"
    if stopped := next((s.error for s in steps if s.error), ""):
        return f"{name} stopped: {stopped}"
    passes = [s.pass_ for s in steps if isinstance(s.pass_, RewritePass)]
    if not rule or not passes or any(rule in [r.name for r in p.active] for p in passes):
        return ""
    if any(rule in p.without for p in passes):
        return f"{name} ran without its rule {rule}"
    return f"the options of {passes[-1]} do not allow its rule {rule}"


def not_decomposed(build: Build, instruction: Instruction) -> str:
    """The passes that would have decomposed an operation into ones that fuse, and did not run."""
    wanted = [
        name
        for name, kind in all_passes().items()
        if issubclass(kind, RewritePass)
        and kind.__module__.startswith(_DECOMPOSE)
        and any(r.roots and instruction.name in r.roots for r in kind.rules)
    ]
    reasons = [r for r in (not_run(build, name) for name in wanted) if r]
    if not wanted or len(reasons) < len(wanted):
        return ""
    return (
        f"{reasons[0]}, which decomposes {instruction.name} #{instruction.id} into work that fuses"
    )
