"""Fusion of reductions with the elementwise work before, after and between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.fused import FusedReduce, PointwiseModule
from workbench.compiler.ops.reduce import is_reduction, reduced_axes
from workbench.compiler.passes.base import RewritePass, open_modules, register
from workbench.compiler.passes.fuse.fuse_pointwise import broadcast_first, follows_pointwise
from workbench.compiler.passes.fuse.kernels.common_space import (
    join_kernels,
    rewrite_reduce_reshapes,
)
from workbench.compiler.passes.fuse.kernels.pairs import (
    BETWEEN,
    Link,
    axes_of,
    is_linked,
    link_obstacle,
    links,
    who,
    widened_product,
)
from workbench.compiler.passes.fuse.kernels.reductions import (
    ReductionNode,
    Reductions,
    wrap_reductions,
)
from workbench.compiler.passes.fuse.kernels.sweep import sweep
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.passes.tidy.eliminate_common_subexpression import share
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Rewriter,
    Rule,
    candidates,
    first_applied,
    rule,
)
from workbench.compiler.rewrite.bodies import Body, numbered_name, prune_all, unused_name


def _reduces(op: type[Operation]) -> bool:
    return op.monoid is not None


@rule(Pattern(binding="x", kind=_reduces, structure=is_reduction), dynamic=True)
def wrap_reduce(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """reduce(a) → fused_reduce(a), [reduce]"""
    if not b.program.strict and (x.inputs[0].shape.is_dynamic or x.shape.is_dynamic):
        return Decline(f"{x.name} #{x.id} has dynamic dimensions; a body has static ones")
    axes, (name, _) = reduced_axes(x), _next_name(x)
    body = Body(b.program.create_module(name, bypass=True))
    return body.stand_for(x, "fused_reduce", axes=axes)


def _next_name(x: Instruction) -> tuple[str, int]:
    """The name of the next body of a module, that of a reduction, and its number."""
    program, series = x.module.program, _series(x.module)
    name, number = numbered_name(program, f"{x.module.name}:{x.name}", program.numbers[series])
    program.numbers[series] = number + 1
    return name, number


def _series(module: Module) -> str:
    return f"{module.name}:reduce"


def wrap_all(program: Program, across: Collection[Rule]) -> None:
    """Make kernels of all reductions, with the work around them unless other rules may have a part in it.

    Args:
        program: The program.
        across: The rules that move kernels into other dimensions before they are merged.
    """
    named = {m: _names(m) for m in open_modules(program)}
    version = program.version
    DeadCodeElimination().apply(program)
    one_by_one = candidates((wrap_reduce,))
    for module in open_modules(program):
        names = named[module]
        if program.version != version:  # by it, or by kernels of another module
            names = {x: name for x, name in names.items() if program.find(x.id) is x}
        made: dict[Instruction, Instruction] = {}
        for node in _planned(module, names, across) if names else ():
            made[node.root] = wrap_reductions(node.root, node, made)
        for x in _reductions(module):
            if x in names:
                program.numbers[_series(module)] = names[x][1]
            first_applied(one_by_one.at(x), x)


def _planned(
    module: Module, names: Mapping[Instruction, tuple[str, int]], across: Collection[Rule]
) -> list[ReductionNode]:
    """The kernels that the reductions of a module become with the work around them."""
    nodes = Reductions(module, {x: name for x, (name, _) in names.items()})
    if across:
        nodes.fix_beside_views()
    return nodes.merge()


def _names(module: Module) -> dict[Instruction, tuple[str, int]]:
    """The name of the body of each reduction in a module, and its number, where lengths are known."""
    found = [x for x in _reductions(module) if x.shape.dims is None]
    return {x: _next_name(x) for x in found if x.inputs[0].shape.dims is None}


def _reductions(module: Module) -> list[Instruction]:
    kinds = set(filter(_reduces, set(module.kinds)))
    return [x for x in module.of_kinds(kinds) if is_reduction(x)]


def _rooted(root: type[Operation], kind: type[Operation]) -> Pattern:
    """A pattern for a fused operation that reads the result of another kind, perhaps through a broadcast."""
    return Pattern(
        frozenset({root.name}),
        binding="root",
        reads=frozenset(one.name for one in (kind, *BETWEEN)),
        structure=lambda i: is_linked(i, kind),
    )


def _chosen(
    root: Instruction,
    kind: type[Operation],
    obstacle: Callable[[Instruction, Link], str] = link_obstacle,
) -> Link | Decline:
    """The first link to a producer of a kind along which fusion is possible, or the reasons against all."""
    reasons: list[str] = []
    for link in links(root, kind):
        if reason := obstacle(root, link):
            reasons.append(reason)
        else:
            return link
    return Decline("; ".join(reasons))


def _open(link: Link) -> Body:
    """The producer's body, reopened, with the broadcast after its result."""
    body = Body(link.producer.modules[0], link.producer.inputs)
    body.know(link.producer, body.results[0])
    _take_broadcast(body, link)
    return body


def _take_broadcast(body: Body, link: Link) -> None:
    """Drop the contiguous instructions, and take the broadcast into the body."""
    for one in link.dropped:
        one.module.replace(one, one.inputs[0])
    if link.broadcast is not None:
        body.take(link.broadcast)


@rule(_rooted(PointwiseModule, FusedReduce))
def find_reduce_pointwise(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """pointwise(fused_reduce(x…), y…) → fused_reduce(x…, y…)"""
    link = _chosen(root, FusedReduce)
    if isinstance(link, Decline):
        return link
    name = f"{link.producer.modules[0].name}:{root.modules[0].name}"
    body = _open(link)
    body.module.rename(unused_name(b.program, name))
    fused = body.stand_for(root, "fused_reduce", axes=axes_of(link.producer))
    prune_all([link.producer])
    share(body.module)
    return fused


def _obstacle_before(root: Instruction, link: Link) -> str:
    """The reason why a reduction does not take the elementwise work before it; empty if it does."""
    if reason := link_obstacle(root, link):
        return reason
    if (product := widened_product(link.producer)) is not None:
        return f"{who(link.producer)} widens the result of {who(product)}, which need not be rounded before"
    return ""


@rule(_rooted(FusedReduce, PointwiseModule))
def find_pointwise_reduce(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """fused_reduce(pointwise(x…), y…) → fused_reduce(x…, y…)"""
    link = _chosen(root, PointwiseModule, _obstacle_before)
    if isinstance(link, Decline):
        return link
    name = f"{link.producer.modules[0].name}:{root.modules[0].name}"
    body = Body(b.program.create_module(unused_name(b.program, name), bypass=True))
    body.take(link.producer)
    _take_broadcast(body, link)
    body.close(*body.absorb(root.modules[0], root.inputs))
    body.attach(root)
    share(body.module)
    return root


@rule(_rooted(FusedReduce, FusedReduce))
def find_reduce_reduce(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """fused_reduce(fused_reduce(x…), y…) → fused_reduce(x…, y…)"""
    link = _chosen(root, FusedReduce)
    if isinstance(link, Decline):
        return link
    name = f"{root.modules[0].name}:{link.producer.modules[0].name}"
    body = _open(link)
    body.close(*body.absorb(root.modules[0], root.inputs))
    body.attach(root)
    prune_all([link.producer])
    body.module.rename(unused_name(b.program, name))
    share(body.module)
    return root


def _before_reduction(instruction: Instruction) -> bool:
    return follows_pointwise(instruction, FusedReduce)


@rule(Pattern(frozenset({"multibroadcast"}), binding="root", structure=_before_reduction))
def broadcast_reduced(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """fused_reduce(multibroadcast(pointwise(x…))) → fused_reduce(pointwise(multibroadcast(x)…))"""
    return broadcast_first(b, root)


_JOINS = (find_reduce_pointwise, find_pointwise_reduce, find_reduce_reduce)


@register
class FuseReduce(RewritePass):
    """Reductions and the elementwise work around them become bodies of ``fused_reduce`` kernels.

    A layer normalisation or a softmax becomes one kernel: the result of one reduction may be broadcast over
    the reduced axes and combined with the whole input again.

    Attributes:
        enable_rewrite_reshapes: Also fuse across reshapes and transposes.
        enable_rewrite_broadcasts: Also fuse elementwise work that is broadcast before it is reduced.
        stepwise: Make a kernel of each reduction first, and then one of two, edit by edit, as MIGraphX does.
            The result is the same as with one edit for each kernel.
    """

    name = "fuse_reduce"
    rules = (
        wrap_reduce, rewrite_reduce_reshapes, broadcast_reduced, find_reduce_pointwise,
        find_pointwise_reduce, find_reduce_reduce,
    )  # fmt: skip
    enable_rewrite_reshapes: bool = True
    enable_rewrite_broadcasts: bool = False
    stepwise: bool = False

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options switch on, and those that no option controls."""
        switched = {
            rewrite_reduce_reshapes: self.enable_rewrite_reshapes,
            broadcast_reduced: self.enable_rewrite_broadcasts,
        }
        return tuple(r for r in self.rules if switched.get(r, True))

    def apply(self, program: Program) -> None:
        """Wrap every reduction, then merge the bodies."""
        program.numbers.clear()
        clearing = (rewrite_reduce_reshapes, broadcast_reduced)
        across = [r for r in self.active if r in clearing]
        joins = [r for r in self.active if r is not wrap_reduce and r not in clearing]
        whole = wrap_reduce in self.active and len(joins) == len(_JOINS)
        steps = self.stepwise or program.newest_first or broadcast_reduced in across
        if whole and not steps:
            wrap_all(program, across)
        else:
            sweep(program, [r for r in self.active if r is wrap_reduce])
        join_kernels(program, joins, across)
