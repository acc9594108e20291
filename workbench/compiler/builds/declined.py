"""Near misses about two instructions: attention first, then any rule of fusion that declined the pair."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from workbench.compiler.builds.not_run import not_decomposed, not_run, steps_of
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.fuse.attention.recognition import (
    attention_ending_in,
    attention_obstacle,
    find_attention,
)
from workbench.compiler.passes.fuse.fuse_attention import FuseAttention
from workbench.compiler.rewrite.worklist import LEFT
from workbench.compiler.text.naming import ids_in

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.record.edits import NearMiss, Step

Side = set[int]
"""The ids of all steps that are related to one of the two instructions."""

_FUSING = "/passes/fuse/"
_PART = re.compile(r"; (?=\S+ #\d)")


def side(build: Build, ids: Iterable[int]) -> Side:
    """Everything that instructions came from, became, or compute the same value as."""
    return set[int]().union(*(build.recording.relations.related(id) for id in ids))


def declined(build: Build, ours: Side, theirs: Side) -> tuple[str, list[int]]:
    """The last near miss of a rule that would have fused two kernels, and the ids that it names.

    Args:
        build: The build.
        ours: The ids of kernels of the compiled program. What became of a kernel that was there only for a
            while, and why, no longer explains the program.
        theirs: Those of the others.
    """
    for step in reversed(build.recording.steps):
        for miss in reversed(step.recorded_misses):
            if _FUSING in miss.file and (reason := _about(miss, ours, theirs)):
                return said(step, miss, reason), ids_in(reason)
    return "", []


def declined_at(build: Build, instruction: Instruction) -> str:
    """The last near miss of any rule at an instruction; empty if there is none."""
    for step in reversed(build.recording.steps):
        for miss in reversed(step.recorded_misses):
            if miss.instruction == instruction.id:
                return said(step, miss, miss.reason)
    return ""


def said(step: Step, miss: NearMiss, reason: str) -> str:
    """A near miss in words, with instructions named as in its step."""
    at = f"{miss.rule} of {step.name.partition('(')[0]} declined at #{miss.instruction}"
    return step.named(f"{at} in step {step.index}: {reason}")


def _about(miss: NearMiss, ours: Side, theirs: Side) -> str:
    """The part of a near miss's reason that is about the two; empty if none is."""
    root = miss.instruction
    if miss.reason.endswith(LEFT) and (root in ours or root in theirs):
        return miss.reason
    for part in _PART.split(miss.reason):
        named = ids_in(part)[:1]
        other = named[0] if named else root
        if (root in ours and other in theirs) or (root in theirs and other in ours):
            one_side = root in ours and root in theirs
            return "" if one_side else part
    return ""


# Attention


def attention(build: Build, ours: Side, theirs: Side) -> tuple[str, str]:
    """The reason why two parts of one attention are not one kernel, and its kind; empty if they are none."""
    for step in reversed(steps_of(build, FuseAttention.name)):
        for root, softmax in _attentions(step.before, ours, theirs):
            if found := [m for m in step.recorded_misses if _is_at(m, root)]:
                return said(step, found[-1], found[-1].reason), "near miss"
            if _is_taken(step.after.find(root.id)):
                continue
            if reason := not_decomposed(build, softmax):
                return f"they are parts of attention: {reason}", "not run"
            if reason := attention_obstacle(root, softmax):
                return step.named(f"in step {step.index}, {reason}"), "obstacle"
    if any(_attentions(build.source, ours, theirs)) and (
        reason := not_run(build, FuseAttention.name, find_attention.name)
    ):
        return f"they are parts of attention: {reason}, which makes it one kernel", "not run"
    return "", ""


def _is_at(miss: NearMiss, root: Instruction) -> bool:
    return miss.instruction == root.id and "/attention/" in miss.file


def _is_taken(root: Instruction | None) -> bool:
    """Whether a product became part of a group."""
    return root is None or root.module.bypass


def _attentions(
    program: Program, ours: Side, theirs: Side
) -> Iterator[tuple[Instruction, Instruction]]:
    """Attention that contains both sides: its last product, and its softmax."""
    for module in program.reachable_modules():
        for root in module if not module.bypass else ():
            found = attention_ending_in(root)
            if found is None:
                continue
            ids = {i.id for i in found[0]}
            if not ids.isdisjoint(ours) and not ids.isdisjoint(theirs):
                yield root, found[1]
