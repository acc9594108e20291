"""Reductions and the work around them: the kernels that they become, worked out before anything is moved."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ops.fused import FusedReduce, PointwiseModule
from workbench.compiler.ops.reduce import reduced_axes
from workbench.compiler.passes.fuse.kernels.chains import Node, Nodes
from workbench.compiler.passes.fuse.kernels.pairs import (
    BETWEEN,
    KERNELS,
    LARGEST_BODY,
    Link,
    axes_of,
    broadcast_obstacle,
    link_of,
    widened_product,
)
from workbench.compiler.passes.tidy.eliminate_common_subexpression import share
from workbench.compiler.rewrite import change
from workbench.compiler.rewrite.bodies import Body, keeps_shape, unused_name

_rank_of = itemgetter(0)


class ReductionNode(Node):
    """The kernel of a reduction, or of elementwise work that a reduction may take."""

    def __init__(self, place: int, x: Instruction, name: str) -> None:
        """The kernel of one instruction: elementwise work, a reduction, or one that has a kernel already."""
        super().__init__(place, x)
        self.name = name
        self.axes = axes_of(x) if x.modules else reduced_axes(x)
        self.reduces = not isinstance(x.op, PointwiseModule)
        self.ends = x.sources
        """The source nodes of the end of its body."""
        self.is_fixed = isinstance(x.op, FusedReduce)

    @property
    def lines(self) -> int:
        """The number of lines of its body, with those of the bodies in it."""
        return self.inside + (self.kernel.lines if self.reduces else 0)

    def take(self, producer: ReductionNode, link: Link) -> None:
        """Become one with a kernel that this one reads."""
        names = (producer.name, self.name)
        anew = None if producer.reduces else self.kernel.sources
        if self.reduces:
            self.ends = producer.ends if anew is None else anew
            names = names[::-1] if producer.reduces else names
        through = () if link.broadcast is None else (link.broadcast,)
        self.kernel.take(producer.kernel, through, anew)
        self.name = ":".join(names)
        self.axes = self.axes or producer.axes
        self.reduces = True
        self.inside += producer.inside
        self.is_fixed |= producer.is_fixed or bool(link.dropped)


class Reductions(Nodes[ReductionNode]):
    """Kernels of reductions and elementwise work, merged as the rules of ``fuse_reduce`` would."""

    def __init__(self, module: Module, names: Mapping[Instruction, str]) -> None:
        """The kernels of single instructions; ``names`` has the names of bodies of reductions."""
        super().__init__()
        self._known: dict[Instruction, Link] = {}
        """The links that have been found, by the values that end them."""
        kinds = set(filter(_may_be_part, set(module.kinds)))
        for x in module.of_kinds(kinds):
            if x in names or (isinstance(x.op, KERNELS) and _is_plain(x)):
                name = names.get(x) or x.modules[0].name
                self.add(ReductionNode(len(self.all), x, name))

    def may_move(self, producer: ReductionNode, reader: ReductionNode) -> bool:
        """Whether one of two kernels is a reduction, as rules move those."""
        return producer.reduces or reader.reduces

    def first_places(self) -> set[int]:
        """The places of reductions and of what reads them."""
        reductions = [node for node in self.all if node.reduces]
        return {n.place for one in reductions for n in (one, *self.readers(one.root))}

    def merge_one(self, node: ReductionNode) -> bool:
        """Let a kernel take the first one that it can, elementwise work before reductions."""
        for _, producer, link in self._links(node):
            if self._may_take(node, producer, link):
                node.take(producer, link)
                return True
        return False

    def _links(self, node: ReductionNode) -> list[tuple[int, ReductionNode, Link]]:
        """The links from other kernels, one of the two a reduction, by rank: direct ones before others."""
        found: list[tuple[int, ReductionNode, Link]] = []
        of, known, reduces = self.of, self._known, node.reduces
        for value in node.kernel.inputs:
            link = known.get(value)
            if link is None:
                if value not in of and not isinstance(value.op, BETWEEN):
                    continue
                link = known[value] = link_of(value)
            producer = of.get(link.producer)
            if producer is not None and (producer.reduces or reduces):
                rank = 2 * producer.reduces + (link.broadcast is not None)
                found.append((rank, producer, link))
        if len(found) > 1:
            found.sort(key=_rank_of)
        return found

    def _may_take(self, node: ReductionNode, producer: ReductionNode, link: Link) -> bool:
        """Whether nothing is between two kernels, as ``link_obstacle`` says of kernels that are there."""
        axes = node.axes or producer.axes
        if producer.reduces and producer.axes != axes:
            return False
        direct = link.broadcast is None and not link.dropped
        if (not direct or link.producer.only_user is None) and self.others_read(link.values, node):
            return False
        if producer.lines + node.lines > LARGEST_BODY:
            return False
        if not producer.reduces and widened_product(producer.root) is not None:
            return False
        return link.broadcast is None or not broadcast_obstacle("", link.broadcast, axes)

    def merge(self) -> list[ReductionNode]:
        """Merge kernels; those that are left out have a part that is not row-major."""
        return [node for node in super().merge() if all(map(_is_row_major, node.kernel.parts))]


def _may_be_part(kind: type[Operation]) -> bool:
    return kind.monoid is not None or issubclass(kind, KERNELS)


def _is_plain(kernel: Instruction) -> bool:
    """Whether a kernel has one result of known lens."""
    return kernel.shape.dims is None and kernel.shape.is_tensor


def _is_row_major(part: Instruction) -> bool:
    return isinstance(part.op, BETWEEN) or keeps_shape(part.shape, part.inputs)


@change
def wrap_reductions(
    root: Instruction, node: ReductionNode, made: Mapping[Instruction, Instruction]
) -> Instruction:
    """g(reduce(f(x…)), y…) → fused_reduce(x…, y…)"""
    program = root.module.program
    module = program.create_module(unused_name(program, node.name), bypass=True)
    body = Body(module)
    inputs = node.kernel.inputs.items()
    body.fill([(made.get(value, value), None, sources) for value, sources in inputs])
    shape = None if root.shape.ranges else root.shape  # all parts are row-major
    fused = body.stand_for_all(node.kernel.parts, make("fused_reduce", axes=node.axes), shape)
    if (end := module.last) is not None and end.sources != node.ends:
        module.set_sources(end, node.ends)
    share(module)
    return fused
