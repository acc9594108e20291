"""Large sums split among blocks: the sums get a kernel of their own, without the work around them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.reduce import is_reduction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.fuse.kernels.pairs import axes_of, who
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, drive, rule
from workbench.compiler.rewrite.bodies import Body, needed_for, unused_name

SPLIT_SIZE = 8192
"""The fewest elements per result for which a sum is split."""


def sums_to_split(kernel: Instruction, split_size: int = SPLIT_SIZE) -> list[Instruction] | str:
    """The one or two sums in a ``fused_reduce`` that are split, or the reason why none are."""
    found = [i for i in kernel.modules[0] if is_reduction(i)]
    if not found:
        return f"{who(kernel)} has no reduction"
    first = found[0]
    if (size := _elements_for_each(first)) < split_size:
        where = f"{who(first)} in {who(kernel)}"
        return f"{where} reduces {size} elements to one; sums of at least {split_size} are split"
    if other := next((i for i in found if not _is_sum(i)), None):
        return f"{who(other)} is not a reduce_sum: partial results could not be added"
    if len(found) > 2:
        return f"{who(kernel)} has {len(found)} sums; one or two are split"
    if other := next((i for i in found if i.shape.type not in (DType.FLOAT, DType.HALF)), None):
        return f"{who(other)} is {other.shape.type.type_name}; float and half are split"
    if len(found) > 1 and first in needed_for(found[1:]):
        return f"{who(found[1])} depends on {who(first)}, so they cannot be split together"
    return found


def _is_sum(reduction: Instruction) -> bool:
    return reduction.op.monoid is not None and reduction.op.monoid.is_sum


def _elements_for_each(reduction: Instruction) -> int:
    outputs = reduction.shape.elements
    return reduction.inputs[0].shape.elements // outputs if outputs else 0


@rule(Pattern(frozenset({"fused_reduce"}), binding="root"))
def split_sums(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """fused_reduce(x…), [g(sum(f))] → g(split_fused_reduce(x…), [sum(f)]), for large sums"""
    return _split(b, root)


def _split(b: Rewriter, root: Instruction, split_size: int = SPLIT_SIZE) -> Instruction | Decline:
    sums = sums_to_split(root, split_size)
    if isinstance(sums, str):
        return Decline(sums)
    body, (result,) = root.modules[0], root.modules[0].outputs
    named = [p for _, p in sorted(body.parameters.items())]
    outer = dict(zip(named, root.inputs, strict=True))
    work = [i for i in body if i.parameter is None and not isinstance(i.op, Return)]
    before = _live_after(work, sums, result)
    _move_out(b, [i for i in work if i in needed_for(before)], outer)
    partial_sums = [i for i in work if i in needed_for(sums) and i.module is body]
    outer.update(zip(sums, _insert_split(b, root, partial_sums, sums, before, outer), strict=True))
    _move_out(b, [i for i in work if i.module is body], outer)
    b.module.set_modules(root, ())
    b.program.remove_module(body)
    return outer.get(result, result)


def _live_after(
    work: list[Instruction], sums: list[Instruction], result: Instruction
) -> list[Instruction]:
    """The values that are live after the last sum."""
    last = work.index(sums[-1])
    needed = needed_for(sums)
    later = set(work[last + 1 :])
    return [
        i
        for i in work[:last]
        if i not in sums
        and (i is result or not later.isdisjoint(i.users))
        and (len(sums) == 1 or i in needed)
    ]


def _move_out(b: Rewriter, work: list[Instruction], outer: dict[Instruction, Instruction]) -> None:
    """Move instructions out of the body, before its kernel."""
    for one in work:
        b.module.take(one, [outer.get(i, i) for i in one.inputs])
        b.module.reinfer(one)
        if one.literal is None:
            b.module.move(one, b.root)


def _insert_split(
    b: Rewriter,
    root: Instruction,
    work: list[Instruction],
    sums: list[Instruction],
    before: list[Instruction],
    outer: dict[Instruction, Instruction],
) -> list[Instruction]:
    """Insert the kernel of the sums before the root; its results."""
    name = unused_name(b.program, f"{root.modules[0].name}_split")
    body = Body(b.program.create_module(name, bypass=True))
    read = {i for one in work for i in one.inputs}
    for value in before:
        if value in read:
            body.inner(value)
    for parameter, value in outer.items():
        if parameter in read:
            body.know(parameter, body.inner(value))
    for one in work:
        body.take(one)
    body.close(*sums)
    split = b(
        "split_fused_reduce", *body.inputs, modules=[body.module], axes=axes_of(root),
        assign="assign_add",
    )  # fmt: skip
    b.module.set_sources(split, root.sources)
    results = [split]
    if len(sums) > 1:
        results = [b("get_tuple_elem", split, index=i) for i in range(len(sums))]
    for one, other in zip(sums, results, strict=True):
        b.program.tell_replaced(one, other)
    return results


@register
class SplitReduce(RewritePass):
    """Large sums become kernels of their own, in which each block adds up a part.

    The work of a ``fused_reduce`` before and after its sums goes back into the module.

    Attributes:
        split_size: The fewest elements per result for which a sum is split.
    """

    name = "split_reduce"
    rules = (split_sums,)
    split_size: int = SPLIT_SIZE

    def apply(self, program: Program) -> None:
        """Split every kernel whose sums are large enough."""
        function = partial(_split, split_size=self.split_size)
        drive(program, [replace(r, function=function) for r in self.active])
