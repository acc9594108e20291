"""Reductions and the work around them: the kernels that they become, worked out before anything is moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ops.fused import FusedReduce, PointwiseModule
from workbench.compiler.ops.reduce import reduced_axes
from workbench.compiler.passes.fuse.kernels.chains import Kernel
from workbench.compiler.passes.fuse.kernels.common_space import behind_moves
from workbench.compiler.passes.fuse.kernels.pairs import (
    BETWEEN,
    LARGEST_BODY,
    Link,
    axes_of,
    broadcast_obstacle,
    lines,
    link_of,
)
from workbench.compiler.passes.tidy.eliminate_common_subexpression import share
from workbench.compiler.rewrite import change
from workbench.compiler.rewrite.bodies import Body, keeps_shape, unused_name


class Node:
    """A kernel to be in the graph of all kernels of a module."""

    def __init__(self, place: int, x: Instruction, name: str) -> None:
        """The kernel of one instruction: elementwise work, a reduction, or one that has a kernel already."""
        self.place = place
        self.root = x
        self.kernel = Kernel(x, dict.fromkeys(x.inputs))
        self.name = name
        self.axes = axes_of(x) if x.modules else reduced_axes(x)
        self.reduces = not isinstance(x.op, PointwiseModule)
        self.inside = lines(*x.modules)
        """The lines of the bodies in its body."""
        self.ends = x.sources
        """The source nodes of the end of its body."""
        self.is_fixed = isinstance(x.op, FusedReduce)
        """Whether rules make it, one by one, as others may have a part in it."""

    @property
    def lines(self) -> int:
        """The number of lines of its body."""
        own = len(self.kernel.inputs) + len(self.kernel.parts) + 1 if self.reduces else 0
        return own + self.inside

    def take(self, producer: Node, link: Link) -> None:
        """Become one with a kernel that this one reads."""
        names = (producer.name, self.name)
        if self.reduces:
            self.ends = producer.ends if producer.reduces else self.kernel.sources
            names = names[::-1] if producer.reduces else names
        through = () if link.broadcast is None else (link.broadcast,)
        self.kernel.take(producer.kernel, through, anew=not producer.reduces)
        self.name = ":".join(names)
        self.axes = self.axes or producer.axes
        self.reduces = True
        self.inside += producer.inside
        self.is_fixed |= producer.is_fixed or bool(link.dropped)


class Nodes:
    """The kernels of a module, merged as the rules of ``fuse_reduce`` would merge them one by one."""

    def __init__(self, module: Module, names: Mapping[Instruction, str]) -> None:
        """The kernels of single instructions; ``names`` has the names of bodies of reductions."""
        self.of: dict[Instruction, Node] = {}
        """The kernel that an instruction is a part of."""
        self.all: list[Node] = []
        for x in module:
            if x in names or (isinstance(x.op, PointwiseModule | FusedReduce) and _is_plain(x)):
                name = names.get(x) or x.modules[0].name
                self.of[x] = Node(len(self.all), x, name)
                self.all.append(self.of[x])

    def fix_beside_views(self) -> None:
        """Leave alone the kernels that rules may move into other dimensions, as only views part them."""
        for node in self.all:
            for value in node.root.inputs:
                other = self.of.get(behind_moves(value) or value)
                if other is not None and other.root is not value and other.reduces | node.reduces:
                    other.is_fixed = node.is_fixed = True

    def merge(self) -> list[Node]:
        """Go through the kernels until none can be merged; those of several instructions, unless fixed."""
        pending = [node.place for node in self.all]
        while pending:
            heapify(pending)
            again: dict[int, None] = {}
            while pending:
                node = self.all[heappop(pending)]
                if node.place not in again and self.of[node.root] is node and self._merge_one(node):
                    again[node.place] = None
                    for reader in self._readers(node.root):
                        heappush(pending, reader.place)
            pending = [*again]
        return [n for n in self.all if self.of[n.root] is n and _is_ready(n)]

    def _merge_one(self, node: Node) -> bool:
        """Let a kernel take the first one that it can, elementwise work before reductions."""
        links = sorted(map(link_of, node.kernel.inputs), key=lambda k: k.broadcast is not None)
        for reduces in (False, True) if node.reduces else (True,):
            for link in links:
                producer = self.of.get(link.producer)
                if producer is None or producer.reduces != reduces:
                    continue
                if self._may_take(node, producer, link):
                    node.take(producer, link)
                    self.of.update(dict.fromkeys(node.kernel.parts, node))
                    return True
        return False

    def _may_take(self, node: Node, producer: Node, link: Link) -> bool:
        """Whether nothing is between two kernels, as ``link_obstacle`` says of kernels that are there."""
        axes = node.axes or producer.axes
        if producer.reduces and producer.axes != axes:
            return False
        through = [link.producer, *link.dropped, *([link.broadcast] if link.broadcast else [])]
        for value in through:
            if any(self.of.get(u) is not node and u not in through for u in value.users):
                return False
        if producer.lines + node.lines > LARGEST_BODY:
            return False
        return link.broadcast is None or not broadcast_obstacle("", link.broadcast, axes)

    def _readers(self, value: Instruction) -> Iterator[Node]:
        """The kernels that read a value, perhaps through a broadcast."""
        for user in value.users:
            if user in self.of:
                yield self.of[user]
            elif isinstance(user.op, BETWEEN):
                yield from self._readers(user)


def _is_plain(kernel: Instruction) -> bool:
    """Whether a kernel has one result of known lens."""
    return kernel.shape.dims is None and kernel.shape.is_tensor


def _is_ready(node: Node) -> bool:
    """Whether a kernel may be made in one edit: it has several parts, and all of them are row-major."""
    parts = [part for part in node.kernel.parts if not isinstance(part.op, BETWEEN)]
    return (
        len(parts) > 1
        and not node.is_fixed
        and all(keeps_shape(part.shape, part.inputs) for part in parts)
    )


@change
def wrap_reductions(
    root: Instruction, node: Node, inputs: Mapping[Instruction, Instruction]
) -> Instruction:
    """g(reduce(f(x…)), y…) → fused_reduce(x…, y…)"""
    program = root.module.program
    module = program.create_module(unused_name(program, node.name), bypass=True)
    body = Body(module)
    for value, sources in node.kernel.inputs.items():
        with program.source(*sources):
            body.inner(inputs.get(value, value))
    for part in node.kernel.parts:
        if part is not root:
            body.take(part)
    made = body.stand_for(root, "fused_reduce", axes=node.axes)
    if (end := module.last) is not None and end.sources != node.ends:
        module.set_sources(end, node.ends)
    share(module)
    return made
