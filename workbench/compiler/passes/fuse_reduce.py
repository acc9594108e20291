"""Fusion of reductions with the elementwise work before, after and between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from workbench.compiler.bodies import Body, numbered_name, prune_all, unused_name
from workbench.compiler.errors import OperationError
from workbench.compiler.ir import Instruction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.program import Program
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, Rule, drive, rule


def is_reduction(instruction: Instruction) -> bool:
    """Whether an instruction reduces its only input: a ``reduce_*``, ``argmin`` or ``argmax``."""
    name = instruction.name
    return len(instruction.inputs) == 1 and (
        name.startswith("reduce_") or name in ("argmin", "argmax")
    )


def reduced_axes(instruction: Instruction) -> tuple[int, ...]:
    """The axes that a reduction removes or makes 1, in ascending order."""
    shapes = [i.shape for i in instruction.inputs]
    attributes = instruction.op.normalized(shapes).attributes()
    if "axis" in attributes:
        return (attributes["axis"],)
    return tuple(sorted(attributes["axes"])) or tuple(range(shapes[0].ndim))


@rule(Pattern(binding="x", structure=is_reduction))
def wrap_reduce(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """reduce(a) → fused_reduce(a), [reduce]"""
    if x.inputs[0].shape.is_dynamic or x.shape.is_dynamic:
        return Decline(f"{x.name} #{x.id} has dynamic dimensions; a body has static ones")
    program, series = b.program, f"{b.module.name}:reduce"
    axes, number = reduced_axes(x), program.numbers[series]
    name, number = numbered_name(program, f"{b.module.name}:{x.name}", number)
    program.numbers[series] = number + 1
    body = Body(program.create_module(name, bypass=True))
    return body.stand_for(x, "fused_reduce", axes=axes)


@dataclass(frozen=True)
class _Link:
    """What joins a producer to its user: nothing, or a broadcast over the reduced axes."""

    producer: Instruction
    broadcast: Instruction | None = None
    dropped: tuple[Instruction, ...] = ()
    """Instructions named ``contiguous`` around the broadcast."""


def _link_of(value: Instruction) -> _Link:
    """How ``value`` comes from what produces it, looking through one broadcast and contiguous ones."""
    dropped: list[Instruction] = []
    broadcast: Instruction | None = None
    while True:
        if value.name == "contiguous":
            dropped.append(value)
        elif value.name == "multibroadcast" and broadcast is None and len(value.inputs) == 1:
            broadcast = value
        else:
            return _Link(value, broadcast, tuple(dropped))
        value = value.inputs[0]


def _links(root: Instruction, kind: str) -> list[_Link]:
    """The ways in which inputs of ``root`` come from operations of a kind, direct ones first."""
    found = [_link_of(i) for i in dict.fromkeys(root.inputs)]
    return sorted(
        (k for k in found if k.producer.name == kind), key=lambda k: k.broadcast is not None
    )


def _rooted(root: str, kind: str) -> Pattern:
    """A fused operation that uses what one of another kind gives, perhaps behind a broadcast."""
    return Pattern(frozenset({root}), binding="root", structure=lambda i: bool(_links(i, kind)))


def _chosen(root: Instruction, kind: str) -> _Link | Decline:
    """The first link to a producer of a kind along which fusion is possible, or why there is none."""
    reasons: list[str] = []
    for link in _links(root, kind):
        if reason := _obstacle(root, link):
            reasons.append(reason)
        else:
            return link
    return Decline("; ".join(reasons))


def _obstacle(root: Instruction, link: _Link) -> str:
    """Why ``root`` cannot be fused with the link's producer; empty if it can."""
    producer, broadcast = link.producer, link.broadcast
    who = f"{producer.name} #{producer.id}"
    if producer.module is not root.module:
        return f"{who} is in module {producer.module.name!r}, its user in {root.module.name!r}"
    if not (producer.shape.is_tensor and root.shape.is_tensor):
        return f"{who} or its user has several results"
    axes = _axes(root) or _axes(producer)
    if producer.name == "fused_reduce" and _axes(producer) != axes:
        return f"{who} reduces axes {list(_axes(producer))}; its user reduces {list(axes)}"
    through = [producer, *link.dropped, *([broadcast] if broadcast else [])]
    for value in through:
        others = [u for u in value.users if u is not root and u not in through]
        if others:
            listed = ", ".join(f"{u.name} #{u.id}" for u in others)
            return f"{value.name} #{value.id} has other users: {listed}"
    return "" if broadcast is None else _broadcast_obstacle(who, broadcast, axes)


def _broadcast_obstacle(who: str, broadcast: Instruction, axes: tuple[int, ...]) -> str:
    source, result = broadcast.inputs[0].shape, broadcast.shape
    if source.ndim != result.ndim:
        return f"multibroadcast #{broadcast.id} between adds axes to {who}: {source.ndim} to {result.ndim}"
    spread = [i for i in range(result.ndim) if result.strides[i] == 0 and result.lens[i] != 1]
    wanted = [a for a in axes if result.lens[a] != 1]
    if spread != wanted:
        where = f"along axes {spread}; the reduction is over {wanted}"
        return f"multibroadcast #{broadcast.id} repeats {who} {where}"
    return ""


def _axes(instruction: Instruction) -> tuple[int, ...]:
    return getattr(instruction.op, "axes", ())


def _open(link: _Link) -> Body:
    """The producer's body, opened, with the broadcast behind its result."""
    body = Body(link.producer.modules[0], link.producer.inputs)
    body.know(link.producer, body.results[0])
    _take_broadcast(body, link)
    return body


def _take_broadcast(body: Body, link: _Link) -> None:
    """Drop the contiguous ones, and take the broadcast into the body."""
    for one in link.dropped:
        one.module.replace(one, one.inputs[0])
    if link.broadcast is not None:
        body.take(link.broadcast)


@rule(_rooted("pointwise", "fused_reduce"))
def find_reduce_pointwise(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """pointwise(fused_reduce(x…), y…) → fused_reduce(x…, y…)"""
    link = _chosen(root, "fused_reduce")
    if isinstance(link, Decline):
        return link
    name = f"{link.producer.modules[0].name}:{root.modules[0].name}"
    body = _open(link)
    body.module.rename(unused_name(b.program, name))
    fused = body.stand_for(root, "fused_reduce", axes=_axes(link.producer))
    prune_all([link.producer])
    return fused


@rule(_rooted("fused_reduce", "pointwise"))
def find_pointwise_reduce(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """fused_reduce(pointwise(x…), y…) → fused_reduce(x…, y…)"""
    link = _chosen(root, "pointwise")
    if isinstance(link, Decline):
        return link
    name = f"{link.producer.modules[0].name}:{root.modules[0].name}"
    body = Body(b.program.create_module(unused_name(b.program, name), bypass=True))
    body.take(link.producer)
    _take_broadcast(body, link)
    body.close(*body.absorb(root.modules[0], root.inputs))
    return body.attach(root)


@rule(_rooted("fused_reduce", "fused_reduce"))
def find_reduce_reduce(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """fused_reduce(fused_reduce(x…), y…) → fused_reduce(x…, y…)"""
    link = _chosen(root, "fused_reduce")
    if isinstance(link, Decline):
        return link
    name = f"{root.modules[0].name}:{link.producer.modules[0].name}"
    body = _open(link)
    body.close(*body.absorb(root.modules[0], root.inputs))
    body.attach(root)
    prune_all([link.producer])
    body.module.rename(unused_name(b.program, name))
    return root


@register
class FuseReduce(RewritePass):
    """Reductions and the elementwise work around them become bodies of ``fused_reduce`` kernels.

    A layer normalisation or a softmax becomes one kernel: what one reduction gives may be broadcast
    over the reduced axes and used with the whole input again.

    Attributes:
        rewrite_reshapes: Also fuse across reshapes. Not available yet.
    """

    name: ClassVar[str] = "fuse_reduce"
    rules: ClassVar[tuple[Rule, ...]] = (
        wrap_reduce, find_reduce_pointwise, find_pointwise_reduce, find_reduce_reduce,
    )  # fmt: skip
    rewrite_reshapes: bool = False

    def apply(self, program: Program) -> None:
        """Wrap every reduction, then join bodies.

        Raises:
            OperationError: An option that is not available is switched on.
        """
        if self.rewrite_reshapes:
            raise OperationError(
                f"{self.name}: rewrite_reshapes=True is not available yet; leave it out"
            )
        program.numbers.clear()
        drive(program, (wrap_reduce,))
        drive(program, (find_reduce_pointwise, find_pointwise_reduce, find_reduce_reduce))
