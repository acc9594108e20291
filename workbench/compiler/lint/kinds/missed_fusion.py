"""Attention and norms that are several kernels."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.builds.build import Build
from workbench.compiler.builds.why_not import kernels_of, why_not
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.lint.finding import Cost, Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.ops.pointwise import Rsqrt, Sqrt
from workbench.compiler.ops.reduce import is_reduction
from workbench.compiler.passes.fuse.attention.recognition import (
    attention_ending_in,
    between,
    in_order,
    is_shaped,
    look_through,
)

_REMEDY = {
    "near miss": "remove what the reason names from the model, or compute it from a value outside",
    "obstacle": "change what the reason names in the model, so that only elementwise work lies between",
    "not run": "run the pass that the reason names: take it out of disable=, or compile with passes='gpu'",
}
_FIX_LENGTHS = "fix the lengths, by parse_onnx(path, default_dim_value=1) or map_input_dims="


@kind("missed-fusion")
def missed_fusion(subject: Subject) -> Iterator[Finding]:
    """Attention or a normalisation is several kernels, which pass whole tensors through memory.

    Attention as one kernel never writes its scores, and a norm as one kernel reads its input once. The reason
    is the near miss of the rule, the obstacle, or the pass that did not run, as `build.why_not` gives it.
    """
    build = subject.recorded
    if build is None:
        return
    for what, first, last in _patterns(build):
        if not all(kernels_of(build, i)[0] for i in (first, last)):
            continue
        reason = why_not(build, first, last)
        if reason.kind not in _REMEDY:
            continue
        parts = _parts(build, first, last)
        is_open = any(p.shape.is_dynamic for p in parts)
        yield subject.finding(
            "missed-fusion",
            parts[-1],
            f"{what}: {_FIX_LENGTHS if is_open else _REMEDY[reason.kind]}",
            reason.text,
            cost=_saved(subject, parts),
            others=parts,
        )


def _patterns(build: Build) -> Iterator[tuple[str, Instruction, Instruction]]:
    """The patterns of the source: their name, their first and their last instruction."""
    for module in build.source.reachable_modules():
        for one in module:
            if attention := attention_ending_in(one):
                yield "attention", in_order(attention[0])[0], one
            elif norm := _norm_ending_in(one):
                yield "norm", norm, one


def _norm_ending_in(one: Instruction) -> Instruction | None:
    """The reduction of a norm that ends here, in a value by the root of a reduction; None if none does."""
    if not one.op.pointwise or len(one.inputs) != 2:
        return None
    for scale in map(_behind_shapes, one.inputs):
        if not isinstance(scale.op, Rsqrt | Sqrt):
            continue
        inner = look_through(scale.inputs[0], is_shaped)
        reduction = next((i for i in inner if is_reduction(i)), None)
        if reduction is not None and reduction.module is one.module:
            return reduction
    return None


def _behind_shapes(value: Instruction) -> Instruction:
    while is_shaped(value):
        value = value.inputs[0]
    return value


def _parts(build: Build, first: Instruction, last: Instruction) -> list[Instruction]:
    """The kernels of the compiled program from the first to the last instruction of a pattern, in order."""
    starts, ends = (kernels_of(build, i)[0] for i in (first, last))
    end = max(ends, key=lambda i: i.order)
    found = {end}.union(*(between(start, end) for start in starts if start.order < end.order))
    return in_order(i for i in found if i.module is end.module)


def _saved(subject: Subject, parts: list[Instruction]) -> Cost:
    """The bytes that one part writes and the next reads, and the kernels but one."""
    inner = [i for i in parts[:-1] if i.op.alias is None and not i.shape.is_dynamic]
    passed = sum(2 * i.shape.bytes for i in inner)
    whole = subject.cost(*parts)
    return Cost(passed, 0, max(whole.kernels - 1, 0), whole.ms)
