"""The arena: one piece of memory for all values between steps; values with lifetimes apart share a part."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.memory.coloring import color
from workbench.compiler.memory.liveness import Lifetime
from workbench.gpu.kernels.kernel import Root
from workbench.gpu.lowering.plan import (
    BranchStep,
    CollectiveStep,
    HostStep,
    KernelStep,
    LoopStep,
    Step,
    inner_steps,
    padded,
)

_Path: TypeAlias = tuple[int, ...]
"""The branches and loops that a step is in, from the outermost."""


def arranged(steps: Sequence[Step], own: Collection[Root]) -> tuple[dict[Root, int], int]:
    """Offsets in the arena for values that live across steps, and its size; lifetimes apart may share.

    A value that only the steps of a branch or of one iteration use lives from the first of them to the
    last; another value that they use lives as long as the whole branch or loop.

    Args:
        steps: The steps of a run.
        own: Results with their own memory.
    """
    walk = _Walk()
    walk.steps(steps, ())
    kept = [r for r in walk.touches if r.kind in ("value", "scratch") and r not in own]
    found = {r: Lifetime(walk.makers[r], *walk.lifetime(r), r.bytes) for r in kept}
    roots = sorted(found, key=lambda r: found[r].first)
    offsets = dict(zip(roots, color([found[r] for r in roots], padded(1)), strict=True))
    return offsets, max((o + r.bytes for r, o in offsets.items()), default=0)


class _Walk:
    """All steps in the order of a run, and where each piece of memory is used."""

    def __init__(self) -> None:
        self.now = 0
        self.touches: dict[Root, list[tuple[_Path, int]]] = {}
        self.makers: dict[Root, Instruction] = {}
        self.spans: dict[_Path, tuple[int, int]] = {}

    def steps(self, steps: Sequence[Step], path: _Path) -> None:
        for step in steps:
            self._touch(step, path)
            for inner in inner_steps(step):
                start = self.now + 1
                self.steps(inner, (*path, start))
                self.spans[*path, start] = start, self.now
            if isinstance(
                step, LoopStep
            ):  # what it carries is needed until its last iteration ends
                self._touch(step, path)

    def _touch(self, step: Step, path: _Path) -> None:
        self.now += 1
        for root in roots_of(step):
            self.touches.setdefault(root, []).append((path, self.now))
            self.makers.setdefault(root, step.instruction)

    def lifetime(self, root: Root) -> tuple[int, int]:
        touches = self.touches[root]
        home = _common([path for path, _ in touches])
        spans = [
            (at, at) if path == home else self.spans[path[: len(home) + 1]] for path, at in touches
        ]
        return min(s for s, _ in spans), max(e for _, e in spans)


def _common(paths: Sequence[_Path]) -> _Path:
    """The longest path that all paths begin with."""
    first, last = min(paths), max(paths)
    same = [k for k in range(min(len(first), len(last))) if first[: k + 1] == last[: k + 1]]
    return first[: len(same)]


def roots_of(step: Step) -> list[Root]:
    """The memory that a step itself reads or writes, without what is in its branches or its body."""
    if isinstance(step, KernelStep):
        return list(step.launch.arguments)
    if isinstance(step, BranchStep):
        return [step.condition.root]
    if isinstance(step, CollectiveStep):
        return [step.source.root, step.target.root]
    if isinstance(step, HostStep):
        return [p.root for p in (*(p for _, ps in step.reads for p in ps), *step.writes)]
    read = [
        p.root for p in (step.count, step.condition) if p is not None and not isinstance(p, int)
    ]
    return [*read, *step.swapped]
